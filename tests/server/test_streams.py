"""Many documents in one request."""

import asyncio
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from nearkin.errors import StoreError
from nearkin.server.http.callers import SERVER_CALLER
from nearkin.server.http.shares import Reservation, ResourcePool
from nearkin.server.streams.ndjson import LineSplitter
from nearkin.server.streams.spool import MAX_IN_MEMORY, Spool
from tests.server.conftest import Serve

URL = "/v1/scopes/a/documents"
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


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
    told = post(
        client,
        {"id": "1", "text": "a b c d"},
        b"no json",
        b"",
        {"x": 1},
        {"id": "2", "text": "a b c d"},
        {"text": "x" * 3000},
    )
    assert [line["line"] for line in told] == [1, 2, 4, 5, 6]
    assert [line.get("kind") for line in told] == ["new", None, None, "match", None]
    assert [line["problem"]["code"] for line in told if "problem" in line] == [
        "not-json",
        "invalid-request",
        "too-large",
    ]


def test_stream_equals_single_upserts(client: TestClient, serve: Serve) -> None:
    words = [f"w{i}" for i in range(40)]
    rows = [{"id": str(i), "text": " ".join(words[i % 7 : i % 7 + 30])} for i in range(100)]
    told = post(client, *rows)
    single = serve()
    expected = [single.post(URL, json=row).json() for row in rows]
    names = ("kind", "id", "cluster", "representative", "similarity")
    assert [[line[name] for name in names] for line in told] == [
        [line[name] for name in names] for line in expected
    ]


def test_stream_is_answered_before_the_request_ends(client: TestClient) -> None:
    def rows() -> Iterator[bytes]:
        for i in range(2000):
            yield json.dumps({"id": str(i), "text": f"document {i} of many " * 20}).encode() + b"\n"

    answer = client.post(URL, content=rows(), headers={"content-type": NDJSON})
    assert len(answer.text.splitlines()) == 2000


def arrow(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return out.getvalue()


def test_arrow_in_and_out(client: TestClient) -> None:
    table = pa.table(
        {
            "id": [str(i) for i in range(20)],
            "text": [f"some words {i % 5} and more of them" for i in range(20)],
        }
    )
    table = table.set_column(1, "text", pa.array([*table["text"].to_pylist()[:-1], None]))
    answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
    told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [row["line"] for row in told] == list(range(1, 21))
    assert [row["kind"] for row in told[:6]] == ["new"] * 5 + ["match"]
    assert json.loads(told[-1]["problem"])["code"] == "invalid-request"


@pytest.mark.parametrize("body", [b"no arrow", b"\xff\xff\xff\xff\x10\x00\x00\x00abc", b""])
def test_invalid_arrow_is_reported(client: TestClient, body: bytes) -> None:
    answer = client.post(URL, content=body, headers={"content-type": ARROW})
    told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert json.loads(told[-1]["problem"])["code"] == "invalid-request"


def test_arrow_columns_must_be_documents(client: TestClient) -> None:
    for table in (
        pa.table({"body": ["x"]}),
        pa.table({"text": [5]}),
        pa.table({"id": [5], "text": ["x"]}),
    ):
        answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
        told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
        assert "column" in json.loads(told[0]["problem"])["detail"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"vector": [["a"]]}), "send a list of numbers"),
        (pa.table([["a"], ["b"]], names=["text", "text"]), "must be unique"),
        (pa.table({"text": pa.array(["a"]).dictionary_encode()}), "dictionary"),
    ],
)
def test_invalid_arrow_columns_are_rejected(client: TestClient, table: pa.Table, said: str) -> None:
    answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
    told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert said in json.loads(told[0]["problem"])["detail"]


def test_arrow_columns_whose_names_are_not_utf8(client: TestClient) -> None:
    body = arrow(pa.table({"text": ["a text of words"], "abcd": [1]})).replace(
        b"abcd", b"\xff\xfe\xfd\xfc"
    )
    answer = client.post(URL, content=body, headers={"content-type": ARROW})
    told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert "the name of a column is not valid UTF-8" in json.loads(told[0]["problem"])["detail"]


