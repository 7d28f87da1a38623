"""JSON lines: one object per line. Kept lines are copied byte for byte."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.columns import (
    BATCH_BYTES,
    BATCH_ROWS,
    ID,
    MAX_DOCUMENT,
    UNFOLDED_SHARE,
    Columns,
    carried_column_name,
    join_texts,
)
from nearkin.corpus.formats.base import (
    FileSlice,
    ItemsBeforeDamage,
    RejectedRow,
    make_unused_name,
    open_compressed_sink,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import (
    content_arrow_type,
    find_vector_fault,
    format_raw_prefix,
    most_common_length,
    too_long_reason,
)

BLOCK = 1 << 20
"""The number of bytes that are read at a time."""
BOM = b"\xef\xbb\xbf"
LARGEST_WHOLE = 2.0**63
"""The absolute value from which a float may stand for an integer that it cannot hold."""
LINE_SHARE = 2
"""A line may have this many times the document limit, for its other fields and for escaped
characters."""
VALUE_BYTES = {b"{": 256, b"[": 96, b":": 104, b",": 48}
"""The maximum number of bytes of memory that parsed values take for each of these characters
between them."""
DEEPEST_VALUE = 254
"""The maximum number of levels of lists and objects in a value that is written as text."""
LONG_LINE = 1 << 16
"""The number of bytes from which the memory for parsing a line is estimated."""
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
"""A pattern of a JSON string."""


class JsonRow(NamedTuple):
    """A line without its end, or an element of an array."""

    row: int
    raw: bytes | None


def read_lines(stream: Any, limit: int = LINE_SHARE * MAX_DOCUMENT) -> Iterator[JsonRow]:
    """Yields every line of a stream of bytes, including blank ones.

    Args:
        stream: The stream.
        limit: The maximum number of bytes of a line. A longer line has no bytes.
    """
    held: list[bytes] = []
    row = 0
    size = 0
    dropped = False
    while block := stream.read(BLOCK):
        parts = bytes(block).split(b"\n")
        for part in parts[:-1]:
            yield JsonRow(
                row, None if dropped or size + len(part) > limit else b"".join([*held, part])
            )
            row = row + 1
            held = []
            size = 0
            dropped = False
        size += len(parts[-1])
        if size > limit:
            held, dropped = [], True
        elif parts[-1]:
            held.append(parts[-1])
    if size:
        yield JsonRow(row, None if dropped else b"".join(held))


class JsonLines:
    """The format of files with one object per line: `.jsonl`, `.ndjson` and `.json`.

    Attributes:
        has_lines: Whether each row is a line of the file.
    """

    has_lines = True

    def columns(self, file: InputFile, requested: Columns) -> list[str] | None:
        """Returns None, because each line has fields of its own.

        Args:
            file: The file.
            requested: Not used, because the file itself says how it is read.
        """
        return None

    def read_rows(self, stream: Any, limit: int) -> Iterator[JsonRow]:
        """Yields the lines of a stream. A line of more than `limit` bytes has no bytes.

        Args:
            stream: The stream of bytes.
            limit: The maximum number of bytes of a line.
        """
        return read_lines(stream, limit)

    def read(
        self, file: InputFile, columns: Columns, start: int, *, whole: bool
    ) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`.

        Args:
            file: The file.
            columns: The fields to read.
            start: The row at which reading starts.
            whole: Whether the slices hold the complete rows.
        """
        with file.open_decompressed() as stream:
            builder = _JsonSliceBuilder(columns, whole=whole, has_lines=self.has_lines)
            lines = ItemsBeforeDamage(self.read_rows(stream, LINE_SHARE * columns.document_limit))
            next_row = start
            for line in lines:
                if line.row >= start:
                    builder.add(line)
                    next_row = line.row + 1
                    if builder.full:
                        yield builder.take_slice(next_row)
            if builder.begun:
                yield builder.take_slice(next_row)
            lines.raise_damage()

    def writer(self, file: InputFile, columns: Columns, target: str) -> "LineWriter":
        """Returns a writer of lines.

        Args:
            file: The input file.
            columns: Not used, because the file itself says how it is read.
            target: The path of the file to write.
        """
        return LineWriter(open_compressed_sink(file, target))


