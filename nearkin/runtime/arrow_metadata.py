"""The metadata of the messages of an Arrow IPC stream, read before they are decompressed.

The metadata of a message is a FlatBuffer (https://flatbuffers.dev/internals, and Message.fbs of the
Arrow format).
"""

import struct
from typing import NamedTuple

SCHEMA, RECORD_BATCH = 1, 3
"""The kinds of messages (MessageHeader)."""
HEADER_TYPE = 1
HEADER = 2
BODY_LENGTH = 3
"""The numbers of the fields of Message."""
LENGTH, COMPRESSION = 0, 3
"""The numbers of the fields of RecordBatch."""


class MessageFacts(NamedTuple):
    """The facts in the metadata of a message.

    Attributes:
        kind: Kind of the message: SCHEMA, RECORD_BATCH or another number of MessageHeader.
        rows: Number of rows of a record batch; 0 for other messages.
        body_size: Number of bytes of the buffers.
        compressed: True if the buffers of a record batch are compressed.
    """

    kind: int
    rows: int
    body_size: int
    compressed: bool


def read_facts(metadata: bytes) -> MessageFacts:
    """Returns the facts in the metadata of a message.

    Examples:
        >>> import pyarrow as pa
        >>> batch = pa.record_batch({"text": ["some", "text"]})
        >>> for how in (None, "zstd"):
        ...     out = pa.BufferOutputStream()
        ...     options = pa.ipc.IpcWriteOptions(compression=how)
        ...     with pa.ipc.new_stream(out, batch.schema, options=options) as writer:
        ...         writer.write_batch(batch)
        ...     messages = pa.ipc.MessageReader.open_stream(out.getvalue())
        ...     schema, message = messages.read_next_message(), messages.read_next_message()
        ...     facts = read_facts(message.metadata.to_pybytes())
        ...     print(facts.kind == RECORD_BATCH, facts.rows, facts.compressed)
        True 2 False
        True 2 True
    """
    try:
        message = struct.unpack_from("<I", metadata)[0]
        kind = _number(metadata, message, HEADER_TYPE, "<B")
        body_size = _number(metadata, message, BODY_LENGTH, "<q")
        if kind != RECORD_BATCH:
            return MessageFacts(kind, 0, body_size, compressed=False)
        header = _field(metadata, message, HEADER)
        if header is None:
            raise ValueError("a record batch has no header")
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        rows = _number(metadata, batch, LENGTH, "<q")
        compressed = _field(metadata, batch, COMPRESSION) is not None
    except struct.error as error:
        raise ValueError("the metadata of a message is damaged") from error
    if rows < 0 or body_size < 0:
        raise ValueError(f"a record batch has {rows:,} rows in {body_size:,} bytes")
    return MessageFacts(kind, rows, body_size, compressed)


def _number(buffer: bytes, table: int, number: int, form: str) -> int:
    """Returns a number of a FlatBuffer's table; 0, which is the default, if it is not there."""
    at = _field(buffer, table, number)
    if at is None:
        return 0
    value: int = struct.unpack_from(form, buffer, at)[0]
    return value


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
