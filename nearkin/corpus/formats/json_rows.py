"""Rows of JSON, and their division into documents and rejected rows."""

import json
import re
from collections import Counter
from contextlib import suppress
from itertools import compress
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from nearkin.corpus.batches import RAW_PREFIX, Rejection
from nearkin.corpus.columns import BATCH_ROWS, UNFOLDED_SHARE, Columns, ContentField, FieldKind
from nearkin.corpus.fingerprints import to_fingerprint_bytes
from nearkin.corpus.formats.base import FileSlice
from nearkin.corpus.nested_columns import MISSING, SEPARATOR, find_value
from nearkin.corpus.text_forms import is_utf8
from nearkin.corpus.validation import TOKENS, check_rows, format_raw_prefix, too_long_reason
from nearkin.runtime.dialect import describe_invalid_byte, row_encoding_of

BOM = b"\xef\xbb\xbf"
SLICE_BYTES = 1 << 20
"""The number of bytes that a slice has approximately. Values of Python become slow beyond a
cache."""
VALUE_BYTES = {b"{": 256, b"[": 96, b":": 104, b",": 48}
"""The maximum number of bytes of memory that parsed values take for each of these characters
between them."""
LONG_LINE = 1 << 16
"""The number of bytes from which the memory for parsing a line is estimated."""
LARGEST_WHOLE = 2.0**63
"""The absolute value from which a float may stand for an integer that it cannot hold."""
COLUMN_TYPES = {
    FieldKind.TEXT: pa.large_string(),
    FieldKind.TOKENS: TOKENS,
    FieldKind.VECTOR: pa.list_(pa.float64()),
    FieldKind.FINGERPRINT: pa.large_string(),
}
"""The types of columns of each kind before they are checked."""
LINE_SHARE = 2
"""A line may have this many times the document limit, for its other fields and for escaped
characters."""
DEEPEST_VALUE = 254
"""The maximum number of levels of lists and objects in a value that is written as text."""
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
"""A pattern of a JSON string."""


LONG_NUMBER = re.compile(rb"[0-9]{19}")
"""A part of JSON that may be a number which `orjson` reads as a float."""
NOT_FINITE = re.compile(STRING.pattern + rb"|-?\b(?:NaN|Infinity)\b")
"""A pattern of a JSON string, or of a number that Python writes and JSON does not have."""


