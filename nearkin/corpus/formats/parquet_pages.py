"""The sizes of the pages of a parquet file in memory, read from page headers before decompression.

A page is decompressed as a whole, and a value of a dictionary may occur in every row. Neither is
bounded by the size of the file, and the sizes in the footer may be wrong. Headers are structs in
the compact protocol of Thrift (`PageHeader` of parquet-format), which pyarrow does not hand out.
"""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.encoded_columns import split_encoding
from nearkin.runtime.arrow_types import is_list, view_as_binary

READ_BUFFER = 1 << 20
"""The number of bytes of a column that are read at a time. Without it, a column of a row group is
read as a whole before it is decoded."""
COMMON_PAGE = 1 << 20
"""The number of bytes that a page or a dictionary has at most, as most writers make them."""
HEADER_SIZES = (512, 16 << 10, 1 << 20)
"""The numbers of bytes that most headers fit into, those with long values in their statistics, and
the longest ones."""
DICTIONARY_PAGE = 2
"""The type of a page that holds a dictionary."""
KIND = 1
UNCOMPRESSED = 2
COMPRESSED = 3
DICTIONARY_HEADER = 7
"""The numbers of the fields of a header."""
LARGEST_SHIFT = 63
"""The position of the last bits of an integer of 64 bits, which has seven in each byte."""
DEEPEST = 8
"""The maximum number of levels of structs in a header."""
TRUTH_VALUES = (1, 2)
INTEGERS = (4, 5, 6)
BINARY = 8
STRUCT = 12
"""The types of fields in Thrift."""


class PageSizes(NamedTuple):
    """The sizes of the pages of a column in a row group, in bytes."""

    dictionary: int
    """The decompressed size of the dictionary."""
    decoder_bytes: int
    """The maximum number of bytes that pyarrow needs to decode the column."""


def measure_pages(source: Any, chunk: pq.ColumnChunkMetaData) -> PageSizes:
    """Returns the sizes of the pages of a column of a row group, from their headers."""
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = min(at + chunk.total_compressed_size, source.size())
    largest = dictionary = values = 0
    while at < end:
        header, length = _read_header(source, at)
        size, stored = header.get(UNCOMPRESSED), header.get(COMPRESSED)
        if not isinstance(size, int) or not isinstance(stored, int) or stored < 0:
            raise ValueError(f"the header of the page at byte {at} has no size")
        if header.get(KIND) == DICTIONARY_PAGE:
            dictionary = size
            values = header.get(DICTIONARY_HEADER, {}).get(1, 0)
        else:
            largest = max(largest, size)
        at += length + stored
    buffer = min(chunk.total_compressed_size, READ_BUFFER)
    # A dictionary is in memory decompressed and decoded, with a pointer and a length per text.
    texts = values if chunk.physical_type == "BYTE_ARRAY" else 0
    return PageSizes(dictionary, buffer + 2 * (largest + dictionary) + 16 * texts)


def estimate_pages(chunk: pq.ColumnChunkMetaData) -> PageSizes:
    """Returns the maximum sizes of the pages of a column of a row group, from the footer."""
    size = chunk.total_uncompressed_size
    buffer = min(chunk.total_compressed_size, READ_BUFFER)
    return PageSizes(size, buffer + 2 * min(size, 2 * COMMON_PAGE))


def _read_header(source: Any, at: int) -> tuple[dict[int, Any], int]:
    """Returns the fields of a page header, and its length."""
    for size in HEADER_SIZES:
        reader = _HeaderReader(source.read_at(size, at))
        try:
            return reader.read_struct(), reader.at
        except IndexError:
            continue
    raise ValueError(
        f"the page at byte {at} has no header, or its header is longer than "
        f"{HEADER_SIZES[-1]:,} bytes"
    )


class _HeaderReader:
    """A reader of the compact protocol of Thrift, which counts the bytes that it has read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read_struct(self, depth: int = 0) -> dict[int, Any]:
        """Returns the fields of a struct that are integers or structs, by number."""
        if depth > DEEPEST:
            raise ValueError("a page header has more levels than the format allows")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._read_byte():
            number = number + (head >> 4) if head >> 4 else self._read_integer()
            kind = head & 0x0F
            if kind in INTEGERS:
                fields[number] = self._read_integer()
            elif kind == STRUCT:
                fields[number] = self.read_struct(depth + 1)
            elif kind == BINARY:
                length = self._read_unsigned()
                self.at += length
            elif kind not in TRUTH_VALUES:
                raise ValueError("a page header has an unknown field")
        return fields

    def _read_byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _read_unsigned(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > LARGEST_SHIFT:
                raise ValueError("a page header has an integer of more than 64 bits")
        return value | byte << shift

    def _read_integer(self) -> int:
        value = self._read_unsigned()
        return (value >> 1) ^ -(value & 1)


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
