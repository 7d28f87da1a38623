"""JSON lines: one object per line. Kept lines are copied byte for byte."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.bounded_stream import SpanStream
from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import (
    FileSlice,
    Format,
    ItemsBeforeDamage,
    Reading,
    ValueForm,
    ValueReader,
    list_added_values,
    make_unused_name,
    open_compressed_sink,
)
from nearkin.corpus.formats.json_rows import BOM, LINE_SHARE, JsonRow, JsonSliceBuilder, parse_json
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.places import ByteSpan, RowGroup
from nearkin.corpus.validation import make_empty_documents
from nearkin.runtime.arrow_types import TEXT
from nearkin.runtime.joined_file import JoinedFile

BLOCK = 1 << 19
"""The number of bytes that are read at a time, which fit into a cache."""


NEWLINE = ord("\n")
JSON_SPACES = " \t\r\n"
JSON_DECODER = json.JSONDecoder()
VALUE_PART = re.compile(r'[\[{]|[\]}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^][{}",:\s]+')
"""A pattern of a bracket, a string, or another value of JSON."""


class LineBlock(NamedTuple):
    """Consecutive lines of a file."""

    row: int
    """The number of the first line, counted from 0."""
    lines: list[bytes] | None
    """The lines with their line ends, of which that of the last may be missing. None stands for one
    line that is too long."""


class OpenedLines(NamedTuple):
    """A stream of lines."""

    stream: Any
    row: int
    """The number of the first line."""


def divide_lines(file: InputFile, least: int) -> Iterator[RowGroup]:
    """Yields groups of `least` bytes or more of the lines of a file that is not compressed."""
    number = 0
    row = 0
    start = 0
    with Path(file.path).open("rb", buffering=0) as source:
        while True:
            rows = 0
            size = 0
            end = start
            while content := source.read(BLOCK):
                rows += content.count(b"\n")
                size += len(content)
                if newline := content.rfind(b"\n") + 1:
                    end = start + size - len(content) + newline
                if size >= least and end > start:
                    break
            if not content:
                # The last line may lack its end.
                rows += start + size > end
                end = start + size
            if end > start:
                yield RowGroup(number, row, rows, end - start, ByteSpan(row, start, end))
            if not content:
                return
            number += 1
            row += rows
            start = source.seek(end)


@contextmanager
def open_lines(file: InputFile, span: ByteSpan | None) -> Iterator[OpenedLines]:
    """Opens some lines of a file, or all."""
    with file.open_decompressed() as stream:
        if span is None:
            yield OpenedLines(stream, 0)
        else:
            yield OpenedLines(SpanStream(stream, span.start, span.end), span.row)


def read_line_blocks(stream: Any, limit: int, row: int = 0) -> Iterator[LineBlock]:
    """Yields the lines of a stream of bytes in blocks, also blank ones, from a first row on."""
    for content in read_whole_lines(stream, limit):
        lines = None if content is None else io.BytesIO(content).readlines()
        yield LineBlock(row, lines)
        row += 1 if lines is None else len(lines)


def read_whole_lines(stream: Any, limit: int) -> Iterator[bytes | None]:
    """Yields the content of consecutive lines of a stream, and None for each line that is too long.

    A line that does not end in a block is dropped if it has more than `limit` bytes. The last line
    of the stream may lack its end.
    """
    held: list[bytes] = []
    size = 0
    while part := bytes(stream.read(BLOCK)):
        end = part.rfind(b"\n") + 1
        begin = 0
        if end and size > limit:
            yield None
            begin = part.index(b"\n") + 1
        if end > begin:
            yield b"".join([*held, part[begin:end]])
        if end:
            held = []
            size = 0
        size += len(part) - end
        if size > limit:
            held = []
        else:
            held.append(part[end:])
    if size > limit:
        yield None
    elif size:
        yield b"".join(held)


def read_lines(stream: Any, limit: int) -> Iterator[JsonRow]:
    """Yields every line of a stream of bytes, including blank ones.

    A line of more than `limit` bytes has no bytes.
    """
    for block in read_line_blocks(stream, limit):
        if block.lines is None:
            yield JsonRow(block.row, None)
            continue
        for row, line in enumerate(block.lines, block.row):
            raw = line.removesuffix(b"\n")
            yield JsonRow(row, raw if len(raw) <= limit else None)


class JsonLines(Format):
    """The format of files with one object per line: `.jsonl`, `.ndjson` and `.json`.

    Attributes:
        has_lines: Whether each row is a line of the file.
    """

    has_lines = True
    value_form = ValueForm.JSON

    def value_reader(self, file: InputFile, columns: Columns, names: Sequence[str]) -> ValueReader:
        """Returns a function that returns the JSON texts of fields, null if a row lacks one."""

        def read_values(lines: list[bytes]) -> pa.RecordBatch:
            rows = [_read_fields(line, names) for line in lines]
            columns = [pa.array([row[at] for row in rows], TEXT) for at in range(len(names))]
            return pa.record_batch(columns, list(names))

        return read_values

    def read_rows(
        self, stream: Any, limit: int, columns: Columns | None = None
    ) -> Iterator[JsonRow]:
        """Yields the lines of a stream. A line of more than `limit` bytes has no bytes."""
        return read_lines(stream, limit)

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`."""
        columns, start, whole, rows, span = reading
        with open_lines(file, span) as (lines, first):
            start = max(start, first)
            builder = JsonSliceBuilder(columns, start, whole=whole, has_lines=True)
            limit = LINE_SHARE * columns.document_limit
            if whole and rows is not None:
                contents = ItemsBeforeDamage(read_whole_lines(lines, limit))
                yield from _copy_lines(contents, columns, rows, first)
                contents.raise_damage()
                return
            blocks = ItemsBeforeDamage(read_line_blocks(lines, limit, first))
            for block in blocks:
                yield from _read_block(block, builder, rows)
            if builder.begun:
                yield builder.take_slice()
            blocks.raise_damage()

    def writer(self, file: InputFile, columns: Columns, target: str) -> "LineWriter":
        """Returns a writer of lines."""
        return LineWriter(open_compressed_sink(file, target))


