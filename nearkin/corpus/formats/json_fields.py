"""The names of the fields of the objects in JSON files."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import orjson

from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.json_lines import BLOCK, JsonLines
from nearkin.corpus.formats.json_rows import BOM, find_repeated_key, parse_json
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import SEPARATOR, find_value, list_paths_of_value

SAMPLED_OBJECTS = 1000
"""The maximum number of objects that are examined."""
SAMPLED_BYTES = 4 << 20
"""The approximate number of bytes that are examined."""


class FieldSample(NamedTuple):
    """The fields of the first objects of a JSON file."""

    names: dict[str, None]
    """The names, and the paths inside fields, in order of appearance."""
    lists: set[str]
    """The names and paths of the fields whose values are lists, apart from nulls."""
    objects: int
    """The number of objects that were examined."""
    complete: bool
    """True if the whole file was examined."""
    misfit: str | None = None
    """Why the rows of the file cannot be documents, and what to do; or None if some may be."""


def sample_fields(file: InputFile, form: JsonLines, columns: Columns) -> FieldSample:
    """Returns the fields of the first objects of a JSON file."""
    names: dict[str, None] = {}
    lists: set[str] = set()
    others: set[str] = set()
    objects = size = 0
    kinds: set[type] = set()
    is_complete = True
    first: Any = None
    with file.open_decompressed() as stream:
        for line in form.read_rows(stream, SAMPLED_BYTES, columns):
            size += len(line.raw or b"")
            value = _parse_value(line.raw)
            first = value if first is None else first
            if not isinstance(value, dict):
                kinds.add(type(value))
            else:
                paths = dict.fromkeys(list_paths_of_value(value))
                names.update(paths)
                for path in paths:
                    content = find_value(value, path)
                    if content is not None:
                        (lists if isinstance(content, list) else others).add(path)
                objects += 1
            if objects >= SAMPLED_OBJECTS or size >= SAMPLED_BYTES:
                is_complete = False
                break
    misfit = None
    if not objects and kinds == {str}:
        misfit = "its rows are texts without the name of a column"
    elif not objects and kinds == {list} and any(isinstance(entry, str) for entry in first):
        misfit = "its rows are arrays, whose values have no names"
    if misfit:
        misfit += f"; write each row as an object such as {{{json.dumps(columns.source)}: …}}"
    elif is_complete and objects == 1 and not kinds and _holds_columns(first, columns):
        misfit = (
            "it is one object with all values of each column; write one object for each row, in "
            "pandas with to_json(path, orient='records', lines=True)"
        )
    return FieldSample(names, lists - others, objects, complete=is_complete, misfit=misfit)


def _holds_columns(value: dict[str, Any], columns: Columns) -> bool:
    """Returns whether each field of an object has the values of all rows, as pandas writes them."""
    if columns.content != "text" or not isinstance(value.get(columns.source), dict | list):
        return False
    if all(isinstance(field, dict) for field in value.values()):
        return len({tuple(field) for field in value.values()}) == 1
    return all(isinstance(field, list) for field in value.values()) and (
        len({len(field) for field in value.values()}) == 1
    )


def find_sampled_repetition(file: InputFile, form: JsonLines, columns: Columns) -> str | None:
    """Returns a key that one of the first objects of a JSON file has twice, or None."""
    with file.open_decompressed() as stream:
        rows = islice(form.read_rows(stream, SAMPLED_BYTES, columns), SAMPLED_OBJECTS)
        keys = (find_repeated_key((row.raw or b"").removeprefix(BOM)) for row in rows)
        return next((key for key in keys if key is not None), None)


def _parse_value(raw: bytes | None) -> Any:
    try:
        return parse_json((raw or b"").removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None


def contains_path(file: InputFile, path: str) -> bool:
    """Returns True if the bytes of a JSON file contain the names of a path as strings.

    If they do not, no object has a field of this name, or a path to it.
    """
    return _contains_string(file, path) or (
        SEPARATOR in path and all(_contains_string(file, name) for name in path.split(SEPARATOR))
    )


def _contains_string(file: InputFile, name: str) -> bool:
    wanted = {
        json.dumps(name, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
        for ascii_only in (True, False)
    }
    return any(
        text in part for part in _read_overlapping(file, max(map(len, wanted))) for text in wanted
    )


def _read_overlapping(file: InputFile, overlap: int) -> Iterator[bytes]:
    end = b""
    with file.open_decompressed() as stream:
        while block := stream.read(BLOCK):
            part = end + bytes(block)
            yield part
            end = part[-overlap:]


def format_names(names: Iterable[str], most: int = 30) -> str:
    """Returns names in quotes for a message."""
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(map(repr, shown[:most])) + more