def parse_json(raw: bytes) -> Any:
    """Returns a value of JSON. NaN and infinite numbers are null.

    Examples:
        >>> parse_json(b'{"text": "NaN", "score": NaN}')
        {'text': 'NaN', 'score': None}
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        finite = replace_not_finite(raw)
        if finite is raw:
            raise
        return orjson.loads(finite)


def replace_not_finite(raw: bytes) -> bytes:
    """Returns a value of JSON with null in place of NaN and infinite numbers.

    Examples:
        >>> replace_not_finite(b'{"text": "NaN", "score": -Infinity}')
        b'{"text": "NaN", "score": null}'
    """
    if b"NaN" not in raw and b"Infinity" not in raw:
        return raw
    return NOT_FINITE.sub(_replace_number, raw)


def parse_exact_json(raw: bytes) -> Any:
    """Returns the same value as `parse_json`, but its whole numbers keep all digits.

    Examples:
        >>> parse_exact_json(b'{"a": 18446744073709551616, "b": [1.5, NaN]}')
        {'a': 18446744073709551616, 'b': [1.5, None]}
    """
    value = parse_json(raw)
    if LONG_NUMBER.search(raw):
        # orjson reads numbers that do not fit 64 bits as floats.
        with suppress(RecursionError, ValueError):
            return json.loads(raw, parse_constant=_to_null)
    return value


def find_repeated_key(raw: bytes) -> str | None:
    """Returns a key that an object has twice, or an object inside it, or None.

    Examples:
        >>> find_repeated_key(b'{"a": [{"b": 1, "b": 2}]}'), find_repeated_key(b'{"a": {"a": 1}}')
        ('b', None)
    """
    repeated: list[str] = []

    def compare_keys(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.append(counts.most_common(1)[0][0])

    with suppress(RecursionError, ValueError):
        json.loads(raw, object_pairs_hook=compare_keys)
    return repeated[0] if repeated else None


def _to_null(_: str) -> None:
    """Stands for a number that is not finite."""


def _replace_number(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b"null"


class JsonRow(NamedTuple):
    """A line without its end, or an element of an array."""

    row: int
    raw: bytes | None


class JsonSliceBuilder:
    """Parses rows and collects them into a slice.

    Attributes:
        next_row: The row at which reading continues after the rows that were added.
    """

    def __init__(self, columns: Columns, start: int, *, whole: bool, has_lines: bool) -> None:
        self.next_row = start
        self._columns = columns
        self._whole = whole
        self._has_lines = has_lines
        # A shorter line is not too long for a document, whatever is in it, and parsing it needs
        # less memory than a row may take.
        limit = columns.document_limit
        most_bytes = UNFOLDED_SHARE * limit // max(VALUE_BYTES.values())
        self._longest_ordinary = min(limit, max(LONG_LINE - 1, most_bytes))
        self._fields = {field.name: field for field in columns.content_fields}
        values = [name for name, field in self._fields.items() if field.kind == FieldKind.VALUE]
        texts = {columns.id, *columns.carried_columns, *values}
        self._texts = {name for name in columns.stored if name in texts}
        self._row_encoding = row_encoding_of(columns.encoding)
        self._paths = [name for name in columns.stored if SEPARATOR in name]
        self._content_type = list if columns.tokens else str
        self._may_be_ordinary = columns.content in ("text", "tokens") and not (
            self._paths or columns.tokens in self._texts
        )
        self._clear()

    def _clear(self) -> None:
        self._rows: list[int] = []
        self._values: dict[str, list[Any]] = {name: [] for name in self._columns.stored}
        self._lines: list[bytes] = []
        self._rejected: list[Rejection] = []
        self._beginnings: dict[int, bytes] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """True if the slice is large enough."""
        return self._bytes >= SLICE_BYTES or len(self._rows) + len(self._rejected) >= BATCH_ROWS

    @property
    def begun(self) -> bool:
        """True if the slice has rows."""
        return bool(self._rows or self._rejected)

    def add_line(self, row: int, line: bytes | None) -> None:
        """Adds a line with its line end, which that of the last line may lack."""
        values = None if line is None else self._read_ordinary(line)
        if line is None or values is None:
            self.add(JsonRow(row, None if line is None else line.removesuffix(b"\n")))
            return
        for column, value in zip(self._values.values(), values, strict=True):
            column.append(value)
        self._rows.append(row)
        self._bytes += len(line)
        if self._whole:
            self._lines.append(line if line.endswith(b"\n") else line + b"\n")
        self.next_row = row + 1

    def _read_ordinary(self, line: bytes) -> list[Any] | None:
        """Returns the values of a line that is a document without doubt, in the order of columns.

        It is None if `add` has to look at the line.
        """
        if not self._may_be_ordinary or len(line) > self._longest_ordinary:
            return None
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if type(value) is not dict:
            return None
        sources = self._columns.sources
        values = []
        has_content = False
        for name in self._values:
            content: Any = value.get(name)
            kind: type = type(content)
            if name in sources:
                if kind is not self._content_type and (kind is not NoneType or len(sources) == 1):
                    return None
                if kind is list and not set(map(type, content)) <= {str}:
                    return None
                has_content = has_content or kind is not NoneType
            if name in self._texts and (
                kind is dict
                or kind is list
                or (kind is NoneType and name == self._columns.id)
                or _may_be_rounded(content, is_id=name == self._columns.id)
            ):
                return None
            values.append(content)
        return values if has_content else None

    def add(self, line: JsonRow) -> None:
        """Parses a row and adds it. A blank line is left out."""
        self.next_row = line.row + 1
        limit = LINE_SHARE * self._columns.document_limit
        if line.raw is None or len(line.raw) > limit:
            self._reject(line.row, too_long_reason("the row", limit), "")
            return
        raw = line.raw.removeprefix(BOM) if line.row == 0 else line.raw
        if not raw.strip():
            return
        self._bytes += len(raw)
        if self._row_encoding is not None:
            raw = to_utf8(raw, self._row_encoding)
        try:
            reason = self._find_memory_fault(raw)
            value: Any = None if reason else parse_json(raw)
            reason = reason or self._prepare_values(value, raw)
        except orjson.JSONDecodeError as error:
            value, reason = None, _find_json_fault(raw, error)
        if reason:
            self._reject(line.row, reason, format_raw_prefix(raw))
            return
        self._beginnings[len(self._rows)] = raw[:RAW_PREFIX]
        self._rows.append(line.row)
        for field, values in self._values.items():
            values.append(value.get(field))
        if self._whole:
            self._lines.append(line.raw + b"\n")

    def _reject(self, row: int, reason: str, raw: str) -> None:
        line = row + 1 if self._has_lines else None
        self._rejected.append(Rejection(row, reason, raw, line))

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

    def _prepare_values(self, value: Any, raw: bytes) -> str | None:
        """Makes the values of an object those of columns of one type, or returns why they are not.

        The type of a column must not depend on the other rows of a slice.
        """
        if not isinstance(value, dict):
            return "the row is not a JSON object"
        self._derive_paths(value)
        if len(self._fields) == 1 and self._columns.source not in value:
            return f"the field {self._columns.source} is missing"
        for field in self._fields.values():
            content = value.get(field.name)
            if content is not None:
                fault = _find_kind_fault(content, field)
                if fault:
                    return f"{field.name} {fault}"
                value[field.name] = _to_column_type(content, field)
        for name in self._texts - self._fields.keys():
            content = value.get(name)
            if isinstance(content, dict | list):
                try:
                    value[name] = _text(content)
                except TypeError:
                    return f"{name} has more than {DEEPEST_VALUE} levels of lists and objects"
        self._restore_exact_numbers(raw, value)
        return None

    def _derive_paths(self, value: dict[str, Any]) -> None:
        for path in self._paths:
            content = find_value(value, path)
            if content is not MISSING:
                value[path] = content

    def _restore_exact_numbers(self, raw: bytes, value: dict[str, Any]) -> None:
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
        self._derive_paths(exact)
        value.update({name: exact[name] for name in inexact})

    def take_slice(self) -> FileSlice:
        """Returns the collected rows as a slice, and begins the next one."""
        columns = {name: self._make_column(name, values) for name, values in self._values.items()}
        # Without columns, a batch has no rows.
        columns = columns or {"": pa.nulls(len(self._rows))}
        checked = check_rows(pa.record_batch(list(columns.values()), list(columns)), self._columns)
        for at, reason, raw in checked.rejected:
            beginning = self._beginnings.get(at)
            self._reject(
                self._rows[at], reason, raw if beginning is None else format_raw_prefix(beginning)
            )
        whole = list(compress(self._lines, checked.mask.tolist())) if self._whole else None
        file_slice = FileSlice(
            np.array(self._rows, np.int64)[checked.kept],
            checked.documents,
            sorted(self._rejected, key=lambda entry: entry.row),
            self.next_row,
            whole,
        )
        self._clear()
        return file_slice

    def _make_column(self, name: str, values: list[Any]) -> pa.Array:
        field = self._fields.get(name)
        if field is None or field.kind == FieldKind.VALUE:
            return _convert_to_texts(values)
        return pa.array(values, COLUMN_TYPES[field.kind])


def _find_kind_fault(content: Any, field: ContentField) -> str | None:
    """Returns why a value that is not null is not of the kind of its field, or None."""
    match field.kind:
        case FieldKind.TEXT if not isinstance(content, str):
            return "is not a string"
        case FieldKind.TOKENS if not _holds_only(content, {str}):
            return "is not a list of strings"
        case FieldKind.VECTOR if not _holds_only(content, {int, float}):
            return "is not a list of numbers"
        case FieldKind.FINGERPRINT if type(content) is not str:
            if type(content) is not int or to_fingerprint_bytes(content, field.size) is None:
                return "is neither a hexadecimal text nor an integer of 64 bits"
    return None


def _to_column_type(content: Any, field: ContentField) -> Any:
    """Returns a value of the kind of its field in the type of all of them."""
    if field.kind == FieldKind.VECTOR:
        return list(map(float, content))
    if type(content) is int and (digits := to_fingerprint_bytes(content, field.size)) is not None:
        return digits.hex()
    return content


def _holds_only(content: Any, kinds: set[type]) -> bool:
    return isinstance(content, list) and set(map(type, content)) <= kinds


def to_utf8(raw: bytes, encoding: str) -> bytes:
    """Returns a row in UTF-8 if it is valid in UTF-8 or in another encoding, or else as it is."""
    if is_utf8(raw):
        return raw
    try:
        return raw.decode(encoding).encode()
    except UnicodeDecodeError:
        return raw


def _find_json_fault(raw: bytes, error: orjson.JSONDecodeError) -> str:
    if not is_utf8(raw):
        return f"the row is not valid UTF-8: {describe_invalid_byte(raw)}"
    # orjson refuses lone surrogates (\ud800), which the grammar of JSON allows.
    if "surrogate" in str(error):
        return "the row has a lone surrogate, which UTF-8 cannot represent"
    return "the row is not valid JSON"


def _value_bytes(raw: bytes) -> int:
    return sum(raw.count(character) * size for character, size in VALUE_BYTES.items())


def _may_be_rounded(value: Any, *, is_id: bool) -> bool:
    """Returns True if a number may have lost digits when it was parsed.

    Integers of 2^64 and more become floats. Of fractions, every digit matters in ids only.
    """
    return type(value) is float and (is_id or abs(value) >= LARGEST_WHOLE)


def _convert_to_texts(values: list[Any]) -> pa.Array:
    """Returns JSON values as text, in the form of `format_as_text`.

    A number has the same form in every format.
    """
    if all(type(value) is str for value in values):
        return pa.array(values, pa.large_string())
    floats = [value for value in values if type(value) is float]
    shown = iter(pa.array(floats, pa.float64()).cast(pa.large_string()).to_pylist())
    return pa.array(
        [next(shown) if type(value) is float else _text(value) for value in values],
        pa.large_string(),
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    # orjson does not write integers of more than 64 bits.
    return str(value) if type(value) is int else orjson.dumps(value).decode()