def _read_block(
    block: LineBlock, builder: JsonSliceBuilder, rows: np.ndarray | None
) -> Iterator[FileSlice]:
    """Adds the needed lines of a block to a builder, and yields the slices that become full."""
    lines: Sequence[bytes | None] = [None] if block.lines is None else block.lines
    first = max(builder.next_row, block.row)
    needed: Iterable[int] = range(first, block.row + len(lines))
    if rows is not None:
        low, high = np.searchsorted(rows, [first, block.row + len(lines)])
        needed = rows[low:high].tolist()
    for row in needed:
        builder.add_line(row, lines[row - block.row])
        if builder.full:
            yield builder.take_slice()


def _copy_lines(
    contents: Iterable[bytes | None], columns: Columns, rows: np.ndarray, row: int
) -> Iterator[FileSlice]:
    """Yields lines that are known to be documents, by ascending rows, without parsing them.

    Args:
        row: The number of the first line.
    """
    no_values = make_empty_documents(columns)
    for content in contents:
        if content is None:
            row += 1
            continue
        if not content.endswith(b"\n"):
            content += b"\n"
        ends = np.flatnonzero(np.frombuffer(content, np.uint8) == NEWLINE) + 1
        low, high = np.searchsorted(rows, [row, row + len(ends)])
        places = rows[low:high] - row
        starts = np.concatenate([[0], ends[:-1]])
        row += len(ends)
        lines = Lines(content, starts[places], ends[places])
        yield FileSlice(rows[low:high], no_values, [], row, lines)


class Lines(Sequence[bytes]):
    """Lines of a block with their line ends, which are not divided before they are needed.

    Args:
        starts: The place of the first byte of each line, ascending, int64 (n,).
        ends: The place after its last byte, int64 (n,).
    """

    def __init__(self, content: bytes, starts: np.ndarray, ends: np.ndarray) -> None:
        self._content = content
        self._starts = starts
        self._ends = ends

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> "Lines": ...
    def __getitem__(self, place: int | slice) -> "bytes | Lines":
        if isinstance(place, slice):
            return Lines(self._content, self._starts[place], self._ends[place])
        return self._content[self._starts[place] : self._ends[place]]

    def join(self, keep: np.ndarray) -> bytes:
        r"""Returns some of the lines, one after the other. Consecutive ones are copied together.

        Args:
            keep: True for each of these lines, bool (n,).

        Examples:
            >>> lines = Lines(b"a\nb\nc\n", np.array([0, 2, 4]), np.array([2, 4, 6]))
            >>> lines.join(np.array([True, False, True]))
            b'a\nc\n'
        """
        starts, ends = self._starts[keep], self._ends[keep]
        begins = np.flatnonzero(np.concatenate([[True], starts[1:] != ends[:-1]]))[: len(starts)]
        last = np.concatenate([begins[1:], [len(starts)]])[: len(begins)] - 1
        content = memoryview(self._content)
        spans = zip(starts[begins].tolist(), ends[last].tolist(), strict=True)
        return b"".join(content[start:end] for start, end in spans)


