"""JSON lines: one object a line, kept ones written back byte for byte."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, ID, MAX_DOCUMENT, UNFOLDED_SHARE, Columns, carried_column_name
from nearkin.corpus.formats.base import FileSlice, ItemsBeforeDamage, make_unused_name, open_compressed_sink
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import (
    content_arrow_type,
    find_vector_fault,
    format_raw_prefix,
    most_common_length,
    too_long_reason,
)

BLOCK = 1 << 20
BOM = b"\xef\xbb\xbf"
LARGEST_WHOLE = 2.0**63
LINE_SHARE = 2
"""A line may have so many times the bytes of a document: for the other fields, and for characters that are escaped."""
VALUE_BYTES = {b"{": 256, b"[": 96, b":": 104, b",": 48}
"""Bytes of memory that the values of a line take for each of these characters between them, at most."""
DEEPEST_VALUE = 254
"""Levels of lists and objects inside of each other that a value may have to be written as text."""
LONG_LINE = 1 << 16
"""Bytes from which a line may take much memory when it is parsed."""
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')


class JsonRow(NamedTuple):
    """A line without its end; None instead of the bytes where it is too long to be kept in memory."""

    row: int
    raw: bytes | None


def read_lines(stream: Any, limit: int = LINE_SHARE * MAX_DOCUMENT) -> Iterator[JsonRow]:
    """Yields every line of a stream of bytes, blank ones too; a line without its bytes if there are more than `limit`."""
    held: list[bytes] = []
    row, size, dropped = 0, 0, False
    while block := stream.read(BLOCK):
        parts = bytes(block).split(b"\n")
        for part in parts[:-1]:
            yield JsonRow(row, None if dropped or size + len(part) > limit else b"".join([*held, part]))
            row, held, size, dropped = row + 1, [], 0, False
        size += len(parts[-1])
        if size > limit:
            held, dropped = [], True
        elif parts[-1]:
            held.append(parts[-1])
    if size:
        yield JsonRow(row, None if dropped else b"".join(held))


class JsonLines:
    """`.jsonl`, `.ndjson`, `.json` with an object on each line."""

    def columns(self, file: InputFile) -> list[str] | None:
        return None

    def read_rows(self, stream: Any, limit: int) -> Iterator[JsonRow]:
        """The lines of a stream, blank ones too; one of more than `limit` bytes without its bytes."""
        return read_lines(stream, limit)

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[FileSlice]:
        with file.open_decompressed() as stream:
            parser = _JsonSliceBuilder(columns, whole)
            lines = ItemsBeforeDamage(self.read_rows(stream, LINE_SHARE * columns.document_limit))
            next_row = start
            for line in lines:
                if line.row >= start:
                    parser.add(line)
                    next_row = line.row + 1
                    if parser.full:
                        yield parser.take_slice(next_row)
            if parser.begun:
                yield parser.take_slice(next_row)
            lines.raise_damage()

    def writer(self, file: InputFile, target: str) -> "LineWriter":
        return LineWriter(open_compressed_sink(file, target))


class _JsonSliceBuilder:
    """Collects lines to a piece."""

    def __init__(self, columns: Columns, whole: bool) -> None:
        self._columns = columns
        self._whole = whole
        self._names = columns.all
        self._texts = tuple(name for name in (columns.id, *columns.carried_columns) if name is not None)
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []
        self._values: list[dict[str, Any]] = []
        self._lines: list[bytes] = []
        self._rejected: list[tuple[int, str, str]] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= BATCH_BYTES or len(self._rows) + len(self._rejected) >= BATCH_ROWS

    @property
    def begun(self) -> bool:
        return bool(self._rows or self._rejected)

    def add(self, line: JsonRow) -> None:
        if line.raw is None:
            self._rejected.append((line.row, too_long_reason("line", LINE_SHARE * self._columns.document_limit), ""))
            return
        raw = line.raw.removeprefix(BOM) if line.row == 0 else line.raw
        if not raw.strip():
            return
        self._bytes += len(raw)
        try:
            reason = self._unfolds_too_far(raw)
            value: Any = None if reason else orjson.loads(raw)
            reason = reason or self._fault(value) or self._fault_beside(value)
        except orjson.JSONDecodeError as error:
            value, reason = None, _json_fault(raw, error)
        if reason:
            self._rejected.append((line.row, reason, format_raw_prefix(raw)))
            return
        self._with_exact_numbers(raw, value)
        self._rows.append(line.row)
        self._values.append({name: value.get(name) for name in self._names})
        if self._whole:
            self._lines.append(line.raw)

    def _unfolds_too_far(self, raw: bytes) -> str | None:
        """Why a line is not parsed: lists and objects of a few characters each take a multiple of them in memory."""
        if len(raw) < LONG_LINE:
            return None
        limit = UNFOLDED_SHARE * self._columns.document_limit
        if _value_bytes(raw) <= limit or _value_bytes(STRING.sub(b"", raw)) <= limit:
            return None
        return f"line has too many values: parsing them may take more than {limit:,} bytes"

    def _fault(self, value: Any) -> str | None:
        """Why a parsed line is no document, or None."""
        name = self._columns.source
        if not isinstance(value, dict):
            return "not a JSON object"
        if name not in value:
            return f"no field {name}"
        if value[name] is None:
            return f"null {name}"
        if self._columns.vector:
            if fault := find_vector_fault(value[name], name, self._columns.dimensions):
                return fault
        elif self._columns.tokens:
            if not (isinstance(value[name], list) and all(isinstance(token, str) for token in value[name])):
                return f"{name} is not a list of strings"
            if sum(map(len, value[name])) > self._columns.document_limit // 4 and (
                sum(len(token.encode()) for token in value[name]) > self._columns.document_limit
            ):
                return too_long_reason(name, self._columns.document_limit)
        elif not isinstance(value[name], str):
            return f"{name} is not a string"
        elif _longer_than(value[name], self._columns.document_limit):
            return too_long_reason(name, self._columns.document_limit)
        if self._columns.id is not None and value.get(self._columns.id) is None:
            return f"null id in {self._columns.id}"
        return None

    def _fault_beside(self, value: dict[str, Any]) -> str | None:
        """Returns why the id or a column that rides along cannot be used, or None; replaces lists and objects by their text."""
        for name in self._texts:
            found = value.get(name)
            if isinstance(found, (dict, list)):
                try:
                    found = value[name] = _text(found)
                except TypeError:
                    return f"{name} has more than {DEEPEST_VALUE} levels of lists and objects"
            if isinstance(found, str) and _longer_than(found, self._columns.document_limit):
                return too_long_reason(name, self._columns.document_limit)
        return None

    def _with_exact_numbers(self, raw: bytes, value: dict[str, Any]) -> None:
        """Replaces numbers that a float may not hold, of the id and the columns that ride along, by their digits."""
        inexact = [name for name in self._texts if _may_be_rounded(value.get(name), name == self._columns.id)]
        if not inexact:
            return
        try:
            exact = json.loads(raw, parse_int=str, parse_float=str)
        except RecursionError:
            return
        value.update({name: exact[name] for name in inexact})

    def take_slice(self, next_row: int) -> FileSlice:
        """What was collected; starts anew."""
        columns, values = self._columns, self._values
        if columns.vector and columns.dimensions is None and values:
            lengths = [len(value[columns.vector]) for value in values]
            columns = replace(columns, dimensions=most_common_length(lengths))
            fit = [at for at, length in enumerate(lengths) if length == columns.dimensions]
            values, self._rows = [values[at] for at in fit], [self._rows[at] for at in fit]
        arrays = {columns.content: pa.array([value[columns.source] for value in values], content_arrow_type(columns))}
        if columns.id is not None:
            arrays[ID] = _texts([value[columns.id] for value in values])
        arrays.update(
            {carried_column_name(name): _texts([value.get(name) for value in values]) for name in columns.carried_columns}
        )
        documents = pa.record_batch(list(arrays.values()), list(arrays))
        whole = self._lines if self._whole else None
        found = FileSlice(np.array(self._rows, np.int64), documents, self._rejected, next_row, whole)
        self._clear()
        return found


def _json_fault(raw: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return "invalid UTF-8"
    # orjson refuses lone surrogates (\ud800), which JSON's grammar allows but no UTF-8 holds.
    return "invalid JSON" if "surrogate" not in str(error) else "lone surrogate in JSON"


def _value_bytes(raw: bytes) -> int:
    return sum(raw.count(character) * size for character, size in VALUE_BYTES.items())


def _longer_than(text: str, limit: int) -> bool:
    """Whether a text has more than `limit` bytes; a character has four at most."""
    return len(text) > limit // 4 and len(text.encode()) > limit


def _may_be_rounded(value: Any, is_id: bool) -> bool:
    """Whole numbers of 2^64 and more are parsed to floats; so are fractions, of which ids need every digit."""
    return type(value) is float and (is_id or abs(value) >= LARGEST_WHOLE)


def _texts(values: list[Any]) -> pa.Array:
    """Returns JSON values as text, in the form of `format_as_text`, so that a number is the same in every format."""
    floats = [value for value in values if type(value) is float]
    shown = iter(pa.array(floats, pa.float64()).cast(pa.large_string()).to_pylist())
    return pa.array([next(shown) if type(value) is float else _text(value) for value in values], pa.large_string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


class LineWriter:
    """Writes lines; added columns are spliced in before the closing brace, so the rest stays byte for byte."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def select(self, whole: list[bytes], keep: np.ndarray, added: pa.RecordBatch | None) -> bytes:
        lines = [whole[at] for at in np.flatnonzero(keep).tolist()]
        if added is not None:
            lines = [_spliced(line, row) for line, row in zip(lines, added.to_pylist(), strict=True)]
        return b"\n".join(lines) + b"\n" if lines else b""

    def write(self, rows: bytes) -> None:
        self._sink.write(rows)

    def close(self) -> None:
        self._sink.close()


def _spliced(line: bytes, row: dict[str, Any]) -> bytes:
    text = line.rstrip()
    taken = set(orjson.loads(text.removeprefix(BOM)))
    fields = orjson.dumps({make_unused_name(name, taken): value for name, value in row.items()})
    return text[:-1].rstrip() + b"," + fields[1:]
