"""Arrow IPC streams from outside, read without a thread that waits, and in bounded memory.

pyarrow's reader blocks in a thread until a message is whole, and unfolds what a message says. Here the event loop collects the
bytes of one message (https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format), and what the message says
about itself is compared with those bytes before pyarrow sees it.
"""

import struct
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.ipc

from nearkin.runtime.arrow_metadata import RECORD_BATCH, SCHEMA, read_facts
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import Reservation

CONTINUATION = b"\xff\xff\xff\xff"
METADATA_BYTES = 1 << 20
"""Bytes of the metadata of a message."""
MIN_BYTES_PER_SECOND = 1000
"""Bytes a second below which an unfinished line or message is given up, once it has taken the idle time-out."""


class Deadline:
    """The time by which a line or a message must be whole.

    Args:
        seconds: Time that each may take. One that is long has a second more for every SLOWEST bytes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Starts the time of the next line or message."""
        self._began = time.monotonic()

    def check(self, size: int) -> None:
        """Checks that the bytes that have come so far did not take too long.

        Raises:
            ProblemError: If they did.
        """
        if time.monotonic() - self._began > self._seconds + size / MIN_BYTES_PER_SECOND:
            raise ProblemError("timeout", f"{size:,} bytes of an unfinished document came in {self._seconds:g} s or more")


class Message(NamedTuple):
    """A message of an Arrow stream.

    Attributes:
        kind: SCHEMA, RECORD_BATCH, or another number of MessageHeader.
        rows: Rows that a record batch says it has.
        data: The whole message, as `pyarrow.ipc.read_message` takes it.
    """

    kind: int
    rows: int
    data: bytes


class ArrowMessageReader:
    """Messages of an Arrow IPC stream as they come.

    Args:
        chunks: Bytes of the stream.
        longest: Maximum bytes of a message.
        memory: Counts the bytes of the current message.
        deadline: The time that a message may take.
    """

    def __init__(self, chunks: AsyncIterator[bytes], longest: int, memory: Reservation, deadline: Deadline) -> None:
        self._chunks, self._longest, self._memory, self._deadline = chunks, longest, memory, deadline
        self._held = bytearray()

    async def next(self) -> Message | None:
        """Returns the next message; None at the end of the stream.

        Raises:
            ProblemError: If the bytes are not a message, or one that is too large, compressed or in conflict with its size.
        """
        self._memory.shrink(len(self._held))
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
        if not 0 < size <= METADATA_BYTES:
            raise _not_arrow(f"{size:,} bytes of metadata; at most {METADATA_BYTES:,} are read")
        metadata = await self._read(size)
        if len(metadata) < size:
            raise _not_arrow("the stream ends inside a message")
        try:
            kind, rows, body_size, compressed = read_facts(metadata)
        except ValueError as error:
            raise _not_arrow(str(error)) from error
        if compressed:
            raise ProblemError("invalid-request", "the stream is compressed; send Arrow IPC without compression")
        if not 0 <= body_size <= self._longest:
            raise ProblemError(
                "invalid-request", f"a batch has {body_size:,} bytes; the limit is {self._longest:,} (max_message)"
            )
        if rows > body_size:
            raise ProblemError("invalid-request", f"a batch says it has {rows:,} rows in {body_size:,} bytes")
        body = await self._read(body_size)
        if len(body) < body_size:
            raise _not_arrow("the stream ends inside a message")
        return Message(kind, rows, b"".join((CONTINUATION, prefix, metadata, body)))

    async def _read(self, size: int) -> bytes:
        """Reads some bytes; fewer at the end of the stream. Room for all of them is found before the first one is read."""
        await self._memory.grow(size + len(self._held))
        while len(self._held) < size:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                break
            if not self._held:
                # a pause between messages is not part of the next one
                self._deadline.restart()
            self._held += chunk
            self._deadline.check(len(self._held))
        found = bytes(memoryview(self._held)[:size])
        del self._held[:size]
        return found


def _not_arrow(why: str) -> ProblemError:
    return ProblemError("invalid-request", f"the stream is not an Arrow IPC stream: {why}")


def read_schema(message: Message | None) -> pa.Schema:
    """Returns the schema of a stream, from its first message.

    Raises:
        ProblemError: If the message is not a schema.
    """
    if message is None:
        raise _not_arrow("it ends before its schema")
    if message.kind != SCHEMA:
        raise _not_arrow("it does not begin with a schema")
    try:
        return pa.ipc.read_schema(pa.ipc.read_message(message.data))
    except (pa.ArrowException, OSError) as error:
        raise _not_arrow(str(error)[:200]) from error


def read_batch(message: Message, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the batch of a message, verified whole: a stream from outside may lie about offsets and lengths.

    Raises:
        ProblemError: If the message is not a record batch, or not a valid one.
    """
    if message.kind != RECORD_BATCH:
        raise ProblemError("invalid-request", f"the stream has a message of type {message.kind} where a record batch should be")
    try:
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(message.data), schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _not_arrow(str(error)[:200]) from error
    return batch
