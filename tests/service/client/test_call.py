"""Tests of hostile responses: each is a ServiceError, in bounded memory."""

import asyncio
import gzip
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import httpx2
import pyarrow as pa
import pytest

from nearkin.errors import ServiceError
from nearkin.service.client import call
from nearkin.service.client.clients import AsyncClient, Client, Retries

ONCE = Retries(attempts=1)
TABLE = pa.table({"id": ["a", "b"], "text": ["one text", "another text"]})
COLUMNS = {"line": [1, 2], "kind": ["new", "new"], "problem": [None, None]}


class EndlessBody(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """An endless body that counts the bytes that were read."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.bytes_read += 1 << 20
            yield b" " * (1 << 20)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def client_of(answer: httpx2.Response) -> Client:
    """Returns a client that gets one response to every request, and does not retry."""
    return Client(
        "http://hostile", retries=ONCE, transport=httpx2.MockTransport(lambda request: answer)
    )


def stream_of(batch: pa.RecordBatch, compression: str | None = None, times: int = 1) -> bytes:
    """Returns an Arrow stream in which a batch is repeated."""
    out = io.BytesIO()
    with pa.ipc.new_stream(
        out, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return out.getvalue()


def test_an_endless_response_is_refused_at_the_maximum_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call, "RESPONSE_BYTES", 10 << 20)
    body = EndlessBody()
    with pytest.raises(ServiceError, match="larger than"):
        client_of(httpx2.Response(200, stream=body)).spec()
    assert body.bytes_read <= 12 << 20

    async def ask() -> None:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=EndlessBody()))
        async with AsyncClient("http://hostile", retries=ONCE, transport=transport) as client:
            await client.spec()

    with pytest.raises(ServiceError, match="larger than"):
        asyncio.run(ask())


def test_a_compressed_response_is_refused_without_expanding_it() -> None:
    packed = gzip.compress(b" " * 10_000_000)
    answer = httpx2.Response(
        200, headers={"content-encoding": "gzip"}, stream=httpx2.ByteStream(packed)
    )
    with pytest.raises(ServiceError, match="encoding of the response: gzip"):
        client_of(answer).spec()


@pytest.mark.parametrize(
    "body",
    [
        stream_of(pa.record_batch(COLUMNS), "zstd"),
        stream_of(pa.record_batch(COLUMNS), times=1000),
        stream_of(pa.record_batch({"line": pa.array(["1", "2"]).dictionary_encode()})),
        stream_of(pa.record_batch({"line": [[1], [2]]})),
        stream_of(
            pa.record_batch(
                {
                    "x": pa.Array.from_buffers(
                        pa.list_(pa.float32(), 0),
                        (1 << 31) - 1,
                        [None],
                        children=[pa.array([], pa.float32())],
                    )
                }
            )
        ),
        stream_of(pa.record_batch({"other": [1, 2]})),
        stream_of(pa.record_batch(COLUMNS))[:-200],
        b"",
        b"no arrow at all",
    ],
    ids=[
        "compressed",
        "many rows",
        "dictionary",
        "nested",
        "rows without bytes",
        "other columns",
        "cut",
        "empty",
        "no arrow",
    ],
)
def test_an_arrow_response_of_another_form_is_a_service_error(body: bytes) -> None:
    with pytest.raises(ServiceError):
        list(client_of(httpx2.Response(200, content=body)).upsert_many("a", TABLE))


@pytest.mark.parametrize(
    "body",
    [
        b"1\n2\n",
        b"[]\n[]\n",
        b'{"line": 1}\n{"line": 2}\n',
        b"{}\n{}\n",
        b"null\nnull\n",
        b"{}\n" * 5000,
    ],
)
def test_json_lines_of_another_form_are_a_service_error(body: bytes) -> None:
    with pytest.raises(ServiceError):
        list(
            client_of(httpx2.Response(200, content=body)).upsert_many(
                "a", ["one text", "another text"]
            )
        )


@pytest.mark.parametrize(
    "body",
    [
        b"1",
        b"[]",
        b"{}",
        b"null",
        b'{"matches": 5}',
        b'{"matches": [5]}',
        b'{"members": [1]}',
        b'"text"',
    ],
)
def test_json_of_another_form_is_a_service_error(body: bytes) -> None:
    client = client_of(httpx2.Response(200, content=body))
    for ask in (
        lambda: client.upsert("a", "text"),
        lambda: client.query("a", "text"),
        lambda: client.get("a", "id"),
        lambda: client.cluster("a", "id"),
        lambda: list(client.clusters("a")),
        lambda: client.add_part("a", "id", "text"),
        lambda: client.tune(),
        lambda: client.spec(),
    ):
        # a response of the expected form gives a result, and any other one this error only
        with suppress(ServiceError):
            ask()
