"""Streams of documents as lines of JSON."""

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from nearkin.errors import StoreError
from nearkin.service.server.streams.ndjson import LineSplitter
from tests.service.server.conftest import Serve

URL = "/v1/scopes/a/documents"
NDJSON = "application/x-ndjson"


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve(batch=16, max_line=2000)


def post(client: TestClient, *rows: object) -> list[dict[str, object]]:
    body = b"".join(
        (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
    )
    answer = client.post(URL, content=body, headers={"content-type": NDJSON})
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.text.splitlines()]


def test_each_line_has_its_answer(client: TestClient) -> None:
    answers = post(
        client,
        {"id": "1", "text": "a b c d"},
        b"no json",
        b"",
        {"x": 1},
        {"id": "2", "text": "a b c d"},
        {"text": "x" * 3000},
    )
    assert [line["line"] for line in answers] == [1, 2, 4, 5, 6]
    assert [line.get("kind") for line in answers] == ["new", None, None, "match", None]
    assert [line["problem"]["code"] for line in answers if "problem" in line] == [
        "not-json",
        "invalid-request",
        "too-large",
    ]


def test_stream_equals_single_upserts(client: TestClient, serve: Serve) -> None:
    words = [f"w{i}" for i in range(40)]
    rows = [{"id": str(i), "text": " ".join(words[i % 7 : i % 7 + 30])} for i in range(100)]
    answers = post(client, *rows)
    single = serve()
    expected = [single.post(URL, json=row).json() for row in rows]
    names = ("kind", "id", "cluster", "representative", "similarity")
    assert [[line[name] for name in names] for line in answers] == [
        [line[name] for name in names] for line in expected
    ]


def test_stream_is_answered_before_the_request_ends(client: TestClient) -> None:
    def rows() -> Iterator[bytes]:
        for i in range(2000):
            yield json.dumps({"id": str(i), "text": f"document {i} of many " * 20}).encode() + b"\n"

    answer = client.post(URL, content=rows(), headers={"content-type": NDJSON})
    assert len(answer.text.splitlines()) == 2000


def test_store_failure_is_reported_per_line(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise StoreError("connection to redis://secret lost")

    monkeypatch.setattr(client.app.state.service.index._session.store, "apply", failing)  # type: ignore[attr-defined]
    answers = post(client, {"text": "a b c"}, {"text": "d e f"})
    assert [line["problem"]["code"] for line in answers] == ["store-unavailable"] * 2
    assert "secret" not in json.dumps(answers)
    single = client.post(URL, json={"text": "a b c"})
    assert (single.status_code, single.json()["code"]) == (503, "store-unavailable")
    assert int(single.headers["retry-after"]) >= 1


def test_long_lines_are_skipped_and_not_kept_in_memory() -> None:
    splitter = LineSplitter(10)
    lines = []
    for part in (b"ab", b"c\nx", b"y" * 20, b"z" * 20, b"\nok\n", b"w" * 50):
        lines += splitter.add(part)
        assert splitter.size <= 10
    assert [*lines, *splitter.finish()] == [b"abc", None, b"ok", None]
