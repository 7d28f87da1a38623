"""Streams of documents as Arrow IPC messages."""

import io
import json

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from tests.service.server.conftest import Serve

URL = "/v1/scopes/a/documents"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve(batch=16, max_line=2000)


def arrow(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return out.getvalue()


def test_arrow_stream_is_answered_as_arrow(client: TestClient) -> None:
    table = pa.table(
        {
            "id": [str(i) for i in range(20)],
            "text": [f"some words {i % 5} and more of them" for i in range(20)],
        }
    )
    table = table.set_column(1, "text", pa.array([*table["text"].to_pylist()[:-1], None]))
    answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [row["line"] for row in answers] == list(range(1, 21))
    assert [row["kind"] for row in answers[:6]] == ["new"] * 5 + ["match"]
    assert json.loads(answers[-1]["problem"])["code"] == "invalid-request"


def test_arrow_streams_of_vectors_are_answered(serve: Serve) -> None:
    client = serve(kind="vector", index={"dimensions": "3"})
    vectors = pa.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.1], None], pa.list_(pa.float64()))
    table = pa.table({"id": ["one", "two", "none"], "vector": vectors})
    answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [row["representative"] for row in answers[:2]] == ["one", "one"]
    assert "null" in json.loads(answers[2]["problem"])["detail"]


@pytest.mark.parametrize("body", [b"no arrow", b"\xff\xff\xff\xff\x10\x00\x00\x00abc", b""])
def test_invalid_arrow_is_reported(client: TestClient, body: bytes) -> None:
    answer = client.post(URL, content=body, headers={"content-type": ARROW})
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert json.loads(answers[-1]["problem"])["code"] == "invalid-request"


def test_arrow_columns_must_be_documents(client: TestClient) -> None:
    for table in (
        pa.table({"body": ["x"]}),
        pa.table({"text": [5]}),
        pa.table({"id": [5], "text": ["x"]}),
    ):
        answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
        answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
        assert "column" in json.loads(answers[0]["problem"])["detail"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"vector": [["a"]]}), "send a list of numbers"),
        (pa.table([["a"], ["b"]], names=["text", "text"]), "must be unique"),
        (pa.table({"text": pa.array(["a"]).dictionary_encode()}), "dictionary"),
    ],
)
def test_invalid_arrow_columns_are_rejected(
    client: TestClient, table: pa.Table, message: str
) -> None:
    answer = client.post(URL, content=arrow(table), headers={"content-type": ARROW})
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert message in json.loads(answers[0]["problem"])["detail"]


def test_column_names_must_be_utf8(client: TestClient) -> None:
    body = arrow(pa.table({"text": ["a text of words"], "abcd": [1]})).replace(
        b"abcd", b"\xff\xfe\xfd\xfc"
    )
    answer = client.post(URL, content=body, headers={"content-type": ARROW})
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert "the name of a column is not valid UTF-8" in json.loads(answers[0]["problem"])["detail"]


def test_error_does_not_repeat_long_column_names(client: TestClient) -> None:
    body = arrow(pa.table({"x" * 100_000: [1]}))
    assert len(client.post(URL, content=body, headers={"content-type": ARROW}).content) < 10_000


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_is_rejected_before_decompression(
    client: TestClient, compression: str
) -> None:
    table = pa.table({"text": ["x" * 10_000_000]})
    out = io.BytesIO()
    with pa.ipc.new_stream(
        out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    answer = client.post(URL, content=out.getvalue(), headers={"content-type": ARROW})
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert "compressed" in json.loads(answers[0]["problem"])["detail"]


def test_arrow_batch_size_is_limited(serve: Serve) -> None:
    client = serve(max_message=100_000)
    for count, code in ((1, None), (200, "invalid-request")):
        out = io.BytesIO()
        with pa.ipc.new_stream(out, pa.schema([("text", pa.string())])) as writer:
            writer.write_batch(pa.record_batch({"text": [f"{i} " * 1000 for i in range(count)]}))
        body = out.getvalue()
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
    answers = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    stored = [row for row in answers if row["problem"] is None]
    assert 0 < len(stored) < 20
    assert client.get(f"{URL}/{stored[-1]['id']}").status_code == 200
