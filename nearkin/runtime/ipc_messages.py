"""The sizes of the messages of an Arrow file in memory, read from headers before decompression.

A record batch is read and decompressed as a whole, so a few compressed bytes can take any amount
of memory. Headers are flatbuffers (`Message.fbs` of the Arrow format), which consist of tables
of fields and of vectors.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

CONTINUATION = 0xFFFFFFFF
"""The marker at the beginning of a message."""
MAGIC = b"ARROW1"
"""The magic word at the beginning of a file."""
MAGIC_BYTES = 8
"""The number of bytes of the magic word and its padding."""
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
HEADER_TYPE = 1
HEADER = 2
BODY_LENGTH = 3
"""The numbers of the fields of a message."""
DATA = 1
"""The number of the field of a dictionary batch that holds its record batch."""
BUFFERS, COMPRESSION = 2, 3
"""The numbers of the fields of a record batch."""
LONGEST_HEADER = 64 << 20
"""The maximum number of bytes of a header."""


class MessageSize(NamedTuple):
    """The size of a message with data."""

    is_batch: bool
    """True for a record batch, false for a dictionary."""
    size: int
    """The number of bytes that its buffers take in memory."""


def measure_messages(source: Any) -> Iterator[MessageSize]:
    """Yields the sizes of the record batches and dictionaries of an open file or stream.

    It stops at the end, or where no message follows.
    """
    at = MAGIC_BYTES if source.read_at(len(MAGIC), 0) == MAGIC else 0
    while True:
        prefix = source.read_at(8, at)
        if len(prefix) < 8:
            return
        marker, length = struct.unpack("<II", prefix)
        at += 8
        if marker != CONTINUATION:
            # Arrow wrote no marker before version 0.15.
            at, length = at - 4, marker
        if not 0 < length <= LONGEST_HEADER:
            return
        try:
            message = _FlatbufferTable.root(source.read_at(length, at))
            at += length
            kind = message.byte(HEADER_TYPE)
            batch = message.table(HEADER)
            if kind in (DICTIONARY_BATCH, RECORD_BATCH):
                rows = batch if kind == RECORD_BATCH else batch.table(DATA)
                yield MessageSize(kind == RECORD_BATCH, _unfolded(source, at, rows))
            at += message.long(BODY_LENGTH)
        except struct.error:
            return


def read_plain_stream(stream: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Returns the table of an untrusted Arrow stream, whose buffers are not compressed.

    A message is not read if the buffers up to it would take more memory than the stream has bytes.

    Args:
        stream: The bytes of the stream.
    """
    left = stream.size
    batches = []
    with pa.ipc.open_stream(stream) as reader:
        if not reader.schema.equals(schema):
            raise ValueError("the columns are not the expected ones")
        for message in measure_messages(pa.BufferReader(stream)):
            left -= message.size
            if not message.is_batch or left < 0:
                raise ValueError("its buffers take more memory than the file has bytes")
            try:
                batches.append(reader.read_next_batch())
            except StopIteration as error:
                raise ValueError("a record batch cannot be read") from error
        return pa.Table.from_batches(batches, reader.schema)


def _unfolded(source: Any, body: int, batch: "_FlatbufferTable") -> int:
    compressed = batch.has(COMPRESSION)
    total = 0
    for offset, length in batch.pairs(BUFFERS):
        size = length
        if compressed and length >= 8:
            # A size of -1 means that the buffer is not compressed.
            stated = struct.unpack("<q", source.read_at(8, body + offset))[0]
            size = stated if stated >= 0 else length
        total += size
    return total


class _FlatbufferTable:
    """A table of a flatbuffer. Access out of its bounds raises struct.error."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - self._number("<i", at)

    @classmethod
    def root(cls, data: bytes) -> "_FlatbufferTable":
        return cls(data, struct.unpack_from("<I", data)[0])

    def _number(self, form: str, at: int) -> int:
        if at < 0:
            raise struct.error("an offset is negative")
        return int(struct.unpack_from(form, self._data, at)[0])

    def _place(self, field: int) -> int:
        """Returns the position of the value of a field, or 0 if the field is missing."""
        entry = 4 + 2 * field
        if entry >= self._number("<H", self._fields):
            return 0
        offset = self._number("<H", self._fields + entry)
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self._place(field) > 0

    def byte(self, field: int) -> int:
        place = self._place(field)
        return self._number("<B", place) if place else 0

    def long(self, field: int) -> int:
        place = self._place(field)
        return self._number("<q", place) if place else 0

    def table(self, field: int) -> "_FlatbufferTable":
        place = self._place(field)
        return _FlatbufferTable(self._data, place + self._number("<I", place))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yields the elements of a vector of pairs of integers."""
        place = self._place(field)
        if not place:
            return
        start = place + self._number("<I", place)
        count = self._number("<I", start)
        yield from struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count])
