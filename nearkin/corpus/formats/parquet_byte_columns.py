"""Texts of parquet columns whose pages are too large for pyarrow, which needs a multiple of a page.

A page is decompressed into one buffer. Each value is taken from there only when its row is
needed, and cut if it is longer than a document may be. A huge value therefore costs its own row
only, and not the rows that share its page.
"""

import struct
import zlib
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus.formats.kernels import decompress_lz4, decompress_snappy
from nearkin.corpus.formats.parquet_pages import DICTIONARY_PAGE, PageHeader, iterate_pages
from nearkin.corpus.formats.scratch_files import ScratchFiles
from nearkin.runtime.setting_names import name_setting

PLAIN = 0
PLAIN_DICTIONARY = 2
RLE_DICTIONARY = 8
DELTA_LENGTHS = 6
DELTA_TEXTS = 7
"""The numbers of the encodings of values."""
DATA_PAGE, DATA_PAGE_V2 = 0, 3
"""The numbers of the types of pages."""
LONGEST_CHARACTER = 4
"""The maximum number of bytes of a character in UTF-8."""
LENGTH_BYTES = 4
"""The number of bytes of the length before a value or before levels."""
STORED_LENGTH = struct.Struct("<I")
"""The form of such a length."""
WIDEST_PLACE = 32
"""The largest number of bits of a place in a dictionary."""
SHORT_DICTIONARY = 1 << 13
"""The number of values of a dictionary up to which it is faster to walk through them here than to
decode them with pyarrow."""
VALUE_BYTES = 64
"""The number of bytes that a value takes besides its content while its page is read."""
BLOCK = 1 << 20
"""The number of bytes of a page that are copied at a time."""
STREAM_CODECS = ("GZIP", "ZSTD", "BROTLI")
"""The codecs that can decompress a page in parts."""
COMMON_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD")
"""The codecs with which the dictionary is decompressed here."""


class PageValues(NamedTuple):
    """The positions of the values of a page in its buffer."""

    data: memoryview
    starts: np.ndarray
    """The position of each value, int64 (n,)."""
    lengths: np.ndarray
    """The number of bytes of each value, int64 (n,)."""

    def at(self, place: int, limit: int) -> bytes:
        """Returns a value, or its first bytes if it is longer than `limit` bytes.

        Args:
            limit: The maximum number of bytes to return.
        """
        start, length = int(self.starts[place]), int(self.lengths[place])
        if length <= limit:
            return bytes(self.data[start : start + length])
        # A cut inside a character would make the text invalid.
        ends = range(start + limit, start + limit - LONGEST_CHARACTER, -1)
        end = next((end for end in ends if self.data[end] & 0xC0 != 0x80), start + limit)
        return bytes(self.data[start:end])


