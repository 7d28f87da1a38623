"""Blocks of comma- and tab-separated values, which Arrow decodes if the csv module would agree.

Arrow and the csv module differ in what they make of quotes within values, of rows with too many or
too few values, of blank lines and of bytes that are not valid UTF-8. Blocks with any of these are
left to the csv module.
"""

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.dialect import UTF8, Dialect
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.text_forms import is_utf8
from nearkin.corpus.validation import check_rows

BLOCK = 1 << 20
"""The number of bytes that are read at a time."""
LONGEST_LINE = 32 << 20
"""The number of bytes without a line end from which the rest of a file is not read in blocks."""
QUOTE = ord('"')
NEWLINE = ord("\n")
RETURN = ord("\r")
BOM = b"\xef\xbb\xbf"


class RowBlocks:
    """The blocks of a stream. A block ends with a line end that no quotes enclose, if it has one.

    Args:
        stream: The stream of bytes.

    Attributes:
        is_last: Whether the latest block is the last one.
        rest: The rest of the file as a stream, if a line is too long for blocks. None otherwise.
    """

    def __init__(self, stream: Any, beginning: bytes) -> None:
        self._stream = stream
        self._held = beginning
        self.is_last = False
        self.rest: io.RawIOBase | None = None

    def read(self) -> Iterator[bytes]:
        """Yields the blocks. Before an error of reading, all complete lines are yielded."""
        while True:
            try:
                # A row over several blocks is parsed again each time, so they become larger.
                with decoding():
                    part = bytes(self._stream.read(max(BLOCK, len(self._held))))
            except DamageError:
                yield self._held[: self._held.rfind(b"\n") + 1]
                raise
            if not part:
                break
            block = self._held + part
            end = _find_row_end(block)
            if end:
                self._held = block[end:]
                yield block[:end]
            elif len(block) <= LONGEST_LINE:
                self._held = block
            else:
                self.rest = JoinedStream(block, self._stream)
                return
        self.is_last = True
        yield self._held

    def put_back(self, rest: bytes) -> None:
        """Lets the next block begin with the end of the latest one.

        Args:
            rest: The bytes of a row that is not complete.
        """
        self._held = rest + self._held


def _find_row_end(content: bytes) -> int:
    """Returns the end of the last line that no quotes enclose, otherwise that of the last line."""
    last = content.rfind(b"\n")
    is_quote = np.frombuffer(content, np.uint8) == QUOTE
    end = last
    inside = np.count_nonzero(is_quote[:last]) % 2 if last >= 0 else 0
    while end >= 0 and inside:
        previous = content.rfind(b"\n", 0, end)
        inside = (inside + np.count_nonzero(is_quote[max(previous, 0) : end])) % 2
        end = previous
    return (end if end >= 0 else last) + 1


class JoinedStream(io.RawIOBase):
    """A block of bytes, and the stream that follows it.

    Args:
        block: The bytes.
        stream: The stream of bytes.
    """

    def __init__(self, block: bytes, stream: Any) -> None:
        super().__init__()
        self._block = memoryview(block)
        self._stream = stream

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer and returns the number of bytes."""
        part = self._block[: len(buffer)]
        self._block = self._block[len(part) :]
        if not len(part):
            part = memoryview(self._stream.read(len(buffer)))
        buffer[: len(part)] = part
        return len(part)


class DecodedBlock(NamedTuple):
    """The rows of a block."""

    rows: pa.RecordBatch
    """The columns that the run reads, large_string."""
    content: bytes
    ends: np.ndarray
    """The end of each row in the content, int64 (n,)."""
    lines: int
    """The number of line ends."""

    def complete_rows(self) -> list[str]:
        """Returns all characters of each row."""
        ends = self.ends.tolist()
        starts = [0, *ends[:-1]]
        return [self.content[start:end].decode() for start, end in zip(starts, ends, strict=True)]


class BlockDecoder:
    """A decoder of blocks into the columns that a run reads."""

    def __init__(self, names: list[str], columns: Columns, dialect: Dialect) -> None:
        self._names = names
        self._columns = columns
        self._delimiter = dialect.delimiter
        self._encoding = dialect.encoding

    @property
    def is_usable(self) -> bool:
        """True if blocks of this dialect may be decoded."""
        has_columns = set(self._columns.stored) <= set(self._names)
        return has_columns and self._encoding == UTF8 and self._delimiter.isascii()

    def decode(self, content: bytes) -> DecodedBlock | None:
        """Returns the rows of a block, or None if the csv module has to parse it."""
        codes = np.frombuffer(content, np.uint8)
        if not content or not self._is_plain(content, codes):
            return None
        quotes = np.flatnonzero(codes == QUOTE)
        newlines = np.flatnonzero(codes == NEWLINE)
        if not self._are_regular(codes, quotes):
            return None
        ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1
        if not len(ends) or ends[-1] < len(content):
            ends = np.append(ends, len(content))
        # A blank line is a row of empty values to Arrow.
        first_characters = codes[np.concatenate([[0], ends[:-1]])]
        if ((first_characters == NEWLINE) | (first_characters == RETURN)).any():
            return None
        rows = self._parse(content)
        if rows is None or len(rows) != len(ends):
            return None
        # Any text is a document, but not every one is a fingerprint.
        has_fingerprints = self._columns.fingerprint or self._columns.fields
        if has_fingerprints and check_rows(rows, self._columns).rejected:
            return None
        return DecodedBlock(rows, content, ends, len(newlines))

    def _is_plain(self, content: bytes, codes: np.ndarray) -> bool:
        """Returns whether no character has another meaning to Arrow than to the csv module."""
        if len(content) > self._columns.document_limit or content.startswith(BOM):
            return False
        after_returns = np.flatnonzero(codes == RETURN) + 1
        if len(after_returns) and after_returns[-1] == len(codes):
            return False
        if (codes[after_returns] != NEWLINE).any():
            return False
        return bool(codes.min() > 0) and is_utf8(content)

    def _are_regular(self, codes: np.ndarray, quotes: np.ndarray) -> bool:
        """Returns whether all quotes enclose values, or are doubled within such values."""
        if len(quotes) % 2:
            return False
        opening, closing = quotes[::2], quotes[1::2]
        is_border = np.zeros(256, bool)
        is_border[[ord(self._delimiter), NEWLINE, RETURN, QUOTE]] = True
        before = codes[np.maximum(opening - 1, 0)]
        after = codes[np.minimum(closing + 1, len(codes) - 1)]
        return bool(
            (is_border[before] | (opening == 0)).all()
            and (is_border[after] | (closing == len(codes) - 1)).all()
        )

    def _parse(self, content: bytes) -> pa.RecordBatch | None:
        # Most runs read no CSV.
        from pyarrow import csv

        numbers = list(map(str, range(len(self._names))))
        places = {name: str(self._names.index(name)) for name in self._columns.stored}
        wanted = list(dict.fromkeys(places.values()))
        try:
            table = csv.read_csv(
                pa.BufferReader(content),
                csv.ReadOptions(
                    use_threads=False, block_size=len(content) + 1, column_names=numbers
                ),
                csv.ParseOptions(
                    delimiter=self._delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                ),
                csv.ConvertOptions(
                    check_utf8=False,
                    include_columns=wanted,
                    column_types=dict.fromkeys(wanted, pa.large_string()),
                ),
            )
        except pa.ArrowInvalid:
            return None
        batch = table.combine_chunks().to_batches()[0]
        return pa.record_batch([batch[place] for place in places.values()], list(places))
