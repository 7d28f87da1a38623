"""The sizes of the pages of a parquet file in memory, read from page headers before decompression.

A page is decompressed as a whole, and a value of a dictionary may occur in every row. Neither is
bounded by the size of the file, and the sizes in the footer may be wrong. Headers are structs in
the compact protocol of Thrift (`PageHeader` of parquet-format).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.encoded_columns import split_encoding
from nearkin.runtime.arrow_types import is_list, view_as_binary

HEADER = 512
"""The number of bytes that most headers fit into."""
HEADER_WITH_LONG_VALUES = 16 << 10
"""The number of bytes of a header whose statistics hold the smallest and the largest value. Writers
leave out longer values."""
LONGEST_HEADER = 1 << 20
"""The maximum number of bytes of a header."""
DICTIONARY_PAGE = 2
"""The type of a page that holds a dictionary."""
KIND = 1
UNCOMPRESSED = 2
COMPRESSED = 3
CHECKSUM = 4
DATA_HEADER = 5
DICTIONARY_HEADER = 7
DATA_HEADER_V2 = 8
"""The numbers of the fields of a header."""
LARGEST_SHIFT = 63
"""The position of the last bits of an integer of 64 bits, which has seven in each byte."""
DEEPEST = 8
"""The maximum number of levels of structs in a header."""
ThriftFields = dict[int, "int | ThriftFields"]
TRUE = 1
FALSE = 2
BYTE = 3
DOUBLE = 7
BINARY = 8
STRUCT = 12


class PageHeader(NamedTuple):
    """The content of a page header."""

    at: int
    """The position in the file where the content of the page begins."""
    stored: int
    """The number of bytes of the content in the file."""
    unfolded: int
    """The number of bytes of the decompressed content."""
    kind: int
    values: int
    encoding: int
    checksum: int | None
    repetition_bytes: int
    definition_bytes: int
    is_compressed: bool


class PageSizes(NamedTuple):
    """The sizes of the pages of a column in a row group."""

    largest: int
    """The decompressed size of the largest page, in bytes."""
    decoder_bytes: int
    """The maximum number of bytes that pyarrow needs to decode the column."""


def measure_pages(source: Any, chunk: pq.ColumnChunkMetaData) -> PageSizes:
    """Returns the sizes of the pages of a column of a row group, from their headers."""
    largest = dictionary = values = 0
    for page in iterate_pages(source, chunk):
        largest = max(largest, page.unfolded)
        if page.kind == DICTIONARY_PAGE:
            dictionary, values = page.unfolded, page.values
    buffer = min(chunk.total_compressed_size, READ_BUFFER)
    # A dictionary is in memory decompressed and decoded, with a pointer and a length per text.
    return PageSizes(largest, buffer + 2 * (largest + dictionary) + 16 * values)


def estimate_pages(chunk: pq.ColumnChunkMetaData) -> PageSizes:
    """Returns the maximum sizes of the pages of a column of a row group, from the footer."""
    size = chunk.total_uncompressed_size
    return PageSizes(
        size, min(chunk.total_compressed_size, READ_BUFFER) + 2 * min(size, 2 * COMMON_PAGE)
    )


def measure_dictionary(source: Any, chunk: pq.ColumnChunkMetaData) -> int:
    """Returns the decompressed size of the dictionary of a column in a row group."""
    return next((page.unfolded for page in iterate_pages(source, chunk)), 0)


def iterate_pages(source: Any, chunk: pq.ColumnChunkMetaData) -> Iterator[PageHeader]:
    """Yields the page headers of a column of a row group."""
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = min(at + chunk.total_compressed_size, source.size())
    while at < end:
        fields, length = _read_header(source, at)
        uncompressed, compressed = (fields.get(name) for name in (UNCOMPRESSED, COMPRESSED))
        if not isinstance(uncompressed, int) or not isinstance(compressed, int) or compressed < 0:
            raise ValueError(f"the header of the page at byte {at} has no size")
        yield _make_page_header(fields, at + length, compressed, uncompressed)
        at += length + compressed


def _make_page_header(fields: ThriftFields, at: int, stored: int, unfolded: int) -> PageHeader:
    parts: ThriftFields = {}
    second = False
    for name in (DATA_HEADER, DICTIONARY_HEADER, DATA_HEADER_V2):
        if isinstance(found := fields.get(name), dict):
            parts, second = found, name == DATA_HEADER_V2

    def number(fields: ThriftFields, name: int, default: int) -> int:
        value = fields.get(name, default)
        return value if isinstance(value, int) else default

    checksum = fields.get(CHECKSUM)
    return PageHeader(
        at,
        stored,
        unfolded,
        kind=number(fields, KIND, -1),
        values=number(parts, 1, 0),
        encoding=number(parts, 4 if second else 2, -1),
        checksum=checksum if isinstance(checksum, int) else None,
        repetition_bytes=number(parts, 6, 0) if second else 0,
        definition_bytes=number(parts, 5, 0) if second else 0,
        is_compressed=not second or number(parts, 7, 1) != 0,
    )


def _read_header(source: Any, at: int) -> tuple[ThriftFields, int]:
    for size in (HEADER, HEADER_WITH_LONG_VALUES, LONGEST_HEADER):
        reader = _CompactReader(source.read_at(size, at))
        try:
            return reader.fields_of_struct(), reader.at
        except IndexError:
            continue
    raise ValueError(
        f"the page at byte {at} has no header, or its header is longer than "
        f"{LONGEST_HEADER:,} bytes"
    )


class _CompactReader:
    """A reader of the compact protocol of Thrift.

    Attributes:
        at: The number of bytes that were read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields_of_struct(self, depth: int = 0) -> ThriftFields:
        """Returns the fields of a struct that are integers, booleans or structs, by number."""
        if depth > DEEPEST:
            raise ValueError("a page header has more levels than the format allows")
        fields: ThriftFields = {}
        number = 0
        while head := self._read_byte():
            number = number + (head >> 4) if head >> 4 else self._read_zigzag()
            kind = head & 0x0F
            if kind in (TRUE, FALSE):
                fields[number] = int(kind == TRUE)
            elif BYTE < kind < DOUBLE:
                fields[number] = self._read_zigzag()
            elif kind == STRUCT:
                fields[number] = self.fields_of_struct(depth + 1)
            else:
                self._skip_value(kind)
        return fields

    def _read_byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _read_varint(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > LARGEST_SHIFT:
                raise ValueError("a page header has an integer of more than 64 bits")
        return value | byte << shift

    def _read_zigzag(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _skip_value(self, kind: int) -> None:
        if kind == BYTE:
            self.at += 1
        elif kind == DOUBLE:
            self.at += 8
        elif kind == BINARY:
            length = self._read_varint()
            self.at += length
        else:
            raise ValueError("a page header has an unknown field")
        if self.at > len(self._data):
            raise IndexError


def decode_longest_value(source: Any, metadata: pq.FileMetaData, group: int, name: str) -> int:
    """Returns the size of the longest value in the dictionary of a text column, or 0."""
    reader = pq.ParquetFile(
        source, metadata=metadata, read_dictionary=[name], buffer_size=READ_BUFFER
    )
    for batch in reader.iter_batches(1, [group], [name], use_threads=False):
        stored, _ = split_encoding(_innermost(batch.column(0)))
        return int(pc.max(pc.binary_length(view_as_binary(stored))).as_py() or 0)
    return 0


def _innermost(values: pa.Array) -> pa.Array:
    """Returns the only leaf column inside lists, maps and structs."""
    if is_list(values.type) or pa.types.is_map(values.type):
        return _innermost(values.values)
    return _innermost(values.field(0)) if pa.types.is_struct(values.type) else values


COMMON_PAGE = 1 << 20
"""The number of bytes that a page or a dictionary has at most, as most writers make them."""
READ_BUFFER = 1 << 20
"""The number of bytes of a column that are read at a time. Without it, a column of a row group is
read as a whole before it is decoded."""
