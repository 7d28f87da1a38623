"""A first look into input files: content that no reader understands, and the fields of JSON objects."""

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from nearkin.corpus.formats.json_lines import BLOCK, BOM, JsonLines
from nearkin.corpus.input_file import InputFile

SAMPLE = 1 << 16
SAMPLED_OBJECTS = 1000
SAMPLED_BYTES = 4 << 20
READABLE = (
    "nearkin reads .parquet, .jsonl, .ndjson, .json, .csv, .tsv, .arrow, .feather and .ipc, UTF-8 text with any other suffix, "
    "and these compressed as .gz, .zst, .bz2 and .lz4"
)
CONTENTS = {
    b"PK\x03\x04": "a zip archive or an Office document",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"PAR1": "parquet; give it the suffix .parquet",
    b"ARROW1": "Arrow data; give it the suffix .arrow",
    b"\x1f\x8b": "gzip data; give it the suffix .gz",
    b"\x28\xb5\x2f\xfd": "zstd data; give it the suffix .zst",
    b"BZh": "bzip2 data; give it the suffix .bz2",
    b"\x04\x22\x4d\x18": "lz4 data; give it the suffix .lz4",
    b"\xfd7zXZ": "xz data; decompress it",
    b"%PDF": "a PDF document; extract its text",
    b"SQLite format 3": "an SQLite database; export its table",
    b"\xff\xfe": "UTF-16 text; convert it to UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it to UTF-8",
}
"""What files that are not UTF-8 text begin with."""


def foreign_content(file: InputFile, whole_text: bool) -> str | None:
    """Returns what a file holds that is not the text it should be, or None.

    Args:
        file: A file that is read as text: JSON, delimited or one whole text.
        whole_text: Whether the file is one text; then null bytes are foreign too.
    """
    with file.open_decompressed() as stream:
        sample = bytes(stream.read(SAMPLE))
    if _is_text(sample):
        # a table may have a column PAR1
        return None
    for start, content in CONTENTS.items():
        if sample.startswith(start):
            return content
    return "null bytes, so it is not UTF-8 text" if whole_text and b"\0" in sample else None


def _is_text(sample: bytes) -> bool:
    """Whether bytes are UTF-8 without null bytes; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return b"\0" not in sample


class Fields(NamedTuple):
    """The fields of the first objects of a JSON file."""

    names: dict[str, None]
    """The names, in the order in which they were seen."""
    objects: int
    """The number of objects that were looked at."""
    complete: bool
    """Whether that was the whole file."""


def first_fields(file: InputFile, form: JsonLines) -> Fields:
    """Looks at the first objects of a JSON file, at most SAMPLED_OBJECTS and about SAMPLED_BYTES."""
    names: dict[str, None] = {}
    objects = size = 0
    with file.open_decompressed() as stream:
        for line in form.records(stream, SAMPLED_BYTES):
            size += len(line.raw or b"")
            value = _object(line.raw)
            if value is not None:
                names.update(dict.fromkeys(value))
                objects += 1
            if objects >= SAMPLED_OBJECTS or size >= SAMPLED_BYTES:
                return Fields(names, objects, False)
    return Fields(names, objects, True)


def _object(raw: bytes | None) -> dict[str, Any] | None:
    try:
        value = orjson.loads((raw or b"").removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def mentions(file: InputFile, name: str) -> bool:
    """Whether the bytes of a JSON file hold a string with this content: without one, no object has a field of this name."""
    wanted = {json.dumps(name, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace") for ascii_only in (True, False)}
    return any(text in part for part in _overlapping(file, max(map(len, wanted))) for text in wanted)


def _overlapping(file: InputFile, overlap: int) -> Iterator[bytes]:
    end = b""
    with file.open_decompressed() as stream:
        while block := stream.read(BLOCK):
            part = end + bytes(block)
            yield part
            end = part[-overlap:]


def quoted(names: Iterable[str], most: int = 30) -> str:
    """Names for a message, in quotes."""
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(map(repr, shown[:most])) + more
