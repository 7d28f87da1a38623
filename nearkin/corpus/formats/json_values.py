"""JSON files with objects over several lines, or with one object that holds a list of rows."""

import json
import re
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import orjson

from nearkin.corpus.bounded_stream import read_up_to
from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.base import ItemsBeforeDamage, open_compressed_sink
from nearkin.corpus.formats.json_array import ArrayWriter, JsonArray, split_elements
from nearkin.corpus.formats.json_lines import JSON_DECODER, LineWriter
from nearkin.corpus.formats.json_rows import BOM, LINE_SHARE, STRING, JsonRow, parse_json
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import find_root

SAMPLE = 1 << 20
"""The number of bytes at the beginning of a file in which the list of rows must begin."""
TOKEN = re.compile(STRING.pattern + rb'|[\[\]{},:"]')
"""A pattern of a string, or of a character with a meaning outside of strings. A quote alone begins
a string that is not complete."""
OBJECT_IN_LIST = re.compile(rb"\s*\{")


class SeveralListsError(ValueError):
    """An error for an object with several lists of objects, any of which may be the rows."""


class RowList(NamedTuple):
    """The list of rows in the object that a file consists of."""

    name: str
    begin: int
    """The number of bytes before the first row, of which the last one is the bracket."""
    names_before: tuple[str, ...]
    """The names of the members before it."""


class JsonValues(JsonArray):
    """The format of objects over several lines, and of one object with a list of objects.

    A row is an object; or an element of the list, if the object itself has none of the columns of
    documents. One row at a time is in memory.
    """

    def read_rows(
        self, stream: Any, limit: int, columns: Columns | None = None
    ) -> Iterator[JsonRow]:
        """Yields the objects of a stream. An object of more than `limit` bytes has no bytes."""
        beginning = read_up_to(stream, SAMPLE)
        rows = find_row_list(beginning, columns or Columns())
        if rows is None:
            objects = beginning.removeprefix(BOM)
            yield from split_elements(stream, objects, limit, in_array=False)
        else:
            yield from _read_list(stream, beginning, rows, limit)

    def writer(self, file: InputFile, columns: Columns, target: str) -> LineWriter:
        """Returns a writer of objects, or of the object with the list of the kept ones."""
        with file.open_decompressed() as stream:
            beginning = read_up_to(stream, SAMPLE)
            rows = find_row_list(beginning, columns)
            if rows is None:
                return ValueWriter(file, target)
            end = _read_end(stream, beginning, rows, LINE_SHARE * columns.document_limit)
        head = beginning[: rows.begin]
        return ArrayWriter(open_compressed_sink(file, target), head, b"]" + end)


def _read_list(
    stream: Any, beginning: bytes, rows: RowList, limit: int
) -> Generator[JsonRow, None, bytes]:
    """Yields the elements of a list of rows, and returns what follows it in its object."""
    after = yield from split_elements(stream, beginning[rows.begin :], limit, in_array=True)
    _require_whole_object(beginning[: rows.begin], after, rows.name)
    return after


def _read_end(stream: Any, beginning: bytes, rows: RowList, limit: int) -> bytes:
    """Returns what follows the list of rows. A damaged file gets the end that its object needs."""
    ends: list[bytes] = []

    def read_elements() -> Iterator[JsonRow]:
        ends.append((yield from _read_list(stream, beginning, rows, limit)))

    for _ in ItemsBeforeDamage(read_elements()):
        pass
    return ends[0] if ends else b"}\n"


def find_row_list(sample: bytes, columns: Columns) -> RowList | None:
    """Returns the list of rows in an object, or None if the object is a row itself.

    The sample is the beginning of a file, or all of it if it has fewer than SAMPLE bytes.
    """
    row_list = _find_first_list(sample)
    if row_list is None:
        return None
    names = [*row_list.names_before, row_list.name]
    whole = _parse_whole(sample)
    if whole is not None:
        names = list(whole)
    if any(find_root(source, names) for source in columns.sources):
        return None
    if whole is not None:
        _require_one_list(whole)
        return row_list
    beginning = sample[row_list.begin :].decode("utf-8", "replace").lstrip()
    try:
        first, _ = JSON_DECODER.raw_decode(beginning)
    except (ValueError, RecursionError):
        return row_list
    has_source = any(find_root(source, list(first)) for source in columns.sources)
    return row_list if has_source else None


def has_list_of_objects(sample: bytes) -> bool:
    """Returns whether an object has a member whose value is a list that begins with an object."""
    return _find_first_list(sample) is not None


def _parse_whole(sample: bytes) -> dict[str, Any] | None:
    try:
        value = parse_json(sample.removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _find_first_list(sample: bytes) -> RowList | None:
    """Returns the first member of an object whose value is a list that begins with an object."""
    depth = 0
    name = ""
    names: list[str] = []
    is_name = False
    for token in TOKEN.finditer(sample):
        mark = token[0]
        if mark == b'"':
            return None
        if mark in (b"{", b"["):
            begins_value = mark == b"[" and depth == 1 and not is_name
            if begins_value and OBJECT_IN_LIST.match(sample, token.end()):
                return RowList(name, token.end(), tuple(names[:-1]))
            depth += 1
            is_name = depth == 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return None
        elif depth == 1 and mark == b",":
            is_name = True
        elif depth == 1 and mark == b":":
            is_name = False
        elif depth == 1 and is_name:
            name = _parse_name(mark)
            names.append(name)
    return None


def _parse_name(text: bytes) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return ""


def _require_one_list(value: dict[str, Any]) -> None:
    names = [
        name
        for name, content in value.items()
        if isinstance(content, list) and any(isinstance(element, dict) for element in content)
    ]
    if len(names) > 1:
        raise SeveralListsError(
            f"the object of the file holds several lists of rows ({', '.join(map(repr, names))}); "
            f"write one of them alone, for example with jq .{names[0]}"
        )


def _require_whole_object(head: bytes, end: bytes, name: str) -> None:
    """Raises ValueError if the object around a list of rows is not the only value of a file."""
    try:
        value = parse_json(head.removeprefix(BOM) + b"{}]" + end)
    except orjson.JSONDecodeError as error:
        raise ValueError(
            f"something follows the list {name!r} that is not the rest of one JSON object"
        ) from error
    _require_one_list(value)


class ValueWriter(LineWriter):
    """A writer of objects one after another. A file of which no object is kept is not written."""

    def __init__(self, file: InputFile, target: str) -> None:
        super().__init__(None)
        self._file = file
        self._target = target

    def write(self, rows: bytes) -> None:
        """Writes objects that `select` returned."""
        if rows and self._sink is None:
            self._sink = open_compressed_sink(self._file, self._target)
        if rows:
            super().write(rows)

    def close(self) -> None:
        """Completes the file."""
        if self._sink is not None:
            super().close()
