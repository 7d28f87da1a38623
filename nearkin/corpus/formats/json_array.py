"""JSON files that hold one array: its elements, each read as a line of JSON lines is, and written into an array again."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.formats.base import open_compressed_sink
from nearkin.corpus.formats.json_lines import BLOCK, BOM, JsonLines, JsonRow, LineWriter
from nearkin.corpus.input_file import InputFile

SAMPLE = 1 << 16
OUTSIDE = re.compile(rb'["\[\]{},]')
INSIDE = re.compile(rb'["\\]')


def holds_array(file: InputFile) -> bool:
    """Returns whether a JSON file holds one array instead of one object a line.

    A `.json` file does if it begins with a bracket. Of JSON lines, the first line must also not be complete by itself.
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
    """A file with one array of objects; a row is an element. The file is read in blocks, and an element is held at a time."""

    def read_rows(self, stream: Any, limit: int) -> Iterator[JsonRow]:
        elements = _ElementSplitter(limit)
        while block := stream.read(BLOCK):
            yield from elements.feed(bytes(block))
        elements.require_end()

    def writer(self, file: InputFile, target: str) -> "ArrayWriter":
        return ArrayWriter(open_compressed_sink(file, target))


class _ElementSplitter:
    """Cuts an array that comes in blocks into its elements, by its brackets, quotes and commas alone.

    An element that is not valid JSON inside does not harm the others.
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
            ValueError: If the brackets do not match, or something stands behind the array.
        """
        at = 0
        if self._depth == 0 and not self._ended:
            at = self._open(block)
        start = at
        while self._depth > 0 and at < len(block):
            if self._in_string:
                at = self._to_end_of_string(block, at)
                continue
            found = OUTSIDE.search(block, at)
            if found is None:
                break
            at = found.end()
            character = found.group()
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
                    raise ValueError(f"the array is not valid JSON after element {self._row}: a brace closes nothing")
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
            raise ValueError("not a JSON array")
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

    def _element(self, part: bytes, last: bool) -> Iterator[JsonRow]:
        self._hold(part)
        too_long_reason = self._size > self._limit
        raw = b"".join(self._held).strip()
        self._held = []
        self._size = 0
        # an array without elements, or with a comma behind the last one, has nothing in front of its bracket
        if too_long_reason or raw or not last:
            yield JsonRow(self._row, None if too_long_reason else raw or b"nothing")
            self._row += 1


class ArrayWriter(LineWriter):
    """Writes elements into one array, an element a line."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._begun = False

    def select(self, whole: list[bytes], keep: np.ndarray, added: pa.RecordBatch | None) -> bytes:
        lines = [element.replace(b"\r", b" ").replace(b"\n", b" ") for element in whole]
        return super().select(lines, keep, added)

    def write(self, rows: bytes) -> None:
        if rows:
            text = rows.removesuffix(b"\n").replace(b"\n", b",\n")
            super().write((b",\n" if self._begun else b"[\n") + text)
            self._begun = True

    def close(self) -> None:
        super().write(b"\n]\n" if self._begun else b"[]\n")
        super().close()
