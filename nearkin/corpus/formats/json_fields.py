"""The names of the fields of the objects in JSON files."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from nearkin.corpus.formats.json_lines import BLOCK, BOM, JsonLines
from nearkin.corpus.input_file import InputFile

SAMPLED_OBJECTS = 1000
SAMPLED_BYTES = 4 << 20


class FieldSample(NamedTuple):
    """The fields of the first objects of a JSON file."""

    names: dict[str, None]
    """The names, in the order in which they were seen."""
    objects: int
    """The number of objects that were looked at."""
    complete: bool
    """Whether that was the whole file."""


def sample_fields(file: InputFile, form: JsonLines) -> FieldSample:
    """Looks at the first objects of a JSON file, at most SAMPLED_OBJECTS and about SAMPLED_BYTES."""
    names: dict[str, None] = {}
    objects = size = 0
    with file.open_decompressed() as stream:
        for line in form.read_rows(stream, SAMPLED_BYTES):
            size += len(line.raw or b"")
            value = _parse_object(line.raw)
            if value is not None:
                names.update(dict.fromkeys(value))
                objects += 1
            if objects >= SAMPLED_OBJECTS or size >= SAMPLED_BYTES:
                return FieldSample(names, objects, False)
    return FieldSample(names, objects, True)


def _parse_object(raw: bytes | None) -> dict[str, Any] | None:
    try:
        value = orjson.loads((raw or b"").removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def contains_string(file: InputFile, name: str) -> bool:
    """Whether the bytes of a JSON file hold a string with this content: without one, no object has a field of this name."""
    wanted = {json.dumps(name, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace") for ascii_only in (True, False)}
    return any(text in part for part in _read_overlapping(file, max(map(len, wanted))) for text in wanted)


def _read_overlapping(file: InputFile, overlap: int) -> Iterator[bytes]:
    end = b""
    with file.open_decompressed() as stream:
        while block := stream.read(BLOCK):
            part = end + bytes(block)
            yield part
            end = part[-overlap:]


def format_names(names: Iterable[str], most: int = 30) -> str:
    """Names for a message, in quotes."""
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(map(repr, shown[:most])) + more
