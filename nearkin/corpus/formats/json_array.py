"""JSON files that hold one array, whose elements are read like lines of JSON lines."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import FileSlice, ItemsBeforeDamage, open_compressed_sink
from nearkin.corpus.formats.json_lines import BLOCK, JsonLines, LineWriter
from nearkin.corpus.formats.json_rows import BOM, LINE_SHARE, JsonRow, JsonSliceBuilder
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.places import has_row_between

OUTSIDE = re.compile(rb'["\[\]{},]')
"""The characters that have a meaning outside of strings."""
INSIDE = re.compile(rb'["\\]')
"""The characters that have a meaning inside of strings."""


class JsonArray(JsonLines):
    """The format of a file with one array of objects. A row is an element.

    The file is read in blocks, and one element at a time is in memory.
    """

    has_lines = False

    def read_rows(
        self, stream: Any, limit: int, columns: Columns | None = None
    ) -> Iterator[JsonRow]:
        """Yields the elements of a stream. An element of more than `limit` bytes has no bytes.

        Args:
            stream: The stream of bytes.
            limit: The maximum number of bytes of an element.
        """
        elements = ElementSplitter(limit)
        is_open = False
        while block := bytes(stream.read(BLOCK)):
            if not is_open:
                block = block.removeprefix(BOM).lstrip()
                if block and not block.startswith(b"["):
                    raise ValueError("the file does not hold a JSON array")
                is_open = bool(block)
                block = block[1:]
            yield from elements.feed(block)
            if elements.after.strip():
                raise ValueError("something follows the end of the array")
        elements.require_end()

    def read(
        self,
        file: InputFile,
        columns: Columns,
        start: int,
        *,
        whole: bool,
        rows: np.ndarray | None = None,
    ) -> Iterator[FileSlice]:
        """Yields the elements of a file in slices, as described in `Format`."""
        with file.open_decompressed() as stream:
            builder = JsonSliceBuilder(columns, start, whole=whole, has_lines=self.has_lines)
            limit = LINE_SHARE * columns.document_limit
            elements = ItemsBeforeDamage(self.read_rows(stream, limit, columns))
            for element in elements:
                if element.row >= start and has_row_between(rows, element.row, element.row + 1):
                    builder.add(element)
                    if builder.full:
                        yield builder.take_slice()
            if builder.begun:
                yield builder.take_slice()
            elements.raise_damage()

    def writer(self, file: InputFile, columns: Columns, target: str) -> LineWriter:
        """Returns a writer of an array."""
        return ArrayWriter(open_compressed_sink(file, target), columns.source)


class ElementSplitter:
    """Divides JSON that arrives in blocks into the elements of an array, or into objects.

    Only brackets, quotes and commas are examined. An element that is not valid JSON does not
    affect the others.

    Args:
        limit: The maximum number of bytes of an element.

    Attributes:
        after: What follows the array.
    """

    def __init__(self, limit: int, depth: int = 1) -> None:
        self._limit = limit
        self._outside = depth
        self._depth = depth
        self._ended = False
        self._in_string = False
        self._escaped = False
        self._row = 0
        self._held: list[bytes] = []
        self._size = 0
        self.after = b""

    def feed(self, block: bytes) -> Iterator[JsonRow]:
        """Yields the elements that end in the next block."""
        at = 0
        start = 0
        while not self._ended and at < len(block):
            if self._in_string:
                at = self._to_end_of_string(block, at)
                continue
            mark = OUTSIDE.search(block, at)
            if mark is None:
                break
            at = mark.end()
            character = mark.group()
            if character == b'"':
                self._in_string = True
            elif character in b"[{":
                self._depth += 1
            elif character != b"," and self._depth > self._outside:
                self._depth -= 1
                if self._depth == 0:
                    yield from self._element(block[start:at], last=True)
                    start = at
            elif self._depth == self._outside == 1:
                yield from self._element(block[start : at - 1], last=character == b"]")
                start = at
                if character == b"]":
                    self._ended = True
                elif character == b"}":
                    raise ValueError(
                        f"the array is not valid JSON after element {self._row}: "
                        "a closing brace has no opening brace"
                    )
        if not self._ended:
            self._hold(block[start:])
            return
        self.after += block[start:]
        if len(self.after) > self._limit:
            raise ValueError("what follows the end of the array is too long")

    def require_end(self) -> None:
        """Raises ValueError if the array, or the last object, is not complete."""
        if self._outside == 0:
            if self._depth or b"".join(self._held).strip():
                raise ValueError(f"the JSON is not complete after row {self._row}")
        elif not self._ended:
            raise ValueError(f"the array is not closed after element {self._row}")

    def _to_end_of_string(self, block: bytes, at: int) -> int:
        if self._escaped:
            self._escaped = False
            at += 1
        while (found := INSIDE.search(block, at)) is not None:
            if found.group() == b'"':
                self._in_string = False
                return found.end()
            at = found.end() + 1
            if at > len(block):
                self._escaped = True
                break
        return len(block)

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._held = []
        else:
            self._held.append(part)

    def _element(self, part: bytes, *, last: bool) -> Iterator[JsonRow]:
        self._hold(part)
        too_long_reason = self._size > self._limit
        raw = b"".join(self._held).strip()
        self._held = []
        self._size = 0
        # Nothing precedes the bracket of an empty array, or of one with a trailing comma.
        if too_long_reason or raw or not last:
            yield JsonRow(self._row, None if too_long_reason else raw or b"nothing")
            self._row += 1


class ArrayWriter(LineWriter):
    """A writer of elements into one array, with one element per line.

    Args:
        head: The bytes before the first element.
        end: The bytes after the last element.
    """

    def __init__(self, sink: Any, text_field: str, head: bytes = b"[", end: bytes = b"]\n") -> None:
        super().__init__(sink, text_field)
        self._head = head
        self._end = end
        self._begun = False

    def select(
        self, complete_rows: list[bytes], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> bytes:
        """Returns the kept elements with added fields.

        Args:
            keep: True for each row that is kept, bool (n,).
        """
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