class ByteColumnReader:
    """Reads a flat column of texts or bytes in a row group, row by row.

    Args:
        limit: The maximum size in bytes of a value that is returned as a whole. A longer value
            is cut to a few bytes more than this.
        page_limit: The maximum size in bytes of a page with its dictionary in memory.
    """

    def __init__(
        self,
        source: Any,
        chunk: pq.ColumnChunkMetaData,
        limit: int,
        page_limit: int,
        scratch: ScratchFiles | None,
        *,
        optional: bool,
    ) -> None:
        self._source = source
        self._chunk = chunk
        self._optional = optional
        self._cut = limit + LONGEST_CHARACTER
        self._dictionary: PageValues | None = None
        pages = list(iterate_pages(source, chunk))
        dictionary = max(
            (page.unfolded for page in pages if page.kind == DICTIONARY_PAGE), default=0
        )
        largest = dictionary + max(
            (page.unfolded for page in pages if page.kind != DICTIONARY_PAGE), default=0
        )
        self._scratch = scratch if largest > page_limit else None
        name = f"a page of column {chunk.path_in_schema!r}"
        if largest > page_limit and scratch is None:
            raise ValueError(
                f"{name} unfolds into {largest:,} bytes, more than the "
                f"{page_limit:,} that {name_setting('memory')} leaves room for; "
                f"write the file with smaller pages, or run with more {name_setting('memory')}"
            )
        values = max((page.values for page in pages), default=0)
        if values * VALUE_BYTES > page_limit:
            raise ValueError(
                f"{name} unfolds into {largest:,} bytes and has {values:,} "
                f"values, more than the {page_limit // VALUE_BYTES:,} "
                f"of such a page that {name_setting('memory')} leaves room for; write the file "
                f"with smaller pages, or run with more {name_setting('memory')}"
            )
        encodings = (PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY, DELTA_LENGTHS, DELTA_TEXTS)
        if wrong := [page.encoding for page in pages if page.encoding not in encodings]:
            raise ValueError(
                f"{name} unfolds into {largest:,} bytes and has the unknown encoding {wrong[0]}"
            )
        self._values = self._each(pages)

    def __next__(self) -> bytes | None:
        """Returns the value of the next row."""
        try:
            return next(self._values)
        except StopIteration:
            raise ValueError(
                f"column {self._chunk.path_in_schema!r} has fewer rows than the footer states"
            ) from None

    def _each(self, pages: list[PageHeader]) -> Iterator[bytes | None]:
        for page in pages:
            if page.kind == DICTIONARY_PAGE:
                content = _read_page(self._source, self._chunk, page, self._scratch)[1]
                self._dictionary = _parse_plain_values(content, page.values)
            elif page.kind in (DATA_PAGE, DATA_PAGE_V2):
                yield from self._values_of(page)

    def _values_of(self, page: PageHeader) -> Iterator[bytes | None]:
        levels, content = _read_page(self._source, self._chunk, page, self._scratch)
        if self._optional and page.kind == DATA_PAGE:
            end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
            levels, content = content[LENGTH_BYTES:end], content[end:]
        present = np.ones(page.values, bool)
        if self._optional:
            present = _parse_hybrid_numbers(levels, 1, page.values).astype(bool)
        count = int(present.sum())
        if page.encoding == DELTA_TEXTS:
            texts = _parse_delta_texts(content, count, self._cut)
            for there in present.tolist():
                yield next(texts) if there else None
            return
        if page.encoding == PLAIN:
            values = _parse_plain_values(content, count)
            places = np.arange(count)
        elif page.encoding == DELTA_LENGTHS:
            lengths, start = _parse_delta_numbers(content, 0, count)
            values = _locate_values(content, start, lengths)
            places = np.arange(count)
        else:
            if self._dictionary is None:
                raise ValueError("a page refers to a missing dictionary")
            values = self._dictionary
            places = np.empty(0, np.int64)
            if count:
                width = content[0] if content else WIDEST_PLACE + 1
                if width > WIDEST_PLACE:
                    raise ValueError("a page has no valid width of its places in the dictionary")
                places = _parse_hybrid_numbers(content[1:], width, count)
                if int(places.max()) >= len(values.starts):
                    raise ValueError("a page refers to values that are missing in its dictionary")
        used = iter(places.tolist())
        for there in present.tolist():
            yield values.at(next(used), self._cut) if there else None


def parse_longest_value(source: Any, chunk: pq.ColumnChunkMetaData) -> int | None:
    """Returns the size of the longest value in the dictionary of a column of texts or bytes.

    Returns:
        The number of bytes, or None if the column has no dictionary of a common form, or a very
        long one.
    """
    page = next(iterate_pages(source, chunk), None)
    if (
        page is None
        or page.kind != DICTIONARY_PAGE
        or page.encoding not in (PLAIN, PLAIN_DICTIONARY)
    ):
        return None
    if not 0 < page.values <= SHORT_DICTIONARY or str(chunk.compression) not in COMMON_CODECS:
        return None
    return int(_parse_plain_values(_read_page(source, chunk, page)[1], page.values).lengths.max())


