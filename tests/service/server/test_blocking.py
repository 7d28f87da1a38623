"""A server with a blocklist: answers, streams and clients say what was not stored."""

import io
import json
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import nearkin as nk
from nearkin.service.client import batches
from nearkin.service.client.call import build_outcome
from tests.service.server.conftest import Serve

BLOCKED = "the minutes of the meeting that was never held in the house at the lake in may"
OTHER = "a timetable of the boats on the lake which stop at the house in summer months only"
URL = "/v1/scopes/a/documents"


@pytest.fixture
def list_path(tmp_path: Path) -> Path:
    """The file of a blocklist without a key."""
    blocklist = nk.Blocklist()
    blocklist.add([BLOCKED], ["req-7"])
    blocklist.save(tmp_path / "blocked.list")
    return tmp_path / "blocked.list"


@pytest.fixture
def client(serve: Serve, list_path: Path) -> TestClient:
    return serve(keyed=False, blocklist=list_path)


def test_upserts_of_blocked_documents_are_answered_and_not_stored(client: TestClient) -> None:
    answer = client.post(URL, json={"id": "one", "text": f"{BLOCKED}!"})
    assert answer.status_code == 200
    facts = answer.json()
    assert (facts["kind"], facts["layer"], facts["blocked_by"]) == ("blocked", "blocklist", "req-7")
    assert (facts["similarity"], facts["duplicate"], facts["cluster"]) == (1.0, True, "")
    assert build_outcome(facts).blocked_by == "req-7"
    assert client.get(f"{URL}/one").status_code == 404
    stored = client.post(URL, json={"id": "two", "text": OTHER}).json()
    assert stored["kind"] == "new"
    assert "blocked_by" not in stored


def test_streams_answer_for_each_document(client: TestClient) -> None:
    rows = [{"id": "a", "text": OTHER}, {"id": "b", "text": BLOCKED}]
    answer = client.post(
        URL,
        content="\n".join(map(json.dumps, rows)),
        headers={"Content-Type": "application/x-ndjson"},
    )
    outcomes = [build_outcome(orjson.loads(line)) for line in answer.content.splitlines()]
    assert [outcome.kind for outcome in outcomes] == ["new", "blocked"]
    sink = io.BytesIO()
    table = pa.table({"id": ["a", "b"], "text": [OTHER, BLOCKED]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = client.post(
        URL,
        content=sink.getvalue(),
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
    )
    outcomes = [build_outcome(row) for row in batches._decode_columns(answer.content, 2)]
    assert [outcome.kind for outcome in outcomes] == ["exact", "blocked"]
    assert [outcome.blocked_by for outcome in outcomes] == [None, "req-7"]


def test_a_list_that_does_not_fit_the_index_stops_the_start(
    serve: Serve, list_path: Path, tmp_path: Path
) -> None:
    with pytest.raises(nk.UsageError, match="whose n is 3"):
        serve(keyed=False, blocklist=list_path, index={"shingle": "words:5"})
    with pytest.raises(nk.UsageError, match="key"):
        serve(blocklist=list_path)
    with pytest.raises(nk.UsageError, match="no such blocklist"):
        serve(keyed=False, blocklist=tmp_path / "absent")


def test_metrics_count_blocked_documents(client: TestClient) -> None:
    client.post(URL, json={"text": BLOCKED})
    lines = client.get("/metrics").text.splitlines()
    (line,) = [line for line in lines if 'result="blocked"' in line and "upserts_total" in line]
    assert line.endswith(" 1.0")