def test_an_error_does_not_repeat_a_megabyte_of_names(client: TestClient) -> None:
    body = arrow(pa.table({"x" * 100_000: [1]}))
    assert len(client.post(URL, content=body, headers={"content-type": ARROW}).content) < 10_000


@pytest.mark.parametrize("how", ["zstd", "lz4"])
def test_compressed_arrow_is_refused_before_it_unfolds(client: TestClient, how: str) -> None:
    table, out = pa.table({"text": ["x" * 10_000_000]}), io.BytesIO()
    with pa.ipc.new_stream(
        out, table.schema, options=pa.ipc.IpcWriteOptions(compression=how)
    ) as writer:
        writer.write_table(table)
    answer = client.post(URL, content=out.getvalue(), headers={"content-type": ARROW})
    told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert "compressed" in json.loads(told[0]["problem"])["detail"]


def test_arrow_batch_size_is_limited(serve: Serve) -> None:
    client = serve(max_message=100_000)
    for count, code in ((1, None), (200, "invalid-request")):
        big = io.BytesIO()
        with pa.ipc.new_stream(big, pa.schema([("text", pa.string())])) as writer:
            writer.write_batch(pa.record_batch({"text": [f"{i} " * 1000 for i in range(count)]}))
        body = big.getvalue()
        answer = client.post(URL, content=body, headers={"content-type": ARROW})
        problem = pa.ipc.open_stream(answer.content).read_all().to_pylist()[-1]["problem"]
        assert (None if problem is None or code is None else json.loads(problem)["code"]) == code


def test_truncated_arrow_stream_keeps_received_documents(client: TestClient) -> None:
    body = arrow(
        pa.table(
            {
                "id": [str(i) for i in range(20)],
                "text": [f"text number {i} here" for i in range(20)],
            }
        )
    )
    answer = client.post(URL, content=body[: len(body) * 2 // 3], headers={"content-type": ARROW})
    told = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    done = [row for row in told if row["problem"] is None]
    assert 0 < len(done) < 20
    assert client.get(f"{URL}/{done[-1]['id']}").status_code == 200


def test_store_failure_is_reported_per_line(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise StoreError("connection to redis://secret lost")

    monkeypatch.setattr(client.app.state.service.index._session.store, "apply", failing)  # type: ignore[attr-defined]
    told = post(client, {"text": "a b c"}, {"text": "d e f"})
    assert [line["problem"]["code"] for line in told] == ["store-unavailable"] * 2
    assert "secret" not in json.dumps(told)
    single = client.post(URL, json={"text": "a b c"})
    assert (single.status_code, single.json()["code"]) == (503, "store-unavailable")
    assert int(single.headers["retry-after"]) >= 1


def test_long_lines_are_passed_over_without_being_kept() -> None:
    splitter = LineSplitter(10)
    found = []
    for part in (b"ab", b"c\nx", b"y" * 20, b"z" * 20, b"\nok\n", b"w" * 50):
        found += splitter.add(part)
        assert splitter.size <= 10
    assert [*found, *splitter.finish()] == [b"abc", None, b"ok", None]


def test_spool_returns_written_bytes() -> None:
    async def both() -> bytes:
        spool, out = (
            Spool(Reservation(ResourcePool("bytes", 1 << 30, 1.0), SERVER_CALLER)),
            bytearray(),
        )

        async def write() -> None:
            for i in range(200):
                await spool.write(bytes([i]) * 20_000)
            spool.end()

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.01)
        async for chunk in spool.chunks():
            out.extend(chunk)
        await writing
        spool.close()
        return bytes(out)

    assert asyncio.run(both()) == b"".join(bytes([i]) * 20_000 for i in range(200))
    assert MAX_IN_MEMORY < 200 * 20_000
