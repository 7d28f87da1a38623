"""JSON files that hold one array, whose elements are read like lines of JSON lines."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import FileSlice, ItemsBeforeDamage, open_compressed_sink
from nearkin.corpus.formats.json_lines import BLOCK, JsonLines, LineWriter
from nearkin.corpus.formats.json_rows import BOM, LINE_SHARE, JsonRow, JsonSliceBuilder
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.places import has_row_between

SAMPLE = 1 << 16
"""The number of bytes at the beginning of a file that decide whether it holds an array."""
OUTSIDE = re.compile(rb'["\[\]{},]')
"""The characters that have a meaning outside of strings."""
INSIDE = re.compile(rb'["\\]')
"""The characters that have a meaning inside of strings."""


def holds_array(file: InputFile) -> bool:
    """Returns True if a JSON file holds one array instead of one object per line.

    A `.json` file does if it begins with a bracket. In JSON lines, the first line must also not
    be complete by itself.
    """
    with file.open_decompressed() as stream:
        sample = bytes(stream.read(SAMPLE)).removeprefix(BOM).lstrip()
    if not sample.startswith(b"["):
        return False
    if file.suffix == ".json":
        return True
    first, newline, _ = sample.partition(b"\n")
    if not newline:
        return len(sample) >= SAMPLE // 2
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return True
    return False


class JsonArray(JsonLines):
    """The format of a file with one array of objects. A row is an element.

    The file is read in blocks, and one element at a time is in memory.
    """

    has_lines = False

    def read_rows(self, stream: Any, limit: int) -> Iterator[JsonRow]:
        """Yields the elements of a stream. An element of more than `limit` bytes has no bytes.

        Args:
            stream: The stream of bytes.
            limit: The maximum number of bytes of an element.

        Raises:
            ValueError: If the stream is not one JSON array, or ends within it.
        """
        elements = _ElementSplitter(limit)
        while block := stream.read(BLOCK):
            yield from elements.feed(bytes(block))
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
        """Yields the elements of a file in slices, as described in `Format`.

        Args:
            file: The file.
            columns: The fields to read.
            start: The element at which reading starts.
            whole: Whether the slices hold the complete elements.
            rows: The elements that are needed, or None for all. Others are not parsed.
        """
        with file.open_decompressed() as stream:
            builder = JsonSliceBuilder(columns, start, whole=whole, has_lines=self.has_lines)
            limit = LINE_SHARE * columns.document_limit
            elements = ItemsBeforeDamage(self.read_rows(stream, limit))
            for element in elements:
                if element.row >= start and has_row_between(rows, element.row, element.row + 1):
                    builder.add(element)
                    if builder.full:
                        yield builder.take_slice()
            if builder.begun:
                yield builder.take_slice()
            elements.raise_damage()

    def writer(self, file: InputFile, columns: Columns, target: str) -> "ArrayWriter":
        """Returns a writer of an array.

        Args:
            file: The input file.
            columns: The columns that were read.
            target: The path of the file to write.
        """
        return ArrayWriter(open_compressed_sink(file, target), columns.source)


class _ElementSplitter:
    """Divides an array that arrives in blocks into its elements.

    Only brackets, quotes and commas are examined. An element that is not valid JSON does not
    affect the others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._depth = 0
        self._ended = False
        self._in_string = False
        self._escaped = False
        self._row = 0
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, block: bytes) -> Iterator[JsonRow]:
        """Yields the elements that end in the next block.

        Raises:
            ValueError: If the brackets do not match, or something follows the array.
        """
        at = 0
        if self._depth == 0 and not self._ended:
            at = self._open(block)
        start = at
        while self._depth > 0 and at < len(block):
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
            elif character != b"," and self._depth > 1:
                self._depth -= 1
            elif self._depth == 1:
                yield from self._element(block[start : at - 1], last=character == b"]")
                start = at
                if character == b"]":
                    self._depth = 0
                    self._ended = True
                elif character == b"}":
                    raise ValueError(
                        f"the array is not valid JSON after element {self._row}: "
                        "a closing brace has no opening brace"
                    )
        if self._ended:
            if block[at:].strip():
                raise ValueError("something follows the end of the array")
        elif self._depth > 0:
            self._hold(block[start:])

    def require_end(self) -> None:
        """Raises ValueError if the array is not complete."""
        if not self._ended:
            raise ValueError(f"the array is not closed after element {self._row}")

    def _open(self, block: bytes) -> int:
        text = block.removeprefix(BOM).lstrip()
        if not text:
            return len(block)
        if not text.startswith(b"["):
            raise ValueError("the file does not hold a JSON array")
        self._depth = 1
        return len(block) - len(text) + 1

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
    """A writer of elements into one array, with one element per line."""

    def __init__(self, sink: Any, text_field: str) -> None:
        super().__init__(sink, text_field)
        self._begun = False

    def select(
        self, complete_rows: list[bytes], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> bytes:
        """Returns the kept elements with added fields.

        Args:
            complete_rows: The elements of a slice, each with a line end behind it.
            keep: True for each row that is kept, bool (n,).
            added: The fields to add to the kept elements, or None.
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
            super().write((b",\n" if self._begun else b"[\n") + text)
            self._begun = True

    def close(self) -> None:
        """Completes the array and the file."""
        super().write(b"\n]\n" if self._begun else b"[]\n")
        super().close()
