"""JSON files that hold one array, whose elements are read like lines of JSON lines."""

import re
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import (
    FileSlice,
    ItemsBeforeDamage,
    Reading,
    open_compressed_sink,
)
from nearkin.corpus.formats.json_lines import BLOCK, JsonLines, LineWriter
from nearkin.corpus.formats.json_rows import BOM, LINE_SHARE, STRING, JsonRow, JsonSliceBuilder
from nearkin.corpus.input_file import InputFile

TOKEN = re.compile(STRING.pattern + rb'|["\[\]{},]', re.DOTALL)
"""A pattern of a string, or of a character with a meaning outside of strings. A quote alone begins
a string that is not complete."""


LARGEST_BLOCK = 16 << 20
"""The largest number of bytes that are read at a time while an element is not complete."""


class JsonArray(JsonLines):
    """The format of a file with one array of objects. A row is an element.

    The file is read in blocks, and one element at a time is in memory.
    """

    has_lines = False

    def read_rows(
        self, stream: Any, limit: int, columns: Columns | None = None
    ) -> Iterator[JsonRow]:
        """Yields the elements of a stream. An element of more than `limit` bytes has no bytes."""
        beginning = bytes(stream.read(BLOCK)).removeprefix(BOM).lstrip()
        if not beginning.startswith(b"["):
            raise ValueError("the file does not hold a JSON array")
        after = yield from split_elements(stream, beginning[1:], limit, in_array=True)
        if after.strip():
            raise ValueError("something follows the end of the array")

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the elements of a file in slices, as described in `Format`."""
        with file.open_decompressed() as stream:
            columns = reading.columns
            builder = JsonSliceBuilder(columns, reading.start, whole=reading.whole, has_lines=False)
            limit = LINE_SHARE * columns.document_limit
            elements = ItemsBeforeDamage(self.read_rows(stream, limit, columns))
            for element in elements:
                if reading.needs(element.row, element.row + 1):
                    builder.add(element)
                    if builder.full:
                        yield builder.take_slice()
            if builder.begun:
                yield builder.take_slice()
            elements.raise_damage()

    def writer(self, file: InputFile, columns: Columns, target: str) -> LineWriter:
        """Returns a writer of an array."""
        return ArrayWriter(open_compressed_sink(file, target))


def split_elements(
    stream: Any, beginning: bytes, limit: int, *, in_array: bool
) -> Generator[JsonRow, None, bytes]:
    """Yields the elements of an array, or objects, and returns what follows the array.

    The stream has the bytes after the beginning, which is the inside of an array or begins with the
    first object. Only brackets, quotes and commas are examined, so an element that is not valid
    JSON does not affect the others. One of more than `limit` bytes has no bytes.
    """
    outside = 1 if in_array else 0
    depth = outside
    row = 0
    is_long = False
    held = beginning
    examined = 0
    while True:
        start = 0
        for token in TOKEN.finditer(held, examined):
            mark = token[0]
            examined = token.end()
            if mark == b'"':
                # The string is examined again when its end is read.
                examined = token.start()
                break
            is_closing = mark in (b"]", b"}")
            if mark in (b"[", b"{"):
                depth += 1
                continue
            if is_closing and depth > outside:
                depth -= 1
                if depth:
                    continue
                end = token.end()
            elif in_array and depth == 1 and (is_closing or mark == b","):
                end = token.start()
            else:
                continue
            is_long = is_long or end - start > limit
            raw = held[start:end].strip()
            start = token.end()
            # Nothing precedes the bracket of an empty array, or of one with a trailing comma.
            if is_long or raw or not is_closing:
                yield JsonRow(row, None if is_long else raw or b"nothing")
                row += 1
            is_long = False
            if not in_array or not is_closing:
                continue
            if mark == b"}":
                raise ValueError(
                    f"the array is not valid JSON after element {row}: "
                    "a closing brace has no opening brace"
                )
            return _read_after(stream, held[start:], limit)
        else:
            examined = len(held)
        held = held[start:]
        examined -= start
        if len(held) > limit:
            is_long = True
            held = _drop_content(held[examined:], limit)
            examined = 0
        # An incomplete string is examined again each time, so blocks become larger.
        block = bytes(stream.read(max(BLOCK, min(len(held), LARGEST_BLOCK))))
        if not block:
            if in_array:
                raise ValueError(f"the array is not closed after element {row}")
            if depth or held.strip():
                raise ValueError(f"the JSON is not complete after row {row}")
            return b""
        held += block


def _drop_content(held: bytes, limit: int) -> bytes:
    """Returns the beginning of a string without its characters, if they are too many."""
    if len(held) <= limit:
        return held
    is_escaped = (len(held) - len(held.rstrip(b"\\"))) % 2
    return b'"' + b"\\" * is_escaped


def _read_after(stream: Any, after: bytes, limit: int) -> bytes:
    while block := bytes(stream.read(BLOCK)):
        after += block
        if len(after) > limit:
            raise ValueError("what follows the end of the array is too long")
    return after


class ArrayWriter(LineWriter):
    """A writer of elements into one array, with one element per line.

    Args:
        head: The bytes before the first element.
        end: The bytes after the last element.
    """

    def __init__(self, sink: Any, head: bytes = b"[", end: bytes = b"]\n") -> None:
        super().__init__(sink)
        self._head = head
        self._end = end
        self._begun = False

    def select(
        self, complete_rows: Sequence[bytes], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> bytes:
        """Returns the kept elements with added fields."""
        lines = [
            element[:-1].replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
            for element in complete_rows
        ]
        return super().select(lines, keep, added)

    def write(self, rows: bytes) -> None:
        """Writes elements that `select` returned."""
        if rows:
            text = rows.removesuffix(b"\n").replace(b"\n", b",\n")
            super().write((b",\n" if self._begun else self._head + b"\n") + text)
            self._begun = True

    def close(self) -> None:
        """Completes the array and the file."""
        super().write((b"\n" if self._begun else self._head) + self._end)
        super().close()
