"""The detection of how a JSON file is divided into rows: lines, one array, or objects."""

import json
from typing import Any

import orjson

from nearkin.corpus.bounded_stream import read_up_to
from nearkin.corpus.formats.json_array import JsonArray
from nearkin.corpus.formats.json_lines import BLOCK, JSON_DECODER, JsonLines
from nearkin.corpus.formats.json_rows import BOM, parse_json
from nearkin.corpus.formats.json_values import SAMPLE as ROW_LIST_SAMPLE
from nearkin.corpus.formats.json_values import JsonValues, has_list_of_objects
from nearkin.corpus.input_file import InputFile

SAMPLE = 1 << 16
"""The number of bytes at the beginning of a file that decide how it is read."""
LINES = JsonLines()
ARRAY = JsonArray()
VALUES = JsonValues()
JSON = ".json"


def detect_json_form(file: InputFile) -> JsonLines:
    """Returns the format of a JSON file.

    It is JSON lines if the first line is complete by itself, one array if the file begins with a
    bracket, and otherwise objects over several lines, or several in a line. A `.json` file may also
    be one line: an array, or an object with a list of objects.
    """
    with file.open_decompressed() as stream:
        content = bytes(stream.read(SAMPLE))
        sample = content.removeprefix(BOM).lstrip()
        is_whole = len(content) < SAMPLE
        if sample.startswith(b"["):
            if not _is_first_line_complete(sample, is_whole=is_whole):
                return ARRAY
            has_arrays = sample.partition(b"\n")[2].lstrip().startswith(b"[")
            return ARRAY if file.suffix == JSON and not has_arrays else LINES
        if not sample.startswith(b"{"):
            return LINES
        if _joins_objects(sample.partition(b"\n")[0]):
            return VALUES
        if b"\n" in sample.rstrip():
            return VALUES if _spans_lines(sample, is_whole=is_whole) else LINES
        if file.suffix != JSON:
            return LINES
        sample += read_up_to(stream, ROW_LIST_SAMPLE)
        holds_rows = has_list_of_objects(sample) and not _is_line_of_rows(sample, stream)
        return VALUES if holds_rows else LINES


def _is_first_line_complete(sample: bytes, *, is_whole: bool) -> bool:
    first, newline, _ = sample.partition(b"\n")
    if newline:
        return _is_complete(first)
    return is_whole


def _joins_objects(line: bytes) -> bool:
    text = line.decode("utf-8", "replace")
    try:
        end = JSON_DECODER.raw_decode(text)[1]
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip().startswith("{")


def _spans_lines(sample: bytes, *, is_whole: bool) -> bool:
    """Returns whether the first value is one over several lines, and not a damaged line."""
    text = sample.decode("utf-8", "replace").rstrip()
    try:
        end = JSON_DECODER.raw_decode(text)[1]
    except json.JSONDecodeError as error:
        last = text.rfind("\n") + 1
        if error.pos < last:
            return False
        # A sample may end within a value. A file that does is damaged, or has a damaged first line.
        return not is_whole or error.pos == len(text) or not _is_complete(text[last:])
    except (ValueError, RecursionError):
        return False
    return "\n" in text[:end]


def _is_complete(line: str | bytes) -> bool:
    try:
        parse_json(line.encode() if isinstance(line, str) else line)
    except orjson.JSONDecodeError:
        return False
    return True


def _is_line_of_rows(line: bytes, stream: Any) -> bool:
    block = line
    previous = b""
    while block:
        before, newline, rest = block.partition(b"\n")
        if newline:
            ends_row = (before or previous).rstrip().endswith(b"}")
            return ends_row and bool((rest + bytes(stream.read(BLOCK))).strip())
        previous = block
        block = bytes(stream.read(BLOCK))
    return False
