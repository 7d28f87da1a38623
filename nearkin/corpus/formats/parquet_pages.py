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
from nearkin.corpus.formats.parquet_footers import Struct, StructReader
from nearkin.runtime.arrow_types import is_list, view_as_binary

READ_BUFFER = 1 << 20
"""The number of bytes of a column that are read at a time. Without it, a column of a row group is
read as a whole before it is decoded."""
COMMON_PAGE = 1 << 20
"""The number of bytes that a page or a dictionary has at most, as most writers make them."""
ENCODED_SHARE = 4
"""A column that stays encoded takes this many times its dictionary besides: batches have another
copy of it, made by a table of distinct values that doubles its memory. Up to 3.8 were measured."""
HEADER_SIZES = (512, 16 << 10, 1 << 20)
"""The numbers of bytes that most headers fit into, those with long values in their statistics, and
the longest ones."""
UNCOMPRESSED = 2
COMPRESSED = 3
DICTIONARY_HEADER = 7
"""The fields of a header: the sizes of the page in memory and in the file, and the facts of a
dictionary."""
VALUES = 1
"""The field of a dictionary with the number of its values."""


LENGTH_BYTES = 4
"""The number of bytes of the length before a value."""
SHORT_DICTIONARY = 1 << 13
"""The number of values of a dictionary up to which it is faster to walk through them here than to
decode them with pyarrow."""
COMMON_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD")
"""The codecs with which a dictionary is decompressed here."""


class PageSizes(NamedTuple):
    """The sizes of the pages of a column in a row group, in bytes."""

    dictionary: int
    """The decompressed size of the dictionary."""
    decoder_bytes: int
    """The maximum number of bytes that pyarrow needs to decode the column."""
    encoded_bytes: int
    """The number of bytes that it needs besides, if the column stays encoded."""


def measure_pages(source: Any, chunk: pq.ColumnChunkMetaData) -> PageSizes:
    """Returns the sizes of the pages of a column of a row group, from their headers."""
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = min(at + chunk.total_compressed_size, source.size())
    largest = dictionary = values = compressed = 0
    while at < end:
        header, length = _read_header(source, at)
        size = _get_integer(header, UNCOMPRESSED)
        stored = _get_integer(header, COMPRESSED)
        if size is None or stored is None or stored < 0:
            raise ValueError(f"the header of the page at byte {at} has no size")
        if DICTIONARY_HEADER in header:
            dictionary = size
            values = _get_integer(header[DICTIONARY_HEADER].value, VALUES) or 0
        else:
            largest = max(largest, size)
        if chunk.compression != "UNCOMPRESSED":
            compressed = max(compressed, stored)
        at += length + stored
    # The buffer grows to the largest page, and keeps this size.
    buffer = max(min(chunk.total_compressed_size, READ_BUFFER), compressed)
    # A dictionary is in memory decompressed and decoded, with a pointer and a length per text.
    texts = values if chunk.physical_type == "BYTE_ARRAY" else 0
    return PageSizes(
        dictionary,
        decoder_bytes=buffer + 2 * (largest + dictionary) + 16 * texts,
        encoded_bytes=ENCODED_SHARE * dictionary,
    )


def estimate_pages(chunk: pq.ColumnChunkMetaData) -> PageSizes:
    """Returns the maximum sizes of the pages of a column of a row group, from the footer."""
    size = chunk.total_uncompressed_size
    buffer = min(chunk.total_compressed_size, READ_BUFFER)
    return PageSizes(
        size,
        decoder_bytes=buffer + 2 * min(size, 2 * COMMON_PAGE),
        encoded_bytes=ENCODED_SHARE * min(size, COMMON_PAGE),
    )


def _read_header(source: Any, at: int) -> tuple[Struct, int]:
    for size in HEADER_SIZES:
        reader = StructReader(source.read_at(size, at))
        try:
            return reader.read_struct(), reader.at
        except IndexError:
            continue
    raise ValueError(
        f"the page at byte {at} has no header, or its header is longer than "
        f"{HEADER_SIZES[-1]:,} bytes"
    )


def _get_integer(fields: Struct, number: int) -> int | None:
    value = fields[number].value if number in fields else None
    return value if isinstance(value, int) else None


def find_longest_value(source: Any, metadata: pq.FileMetaData, group: int, column: int) -> int:
    """Returns the size of the longest value in the dictionary of a text column, or 0."""
    chunk = metadata.row_group(group).column(column)
    if chunk.compression in COMMON_CODECS and not isinstance(source, pa.PythonFile):
        at = chunk.dictionary_page_offset or chunk.data_page_offset
        header, length = _read_header(source, at)
        facts = header[DICTIONARY_HEADER].value if DICTIONARY_HEADER in header else {}
        if 0 < (_get_integer(facts, VALUES) or 0) <= SHORT_DICTIONARY:
            size = _get_integer(header, UNCOMPRESSED) or 0
            content = source.read_at(_get_integer(header, COMPRESSED) or 0, at + length)
            if chunk.compression != "UNCOMPRESSED":
                content = pa.Codec(chunk.compression.lower()).decompress(content, size)
            return _measure_longest(memoryview(content))
    return decode_longest_value(source, metadata, group, chunk.path_in_schema)


def _measure_longest(dictionary: memoryview) -> int:
    """Returns the size of the longest value of a dictionary, of which each follows its length."""
    longest = at = 0
    while at < len(dictionary):
        length = int.from_bytes(dictionary[at : at + LENGTH_BYTES], "little")
        longest = max(longest, length)
        at += LENGTH_BYTES + length
    return longest


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
