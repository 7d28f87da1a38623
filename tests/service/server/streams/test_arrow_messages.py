"""Tests of the reader of Arrow messages, whose bytes arrive in chunks of any size."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from nearkin.runtime.arrow_metadata import RECORD_BATCH, SCHEMA
from nearkin.service.server.http.callers import Caller
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation, ResourcePool
from nearkin.service.server.streams.arrow_messages import (
    CONTINUATION,
    MAX_METADATA,
    ArrowMessage,
    ArrowMessageReader,
    read_batch,
    read_schema,
)
from nearkin.service.server.streams.format import ProgressDeadline

TABLE = pa.table({"id": ["a", "b", "c"], "text": ["one", "", "three é"]})


def stream_of(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read_messages(
    stream: bytes, chunk: int = 1 << 20, max_message: int = 1 << 20, memory: int = 1 << 22
) -> list[ArrowMessage]:
    """Reads all messages of a stream that arrives in chunks of so many bytes."""
    pool = ResourcePool("bytes", memory, 1.0)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(stream), chunk):
            yield stream[start : start + chunk]

    async def read() -> list[ArrowMessage]:
        reservation = Reservation(pool, Caller("one"))
        reader = ArrowMessageReader(chunks(), max_message, reservation, ProgressDeadline(60))
        messages = []
        while message := await reader.next():
            messages.append(message)
            assert pool.used <= 2 * (len(message.data) + chunk)
        return messages

    return asyncio.run(read())


@pytest.mark.parametrize("chunk", [1, 3, 64, 1 << 20])
def test_messages_are_those_of_the_stream_however_it_arrives(chunk: int) -> None:
    schema, *batches = read_messages(stream_of(TABLE), chunk)
    assert schema.kind == SCHEMA
    assert [(batch.kind, batch.rows) for batch in batches] == [(RECORD_BATCH, 2), (RECORD_BATCH, 1)]
    fields = read_schema(schema)
    read = pa.Table.from_batches([read_batch(batch, fields) for batch in batches])
    assert read.equals(TABLE)


def test_empty_stream_has_no_messages() -> None:
    assert read_messages(b"") == []
    with pytest.raises(ProblemError, match="ends before its schema"):
        read_schema(None)


def test_stream_that_ends_anywhere_inside_a_message_is_rejected() -> None:
    stream = stream_of(TABLE.slice(0, 1))
    schema = read_messages(stream)[0]
    mark_of_the_end = len(stream) - 8
    complete = {len(schema.data), mark_of_the_end}
    for size in set(range(1, len(stream))) - complete:
        with pytest.raises(ProblemError, match="the stream ends inside a message"):
            read_messages(stream[:size])


@pytest.mark.parametrize("size", [-1, MAX_METADATA + 1, 2**31 - 1])
def test_size_of_metadata_is_limited(size: int) -> None:
    with pytest.raises(ProblemError, match=f"metadata has {size:,} bytes; the limit is 1,048,576"):
        read_messages(CONTINUATION + struct.pack("<i", size))


@pytest.mark.parametrize("metadata", [b"\xff" * 8, b"\x00" * 8, b"text of a document"])
def test_damaged_metadata_is_rejected(metadata: bytes) -> None:
    stream = CONTINUATION + struct.pack("<i", len(metadata)) + metadata
    with pytest.raises(ProblemError, match="not a valid Arrow IPC stream"):
        read_schema(read_messages(stream)[0])


def test_compressed_and_large_batches_are_rejected_before_their_bodies_are_read() -> None:
    for stream, message in (
        (stream_of(TABLE, "zstd"), "send Arrow IPC without compression"),
        (stream_of(pa.table({"text": ["x" * 5_000]})), r"the limit is 1,000 \(max_message\)"),
    ):
        with pytest.raises(ProblemError, match=message):
            read_messages(stream, max_message=1_000)


def test_memory_of_a_message_is_reserved_before_it_is_read() -> None:
    with pytest.raises(ProblemError, match="20,000 bytes"):
        read_messages(stream_of(pa.table({"text": ["x" * 50_000]})), memory=20_000)


def test_messages_of_the_wrong_kind_are_rejected() -> None:
    schema, batch = read_messages(stream_of(TABLE.slice(0, 1)))
    with pytest.raises(ProblemError, match="does not begin with a schema"):
        read_schema(batch)
    with pytest.raises(ProblemError, match="message of type 1 instead of a record batch"):
        read_batch(schema, TABLE.schema)


def test_batch_of_another_schema_is_rejected() -> None:
    _, batch = read_messages(stream_of(TABLE.slice(0, 1)))
    with pytest.raises(ProblemError, match="not a valid Arrow IPC stream"):
        read_batch(batch, pa.schema([("id", pa.string()), ("v", pa.list_(pa.string()))]))
