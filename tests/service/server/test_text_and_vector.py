"""A server of an index of texts and vectors: documents, queries, streams and the console."""

import io
import json
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from nearkin.service.server.live_probe import altered_copy, probe_document
from tests.service.server.conftest import Serve
from tests.service.server.console.pages import page_content, sent

TEXT = "the quick brown fox jumps over the lazy dog and runs away from it"
VECTOR = [1.0, 2.0, 3.0, 4.0]
OTHER_VECTOR = [4.0, -3.0, 2.0, -1.0]
BOTH = {"vector_dimensions": "4", "vector_threshold": "0.9", "threshold": "0.7"}
URL = "/v1/scopes/a/documents"
NOTHING = {"text": None, "vector": None, "text_reached": False, "vector_reached": False}


@pytest.fixture
def client(serve: Serve) -> TestClient:
    client = serve(index=BOTH)
    new = {"id": "one", "text": TEXT, "vector": VECTOR}
    client.post(URL, json=new).raise_for_status()
    return client


def post(client: TestClient, **members: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.post(URL, json=members).json()
    return answer


def test_documents_have_a_text_a_vector_or_both(client: TestClient) -> None:
    by_text = post(client, id="text", text=TEXT)
    assert (by_text["representative"], by_text["similarity"]) == ("one", 1.0)
    assert by_text["evidence"] == NOTHING | {"text": 1.0, "text_reached": True}
    by_vector = post(client, id="vector", text="quite other words in here", vector=VECTOR)
    assert by_vector["representative"] == "one"
    assert by_vector["evidence"] == {
        "text": 0.0,
        "vector": pytest.approx(1),
        "text_reached": False,
        "vector_reached": True,
    }
    assert post(client, id="new", vector=OTHER_VECTOR)["kind"] == "new"
    # what was stored before is not compared again
    again = post(client, id="text", text=TEXT)
    assert again["kind"] == "resolved"
    assert "evidence" not in again


def test_queries_tell_the_evidence(client: TestClient) -> None:
    body = {"text": TEXT, "vector": OTHER_VECTOR}
    (match,) = client.post("/v1/scopes/a/query", json=body).json()["matches"]
    assert match["id"] == "one"
    assert (match["evidence"]["text_reached"], match["evidence"]["vector_reached"]) == (True, False)
    assert match["evidence"]["vector"] == pytest.approx(0, abs=0.2)
    misses = client.post("/v1/scopes/a/near-misses", json=body).json()["near_misses"]
    assert misses == []


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "give text or vector, or both"),
        ({"text": TEXT, "vector": [1, 2]}, "must have 4 numbers"),
        ({"text": TEXT, "vector": [0, 0, 0, 0]}, "vector of zeros"),
    ],
)
def test_wrong_documents_are_refused(
    client: TestClient, members: dict[str, Any], message: str
) -> None:
    answer = client.post(URL, json=members)
    assert answer.status_code == 422
    assert message in answer.json()["detail"]


def test_an_index_of_texts_refuses_both(serve: Serve) -> None:
    client = serve()
    answer = client.post(URL, json={"text": TEXT, "vector": VECTOR})
    assert answer.status_code == 422
    assert "the documents of this index are texts" in answer.json()["detail"]
    assert "vector" not in client.get("/v1/spec").json()
    client.post(URL, json={"text": TEXT}).raise_for_status()
    (match,) = client.post("/v1/scopes/a/query", json={"text": TEXT}).json()["matches"]
    assert "evidence" not in match


def test_with_both_a_text_alone_is_refused(serve: Serve) -> None:
    client = serve(index={**BOTH, "combine": "both"})
    assert '"combine": "both"' in client.post(URL, json={"text": TEXT}).json()["detail"]
    post(client, id="one", text=TEXT, vector=VECTOR)
    assert post(client, id="two", text=TEXT, vector=OTHER_VECTOR)["kind"] == "new"
    assert post(client, id="three", text=TEXT, vector=VECTOR)["representative"] == "one"
    assert "combine" in sent(client, "try", text=TEXT, scope="a")
    assert "one" in page_content(client, "clusters?scope=a")
    index = client.app.state.service.index  # type: ignore[attr-defined]
    assert probe_document(index, "a", "one") is True


def test_the_spec_and_the_stats_describe_the_vectors(client: TestClient) -> None:
    spec = client.get("/v1/spec").json()
    assert spec["combine"] == "either"
    assert (spec["vector"]["threshold"], spec["vector"]["spec"]["n"]) == (0.9, 4)
    assert spec["vector"]["spec"]["key_id"] == spec["spec"]["key_id"]
    stats = client.get("/v1/stats").json()
    assert (stats["vector_threshold"], stats["combine"]) == (0.9, "either")
    assert stats["vector_bands"] == spec["vector"]["bands"]


def test_streams_take_both_columns(client: TestClient) -> None:
    lines = [{"id": "line", "text": TEXT, "vector": OTHER_VECTOR}, {"vector": [1]}, {"text": TEXT}]
    body = "\n".join(map(json.dumps, lines))
    headers = {"content-type": "application/x-ndjson"}
    answers = client.post(URL, content=body, headers=headers).text.splitlines()
    first, wrong, last = map(json.loads, answers)
    assert (first["representative"], first["evidence"]["text_reached"]) == ("one", True)
    assert "must have 4 numbers" in wrong["problem"]["detail"]
    assert last["representative"] == "one"


def test_arrow_streams_take_both_columns(client: TestClient) -> None:
    table = pa.table(
        {
            "text": [TEXT, None, None, "some other words that nobody wrote"],
            "vector": pa.array([OTHER_VECTOR, VECTOR, None, None], pa.list_(pa.float32())),
        }
    )
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = client.post(URL, content=out.getvalue(), headers=headers)
    rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [row["representative"] for row in rows[:2]] == ["one", "one"]
    assert [row["evidence_text_reached"] for row in rows] == [True, False, None, None]
    assert [row["evidence_vector_reached"] for row in rows] == [False, True, None, None]
    assert rows[1]["evidence_text"] is None
    assert "null" in json.loads(rows[2]["problem"])["detail"]
    assert rows[3]["kind"] == "new"


def test_probes_find_documents_by_either_kind(client: TestClient) -> None:
    post(client, id="vector", vector=OTHER_VECTOR)
    index = client.app.state.service.index  # type: ignore[attr-defined]
    for id in ("one", "vector"):
        assert probe_document(index, "a", id) is True
        entry = index.get("a", id)
        assert entry is not None
        assert altered_copy(index, entry) is not None


def test_the_search_page_takes_a_text_or_both_as_json(client: TestClient) -> None:
    assert "Search for a text and vector" in page_content(client, "try")
    by_text = sent(client, "try", text=TEXT, scope="a")
    assert "1 representative is 0.700 (texts) or 0.900 (vectors) similar or more" in by_text
    assert "text 1.000" in by_text
    assert "vector none" in by_text
    both = json.dumps({"text": TEXT, "vector": OTHER_VECTOR})
    found = sent(client, "try", text=both, scope="a")
    assert "below its threshold" in found
    wrong = sent(client, "try", text='{"texts": 5}', scope="a")
    assert "warnings" in wrong
    assert "one" in page_content(client, "clusters?scope=a&id=one")
    assert "Candidate probability" in page_content(client, "tuning?scope=a")