class _JsonSliceBuilder:
    """Parses lines and collects them into a slice."""

    def __init__(self, columns: Columns, *, whole: bool, has_lines: bool) -> None:
        self._columns = columns
        self._whole = whole
        self._has_lines = has_lines
        self._names = columns.all
        self._texts = tuple(
            name for name in (columns.id, *columns.carried_columns) if name is not None
        )
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []
        self._values: list[dict[str, Any]] = []
        self._lines: list[bytes] = []
        self._rejected: list[RejectedRow] = []
        self._bytes = 0

    def _line_of(self, line: JsonRow) -> int | None:
        return line.row + 1 if self._has_lines else None

    @property
    def full(self) -> bool:
        return self._bytes >= BATCH_BYTES or len(self._rows) + len(self._rejected) >= BATCH_ROWS

    @property
    def begun(self) -> bool:
        return bool(self._rows or self._rejected)

    def add(self, line: JsonRow) -> None:
        if line.raw is None:
            self._rejected.append(
                RejectedRow(
                    line.row,
                    too_long_reason("the row", LINE_SHARE * self._columns.document_limit),
                    "",
                    self._line_of(line),
                )
            )
            return
        raw = line.raw.removeprefix(BOM) if line.row == 0 else line.raw
        if not raw.strip():
            return
        self._bytes += len(raw)
        try:
            reason = self._find_memory_fault(raw)
            value: Any = None if reason else orjson.loads(raw)
            reason = reason or self._find_fault(value) or self._find_column_fault(value)
        except orjson.JSONDecodeError as error:
            value, reason = None, _find_json_fault(raw, error)
        if reason:
            self._rejected.append(
                RejectedRow(line.row, reason, format_raw_prefix(raw), self._line_of(line))
            )
            return
        self._restore_exact_numbers(raw, value)
        self._rows.append(line.row)
        self._values.append({name: value.get(name) for name in self._names})
        if self._whole:
            self._lines.append(line.raw)

    def _find_memory_fault(self, raw: bytes) -> str | None:
        """Returns the reason why a line is not parsed, or None.

        Lists and objects of a few characters each take a multiple of these characters in memory.
        """
        if len(raw) < LONG_LINE:
            return None
        limit = UNFOLDED_SHARE * self._columns.document_limit
        if _value_bytes(raw) <= limit or _value_bytes(STRING.sub(b"", raw)) <= limit:
            return None
        return f"the row has too many values: parsing them may take more than {limit:,} bytes"

    def _find_fault(self, value: Any) -> str | None:
        """Returns the reason why a parsed line is not a document, or None."""
        name = self._columns.source
        if not isinstance(value, dict):
            return "the row is not a JSON object"
        if self._columns.joined:
            return self._find_joined_fault(value) or self._find_id_fault(value)
        if name not in value:
            return f"the field {name} is missing"
        if value[name] is None:
            return f"{name} is null"
        if self._columns.vector:
            if fault := find_vector_fault(value[name], name, self._columns.dimensions):
                return fault
        elif self._columns.tokens:
            if not (
                isinstance(value[name], list)
                and all(isinstance(token, str) for token in value[name])
            ):
                return f"{name} is not a list of strings"
            if sum(map(len, value[name])) > self._columns.document_limit // 4 and (
                sum(len(token.encode()) for token in value[name]) > self._columns.document_limit
            ):
                return too_long_reason(name, self._columns.document_limit)
        elif not isinstance(value[name], str):
            return f"{name} is not a string"
        elif _longer_than(value[name], self._columns.document_limit):
            return too_long_reason(name, self._columns.document_limit)
        return self._find_id_fault(value)

    def _find_joined_fault(self, value: dict[str, Any]) -> str | None:
        """Returns the reason why the texts of several fields are not a document, or None."""
        names = self._columns.sources
        shown = " and ".join(names)
        if all(value.get(name) is None for name in names):
            return f"{shown} are missing or null"
        for name in names:
            if not isinstance(value.get(name), str | None):
                return f"{name} is not a string"
        if _longer_than(join_texts(map(value.get, names)), self._columns.document_limit):
            return too_long_reason(shown, self._columns.document_limit)
        return None

    def _find_id_fault(self, value: dict[str, object]) -> str | None:
        if self._columns.id is not None and value.get(self._columns.id) is None:
            return f"the id in {self._columns.id} is null"
        return None

    def _content_of(self, value: dict[str, Any]) -> Any:
        """Returns the document of a parsed line."""
        if self._columns.joined:
            return join_texts(map(value.get, self._columns.sources))
        return value[self._columns.source]

    def _find_column_fault(self, value: dict[str, object]) -> str | None:
        """Returns the reason why the id or a carried column cannot be used, or None.

        Lists and objects are replaced by their text.
        """
        for name in self._texts:
            content = value.get(name)
            if isinstance(content, (dict, list)):
                try:
                    content = value[name] = _text(content)
                except TypeError:
                    return f"{name} has more than {DEEPEST_VALUE} levels of lists and objects"
            if isinstance(content, str) and _longer_than(content, self._columns.document_limit):
                return too_long_reason(name, self._columns.document_limit)
        return None

    def _restore_exact_numbers(self, raw: bytes, value: dict[str, object]) -> None:
        """Replaces numbers of the id and of carried columns by their digits.

        Only numbers that a float may not hold are replaced.
        """
        inexact = [
            name
            for name in self._texts
            if _may_be_rounded(value.get(name), is_id=name == self._columns.id)
        ]
        if not inexact:
            return
        try:
            exact = json.loads(raw, parse_int=str, parse_float=str)
        except RecursionError:
            return
        value.update({name: exact[name] for name in inexact})

    def take_slice(self, next_row: int) -> FileSlice:
        """Returns the collected rows as a slice, and begins the next one."""
        columns, values = self._columns, self._values
        if columns.vector and columns.dimensions is None and values:
            lengths = [len(value[columns.vector]) for value in values]
            columns = replace(columns, dimensions=most_common_length(lengths))
            fit = [at for at, length in enumerate(lengths) if length == columns.dimensions]
            values, self._rows = [values[at] for at in fit], [self._rows[at] for at in fit]
        arrays = {
            columns.content: pa.array(
                [self._content_of(value) for value in values], content_arrow_type(columns)
            )
        }
        if columns.id is not None:
            arrays[ID] = _convert_to_texts([value[columns.id] for value in values])
        arrays.update(
            {
                carried_column_name(name): _convert_to_texts([value.get(name) for value in values])
                for name in columns.carried_columns
            }
        )
        documents = pa.record_batch(list(arrays.values()), list(arrays))
        whole = self._lines if self._whole else None
        file_slice = FileSlice(
            np.array(self._rows, np.int64), documents, self._rejected, next_row, whole
        )
        self._clear()
        return file_slice