def _read_page(
    source: Any,
    chunk: pq.ColumnChunkMetaData,
    page: PageHeader,
    scratch: ScratchFiles | None = None,
) -> tuple[memoryview, memoryview]:
    """Returns the levels of a page of version 2, and the rest of the page, decompressed.

    The content is in a file if `scratch` is given.
    """
    if scratch is not None:
        return _read_page_to_file(source, chunk, page, scratch)
    stored = source.read_at(page.stored, page.at)
    if len(stored) != page.stored:
        raise ValueError(f"the page at byte {page.at} ends too early")
    if page.checksum is not None and zlib.crc32(stored) != page.checksum & 0xFFFFFFFF:
        raise ValueError(f"the checksum of the page at byte {page.at} does not match")
    start = page.repetition_bytes
    end = start + page.definition_bytes
    levels = memoryview(stored)[start:end]
    codec = str(chunk.compression)
    if codec == "UNCOMPRESSED" or not page.is_compressed:
        return levels, memoryview(stored)[end:]
    # The levels of a page of version 2 are not compressed.
    name = "lz4_raw" if codec == "LZ4" else codec.lower()
    return levels, memoryview(
        pa.Codec(name).decompress(pa.py_buffer(stored).slice(end), page.unfolded - end)
    )


def _read_page_to_file(
    source: Any, chunk: pq.ColumnChunkMetaData, page: PageHeader, scratch: ScratchFiles
) -> tuple[memoryview, memoryview]:
    stored = scratch.mapped(page.stored)
    checksum = 0
    for start in range(0, page.stored, BLOCK):
        block = source.read_at(min(BLOCK, page.stored - start), page.at + start)
        if len(block) < min(BLOCK, page.stored - start):
            raise ValueError(f"the page at byte {page.at} ends too early")
        stored[start : start + len(block)] = np.frombuffer(block, np.uint8)
        checksum = zlib.crc32(block, checksum)
    if page.checksum is not None and checksum != page.checksum & 0xFFFFFFFF:
        raise ValueError(f"the checksum of the page at byte {page.at} does not match")
    start = page.repetition_bytes
    end = start + page.definition_bytes
    codec = str(chunk.compression)
    if codec == "UNCOMPRESSED" or not page.is_compressed:
        return stored[start:end].data, stored[end:].data
    unfolded = scratch.mapped(page.unfolded - end)
    if codec == "SNAPPY":
        complete = decompress_snappy(stored[end:], unfolded)
    elif codec == "LZ4":
        complete = decompress_lz4(stored[end:], unfolded)
    elif codec in STREAM_CODECS:
        complete = _decompress_stream(stored[end:], codec.lower(), unfolded)
    else:
        raise ValueError(
            f"a page of column {chunk.path_in_schema!r} unfolds into "
            f"{page.unfolded:,} bytes, and {codec.lower()} can only be "
            f"decompressed in memory; run with more {name_setting('memory')}, or write the file "
            "with another compression or smaller pages"
        )
    if not complete:
        raise ValueError(
            f"the page at byte {page.at} does not have the {page.unfolded:,} "
            "bytes that its header states"
        )
    return stored[start:end].data, unfolded.data


def _decompress_stream(stored: np.ndarray, codec: str, unfolded: np.ndarray) -> bool:
    """Decompresses into an array. Returns True if the content has exactly its size."""
    done = 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(stored)), codec) as stream:
        while block := stream.read(BLOCK):
            if done + len(block) > len(unfolded):
                return False
            unfolded[done : done + len(block)] = np.frombuffer(block, np.uint8)
            done += len(block)
    return done == len(unfolded)


