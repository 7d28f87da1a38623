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

from nearkin.server.problems import ProblemError
from nearkin.server.shares import Holding

CONTINUATION = b"\xff\xff\xff\xff"
METADATA_BYTES = 1 << 20
"""Bytes of the metadata of a message."""
SLOWEST = 1000
"""Bytes a second below which an unfinished line or message is given up, once it has taken the idle time-out."""
SCHEMA, RECORD_BATCH = 1, 3
"""Types of messages (MessageHeader in Message.fbs)."""
HEADER_TYPE, HEADER, BODY_LENGTH = 1, 2, 3
"""Fields of Message."""
LENGTH, COMPRESSION = 0, 3
"""Fields of RecordBatch."""


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
        if time.monotonic() - self._began > self._seconds + size / SLOWEST:
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


class Messages:
    """Messages of an Arrow IPC stream as they come.

    Args:
        chunks: Bytes of the stream.
        longest: Maximum bytes of a message.
        memory: Counts the bytes of the current message.
        deadline: The time that a message may take.
    """

    def __init__(self, chunks: AsyncIterator[bytes], longest: int, memory: Holding, deadline: Deadline) -> None:
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
        kind, rows, body_size = check_metadata(metadata)
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


def check_metadata(metadata: bytes) -> tuple[int, int, int]:
    """Returns kind, rows and bytes of the body of a message, from its metadata (a FlatBuffer, which pyarrow does not show).

    Raises:
        ProblemError: If the metadata is damaged, or the buffers are compressed.

    Examples:
        >>> batch = pa.record_batch({"text": ["some", "text"]})
        >>> for how in (None, "zstd"):
        ...     out = pa.BufferOutputStream()
        ...     with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression=how)) as writer:
        ...         writer.write_batch(batch)
        ...     messages = pa.ipc.MessageReader.open_stream(out.getvalue())
        ...     _, message = messages.read_next_message(), messages.read_next_message()
        ...     try:
        ...         print(check_metadata(message.metadata.to_pybytes()))
        ...     except ProblemError as problem:
        ...         print(problem.detail)
        (3, 2, 24)
        the stream is compressed; send Arrow IPC without compression
    """
    try:
        message = struct.unpack_from("<I", metadata)[0]
        kind = _number(metadata, message, HEADER_TYPE, "<B")
        body_size = _number(metadata, message, BODY_LENGTH, "<q")
        if kind != RECORD_BATCH:
            return kind, 0, body_size
        header = _field(metadata, message, HEADER)
        if header is None:
            raise _not_arrow("a record batch has no header")
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        if _field(metadata, batch, COMPRESSION) is not None:
            raise ProblemError("invalid-request", "the stream is compressed; send Arrow IPC without compression")
        rows = _number(metadata, batch, LENGTH, "<q")
    except struct.error as error:
        raise _not_arrow("its metadata is damaged") from error
    if rows < 0:
        raise _not_arrow(f"a record batch has {rows:,} rows")
    return kind, rows, body_size


def _number(buffer: bytes, table: int, number: int, form: str) -> int:
    """Returns a number of a FlatBuffer's table; 0, which is the default, if it is not there."""
    at = _field(buffer, table, number)
    if at is None:
        return 0
    found: int = struct.unpack_from(form, buffer, at)[0]
    return found


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Returns where a field of a FlatBuffer's table is; None if it has its default."""
    entries = table - struct.unpack_from("<i", buffer, table)[0]
    if entries < 0:
        raise struct.error("a table of fields lies before the buffer")
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", buffer, entries)[0]:
        return None
    offset: int = struct.unpack_from("<H", buffer, entries + at)[0]
    return table + offset if offset else None


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