def _find_json_fault(raw: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return "the row is not valid UTF-8"
    # orjson refuses lone surrogates (\ud800), which the grammar of JSON allows.
    if "surrogate" in str(error):
        return "the row has a lone surrogate, which UTF-8 cannot represent"
    return "the row is not valid JSON"


def _value_bytes(raw: bytes) -> int:
    return sum(raw.count(character) * size for character, size in VALUE_BYTES.items())


def _longer_than(text: str, limit: int) -> bool:
    """Returns True if a text has more than `limit` bytes. A character has at most four bytes."""
    return len(text) > limit // 4 and len(text.encode()) > limit


def _may_be_rounded(value: Any, *, is_id: bool) -> bool:
    """Returns True if a number may have lost digits when it was parsed.

    Integers of 2^64 and more become floats. Of fractions, every digit matters in ids only.
    """
    return type(value) is float and (is_id or abs(value) >= LARGEST_WHOLE)


def _convert_to_texts(values: list[Any]) -> pa.Array:
    """Returns JSON values as text, in the form of `format_as_text`.

    A number has the same form in every format.
    """
    floats = [value for value in values if type(value) is float]
    shown = iter(pa.array(floats, pa.float64()).cast(pa.large_string()).to_pylist())
    return pa.array(
        [next(shown) if type(value) is float else _text(value) for value in values],
        pa.large_string(),
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


class LineWriter:
    """A writer of lines.

    Added fields are inserted before the closing brace, and the rest of a line is copied.

    Args:
        sink: The stream to write to.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def select(
        self, complete_rows: list[bytes], keep: np.ndarray, added: pa.RecordBatch | None
    ) -> bytes:
        """Returns the kept lines with added fields.

        Args:
            complete_rows: The lines of a slice, without their line ends.
            keep: True for each row that is kept, bool (n,).
            added: The fields to add to the kept lines, or None.
        """
        lines = [complete_rows[at] for at in np.flatnonzero(keep).tolist()]
        if added is not None:
            lines = [
                _insert_fields(line, row)
                for line, row in zip(lines, added.to_pylist(), strict=True)
            ]
        return b"\n".join(lines) + b"\n" if lines else b""

    def write(self, rows: bytes) -> None:
        """Writes lines that `select` returned."""
        self._sink.write(rows)

    def close(self) -> None:
        """Completes the file."""
        self._sink.close()


def _insert_fields(line: bytes, row: dict[str, object]) -> bytes:
    text = line.rstrip()
    taken = set(orjson.loads(text.removeprefix(BOM)))
    fields = orjson.dumps({make_unused_name(name, taken): value for name, value in row.items()})
    return text[:-1].rstrip() + b"," + fields[1:]