def _parse_delta_numbers(data: memoryview, at: int, count: int) -> tuple[np.ndarray, int]:
    """Returns integers that are stored as packed differences, and the position after them."""
    block_size, at = _parse_varint(data, at)
    miniblocks, at = _parse_varint(data, at)
    total, at = _parse_varint(data, at)
    first, at = _parse_varint(data, at)
    if (
        total != count
        or not miniblocks
        or block_size % miniblocks
        or not 0 < block_size // miniblocks <= BLOCK
    ):
        raise ValueError("a page has fewer values than its header states")
    size = block_size // miniblocks
    numbers = np.empty(count, np.int64)
    numbers[:1] = (first >> 1) ^ -(first & 1)
    done = 1
    while done < count:
        smallest, at = _parse_varint(data, at)
        smallest = (smallest >> 1) ^ -(smallest & 1)
        widths = bytes(data[at : at + miniblocks])
        at += miniblocks
        for width in widths:
            if done >= count:
                break
            packed = np.frombuffer(data[at : at + size * width // 8], np.uint8)
            if len(packed) < size * width // 8 or width > 32:
                raise ValueError("a page has fewer values than its header states")
            at += len(packed)
            bits = np.unpackbits(packed, bitorder="little").reshape(size, width)
            decoded = bits[: count - done] @ (1 << np.arange(width, dtype=np.int64)) + smallest
            numbers[done : done + len(decoded)] = decoded
            done += len(decoded)
    return np.cumsum(numbers), at


def _locate_values(data: memoryview, start: int, lengths: np.ndarray) -> PageValues:
    ends = start + np.cumsum(lengths)
    if len(lengths) and (int(lengths.min()) < 0 or int(ends[-1]) > len(data)):
        raise ValueError("a value is longer than its page")
    return PageValues(data, ends - lengths, lengths)


def _parse_delta_texts(data: memoryview, count: int, cut: int) -> Iterator[bytes]:
    """Yields values that are stored as the part that differs from the previous value.

    Values are cut after `cut` bytes.
    """
    shared, at = _parse_delta_numbers(data, 0, count)
    lengths, at = _parse_delta_numbers(data, at, count)
    rests = _locate_values(data, at, lengths)
    if count and int(shared.min()) < 0:
        raise ValueError("a value is longer than its page")
    before = b""
    longest = cut + LONGEST_CHARACTER
    for place, common in enumerate(shared.tolist()):
        start = int(rests.starts[place])
        rest = data[start : start + min(int(lengths[place]), max(longest - common, 0))]
        if common > len(before) < longest:
            raise ValueError("a value is longer than its page")
        before = before[:common] + bytes(rest)
        yield PageValues(memoryview(before), np.zeros(1, np.int64), np.full(1, len(before))).at(
            0, cut
        )


def _parse_plain_values(data: memoryview, count: int) -> PageValues:
    """Returns the places of values that each follow their length."""
    # An array takes less memory than a list of integers, and is faster to fill than one of numpy.
    sizes = array("q")
    at = 0
    try:
        for _ in range(count):
            (length,) = STORED_LENGTH.unpack_from(data, at)
            sizes.append(length)
            at += LENGTH_BYTES + length
    except struct.error:
        at = len(data) + 1
    if at > len(data):
        raise ValueError("a value is longer than its page")
    lengths = np.array(sizes, np.int64)
    ends = np.cumsum(lengths + LENGTH_BYTES)
    return PageValues(data, ends - lengths, lengths)


def _parse_hybrid_numbers(data: memoryview, width: int, count: int) -> np.ndarray:
    """Returns integers in the hybrid encoding of runs and packed bits, int64 (count,)."""
    if not width:
        return np.zeros(count, np.int64)
    parts: list[np.ndarray] = []
    decoded = at = 0
    weights = 1 << np.arange(width, dtype=np.int64)
    while decoded < count:
        header, at = _parse_varint(data, at)
        if header & 1:
            packed = np.frombuffer(data[at : at + (header >> 1) * width], np.uint8)
            bits = np.unpackbits(packed, bitorder="little")
            numbers = bits[: len(bits) // width * width].reshape(-1, width) @ weights
            at += (header >> 1) * width
        else:
            size = (width + 7) // 8
            value = int.from_bytes(data[at : at + size], "little")
            numbers = np.full(min(header >> 1, count - decoded), value, np.int64)
            at += size
        if not len(numbers):
            raise ValueError("a page has fewer values than its header states")
        parts.append(numbers)
        decoded += len(numbers)
    return np.concatenate(parts)[:count] if parts else np.empty(0, np.int64)


def _parse_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Returns an integer and the position after it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 35:
            raise ValueError("a page has fewer values than its header states")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