class LineWriter:
    """A writer of lines.

    Added fields are inserted before the closing brace, and the rest of a line is copied.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def replace_values(
        self, complete_rows: Sequence[bytes], name: str, values: pa.Array
    ) -> list[bytes]:
        """Returns lines with other values of a field. Other fields are copied byte for byte."""
        return [
            line if value is None else _replace_field(line, name, value)
            for line, value in zip(complete_rows, values.to_pylist(), strict=True)
        ]

    def select(
        self, complete_rows: Sequence[bytes], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> bytes:
        """Returns the kept lines with added fields."""
        if added is None and isinstance(complete_rows, Lines):
            return complete_rows.join(keep)
        lines = compress(complete_rows, keep.tolist())
        if added is None:
            return b"".join(lines)
        return b"".join(
            _insert_fields(line, row)
            for line, row in zip(lines, list_added_values(added), strict=True)
        )

    def write(self, rows: bytes) -> None:
        """Writes lines that `select` returned."""
        self._sink.write(rows)

    def close(self) -> None:
        """Completes the file."""
        self._sink.close()


class LineAppender:
    """A file that receives the lines of other files."""

    def __init__(self, target: Path, pool: Executor) -> None:
        self._file = JoinedFile(target, pool)
        self._is_begun = False

    def append(self, part: Path) -> None:
        """Moves the lines of a file behind those that were appended before."""
        size = part.stat().st_size
        if self._is_begun:
            self._file.append(part, 0, size)
        else:
            self._file.begin(part, size)
        self._is_begun = True

    def close(self) -> None:
        """Completes the file."""
        if self._is_begun:
            self._file.finish(b"")


def _replace_field(line: bytes, name: str, value: str) -> bytes:
    """Returns an object with another JSON value of a field, wherever the field occurs in it.

    An object without the field gets it.
    """
    source = line.decode()
    parts = []
    copied = 0
    for start, end in _find_values(source, name):
        parts += [source[copied:start], value]
        copied = end
    if not parts:
        return _append_fields(line, f"{orjson.dumps(name).decode()}:{value}".encode())
    return "".join([*parts, source[copied:]]).encode()


def _read_fields(line: bytes, names: Sequence[str]) -> list[str | None]:
    """Returns the JSON texts of some fields, each None if the object lacks it.

    Of several fields of a name, the last one counts, as in every parser.
    """
    values = parse_json(line.removeprefix(BOM))
    return [_write_exactly(values.get(name), name, line) for name in names]


def _write_exactly(value: Any, name: str, line: bytes) -> str | None:
    """Returns the JSON text of the value of a field, whose numbers keep all their digits."""
    if value is None:
        return None
    if type(value) is str or (type(value) is list and set(map(type, value)) <= {str}):
        return orjson.dumps(value).decode()
    source = line.decode()
    *_, (start, end) = _find_values(source, name)
    return source[start:end]


def _find_values(source: str, name: str) -> Iterator[tuple[int, int]]:
    """Yields where the values of a field begin and end in an object."""
    at = _skip_spaces(source, source.index("{") + 1)
    while source[at] != "}":
        key, at = JSON_DECODER.raw_decode(source, at)
        start = _skip_spaces(source, source.index(":", at) + 1)
        at = _skip_value(source, start)
        if key == name:
            yield start, at
        at = _skip_spaces(source, at)
        at = _skip_spaces(source, at + 1) if source[at] == "," else at


def _skip_spaces(source: str, at: int) -> int:
    while source[at] in JSON_SPACES:
        at += 1
    return at


def _skip_value(source: str, at: int) -> int:
    """Returns the end of a value of valid JSON, which may be nested to any depth."""
    level = 0
    for part in VALUE_PART.finditer(source, at):
        at = part.end()
        if part[0] in ("[", "{"):
            level += 1
        elif part[0] in ("]", "}"):
            level -= 1
        if not level:
            break
    return at


def _insert_fields(line: bytes, row: dict[str, object]) -> bytes:
    taken = set(parse_json(line.removeprefix(BOM)))
    fields = orjson.dumps({make_unused_name(name, taken): value for name, value in row.items()})
    return _append_fields(line, fields[1:-1])


def _append_fields(line: bytes, fields: bytes) -> bytes:
    """Returns a line with further fields before the closing brace."""
    text = line.rstrip()[:-1].rstrip()
    separator = b"" if text.endswith(b"{") else b","
    return text + separator + fields + b"}\n"
