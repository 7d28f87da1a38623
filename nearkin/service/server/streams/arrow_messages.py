"""Messages of Arrow IPC streams, read without blocking a thread.

pyarrow's reader blocks a thread until a message is complete, and allocates what a message claims to
contain. Here the event loop collects the bytes of one message, and compares the message's claims
with these bytes before pyarrow sees it. The format is described at
https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format.
"""

import struct
from collections.abc import AsyncIterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.ipc

from nearkin.runtime.arrow_metadata import RECORD_BATCH, SCHEMA, read_facts
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation
from nearkin.service.server.streams.format import ProgressDeadline

CONTINUATION = b"\xff\xff\xff\xff"
MAX_METADATA = 1 << 20
"""Maximum size of the metadata of a message, in bytes."""


class ArrowMessage(NamedTuple):
    """A message of an Arrow stream.

    Attributes:
        kind: Type of the message: SCHEMA, RECORD_BATCH, or another number of MessageHeader.
        rows: Number of rows that the metadata of a record batch claims.
        data: The complete message, as `pyarrow.ipc.read_message` expects it.
    """

    kind: int
    rows: int
    data: bytes


class ArrowMessageReader:
    """A reader of the messages of an Arrow IPC stream.

    Args:
        max_message: Maximum size of a message, in bytes.
        memory: Counts the bytes of the current message.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        max_message: int,
        memory: Reservation,
        deadline: ProgressDeadline,
    ) -> None:
        self._chunks = chunks
        self._max_message = max_message
        self._memory = memory
        self._deadline = deadline
        self._buffer = bytearray()

    async def next(self) -> ArrowMessage | None:
        """Returns the next message, or None at the end of the stream."""
        self._memory.shrink(len(self._buffer))
        self._deadline.restart()
        prefix = await self._read(4)
        if prefix == CONTINUATION:
            prefix = await self._read(4)
        elif not prefix:
            return None
        if len(prefix) < 4:
            raise _not_arrow("the stream ends inside a message")
        size = struct.unpack("<i", prefix)[0]
        if size == 0:
            return None
        if not 0 < size <= MAX_METADATA:
            raise _not_arrow(f"the metadata has {size:,} bytes; the limit is {MAX_METADATA:,}")
        metadata = await self._read(size)
        if len(metadata) < size:
            raise _not_arrow("the stream ends inside a message")
        try:
            kind, rows, body_size, compressed = read_facts(metadata)
        except ValueError as error:
            raise _not_arrow(str(error)) from error
        if compressed:
            raise ProblemError(
                "invalid-request",
                "the record batches are compressed; send Arrow IPC without compression",
            )
        if not 0 <= body_size <= self._max_message:
            raise ProblemError(
                "invalid-request",
                (
                    f"a record batch has {body_size:,} bytes; the limit is {self._max_message:,} "
                    f"(max_message)"
                ),
            )
        if rows > body_size:
            raise ProblemError(
                "invalid-request", f"a record batch claims {rows:,} rows in {body_size:,} bytes"
            )
        body = await self._read(body_size)
        if len(body) < body_size:
            raise _not_arrow("the stream ends inside a message")
        return ArrowMessage(kind, rows, b"".join((CONTINUATION, prefix, metadata, body)))

    async def _read(self, size: int) -> bytes:
        """Reads `size` bytes, or fewer at the end of the stream.

        Memory for all of them is reserved first.
        """
        await self._memory.grow(size + len(self._buffer))
        while len(self._buffer) < size:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                break
            if not self._buffer:
                # a pause between messages does not count towards the next one
                self._deadline.restart()
            self._buffer += chunk
            self._deadline.check(len(self._buffer))
        message = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return message


def _not_arrow(reason: str) -> ProblemError:
    return ProblemError("invalid-request", f"the body is not a valid Arrow IPC stream: {reason}")


def read_schema(message: ArrowMessage | None) -> pa.Schema:
    """Returns the schema that the first message of a stream contains."""
    if message is None:
        raise _not_arrow("the stream ends before its schema")
    if message.kind != SCHEMA:
        raise _not_arrow("the stream does not begin with a schema")
    try:
        return pa.ipc.read_schema(pa.ipc.read_message(message.data))
    except (pa.ArrowException, OSError) as error:
        raise _not_arrow(str(error)[:200]) from error


def read_batch(message: ArrowMessage, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the record batch of a message after full validation."""
    if message.kind != RECORD_BATCH:
        raise ProblemError(
            "invalid-request",
            f"the stream has a message of type {message.kind} instead of a record batch",
        )
    try:
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(message.data), schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _not_arrow(str(error)[:200]) from error
    return batch
