"""Related documents over HTTP: the words of the library in answers, streams and clients."""

import io
import json

import orjson
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import nearkin as nk
from nearkin.index.index_facts import IndexFacts
from nearkin.service.client import batches
from nearkin.service.client.call import build_outcome
from tests.service.server.conftest import Serve, client_of

TEXT = "one two three four five six seven eight nine ten"
LONGER = f"{TEXT} more and more words"
URL = "/v1/scopes/a/documents"
INDEX = {"shingle": "words:1", "threshold": "0.8", "related": "0.5"}


@pytest.fixture
def client(serve: Serve) -> TestClient:
    client = serve(index=INDEX)
    client.post(URL, json={"id": "one", "text": TEXT}).raise_for_status()
    return client


def test_upserts_and_queries_name_related_documents(client: TestClient) -> None:
    answer = client.post(URL, json={"id": "two", "text": LONGER}).json()
    assert (answer["kind"], answer["duplicate"]) == ("related", False)
    similarity = pytest.approx(10 / 13)
    assert answer["related"] == [{"id": "one", "cluster": "one", "similarity": similarity}]
    again = client.post(URL, json={"id": "two", "text": LONGER}).json()
    assert (again["kind"], again["related"]) == ("exact", [])
    query = {"text": f"{LONGER} too", "related": True}
    found = client.post("/v1/scopes/a/query", json=query).json()
    assert [match["id"] for match in found["matches"]] == ["two"]
    assert [match["id"] for match in found["related"]] == ["one"]
    elsewhere = client.post("/v1/scopes/b/query", json=query).json()
    assert elsewhere == {"matches": [], "related": []}
    assert "related" not in client.post("/v1/scopes/a/query", json={"text": LONGER}).json()
    assert client.get("/v1/spec").json()["related"] == 0.5


def test_streams_name_related_documents(client: TestClient) -> None:
    documents = [
        nk.index_types.NewDocument(LONGER, "two"),
        nk.index_types.NewDocument("quite other words", "three"),
    ]
    lines = [json.dumps({"id": each.id, "text": each.document}) for each in documents]
    answer = client.post(
        URL, content="\n".join(lines), headers={"Content-Type": "application/x-ndjson"}
    )
    first, second = (build_outcome(orjson.loads(line)) for line in answer.content.splitlines())
    assert (first.kind, second.kind) == ("related", "new")
    assert first.related == (nk.index_types.RelatedDocument("one", "one", 10 / 13),)
    assert second.related == ()
    sink = io.BytesIO()
    table = pa.table({"id": ["four", "five"], "text": [f"{LONGER} x", "nothing alike"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = client.post(
        URL,
        content=sink.getvalue(),
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
    )
    rows = batches._decode_columns(answer.content, 2)
    outcomes = [build_outcome(row) for row in rows]
    assert [outcome.kind for outcome in outcomes] == ["match", "new"]
    assert [document.id for document in outcomes[0].related or ()] == ["one"]
    assert outcomes[1].related == ()


def test_client_requests_read_related_documents(client: TestClient) -> None:
    caller = client_of(client)
    outcome = caller.upsert("a", LONGER, "two")
    assert outcome.kind == "related"
    assert outcome.related == (nk.index_types.RelatedDocument("one", "one", 10 / 13),)
    (match,) = caller.related("a", f"{LONGER} too", 10)
    assert isinstance(match, nk.index_types.Match)
    assert match.id == "one"
    facts = caller.spec()
    assert isinstance(facts, IndexFacts)
    assert facts.related == 0.5


def test_index_without_the_setting_answers_as_before(serve: Serve) -> None:
    client = serve(index={"shingle": "words:1", "threshold": "0.8"})
    answer = client.post(URL, json={"id": "one", "text": TEXT}).json()
    assert "related" not in answer
    assert "related" not in client.get("/v1/spec").json()
    refused = client.post("/v1/scopes/a/query", json={"text": TEXT, "related": True})
    assert refused.status_code == 422
    assert "created without" in refused.json()["detail"]
