"""Decoding of the fields that a run reads from JSON lines, without the other fields.

msgspec decodes a line into these fields alone. Of the other fields it checks the grammar, but
neither the text nor the size of numbers, so both are checked here. A line that msgspec refuses, or
whose values could differ from those of the exact parser, is left to that parser.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from nearkin.corpus.columns import UNFOLDED_SHARE, Columns
from nearkin.corpus.text_forms import is_utf8

LARGEST_WHOLE = 2.0**63
"""The absolute value from which a float may stand for an integer that it cannot hold."""
VALUE_BYTES = {b"{": 256, b"[": 96, b":": 104, b",": 48}
"""The maximum number of bytes of memory that parsed values take for each of these characters
between them."""
LONG_LINE = 1 << 16
"""The number of bytes from which the memory for parsing a line is estimated."""
SCANNED_BYTES = 1 << 17
"""The number of bytes that are searched for numbers at a time, which fit into a cache."""
LONG_NUMBER = 300
"""The number of digits from which a number without an exponent may be larger than any float."""
DIGIT_STEP = LONG_NUMBER // 2 - 1
"""The distance of bytes of which two neighbors are in each number of LONG_NUMBER digits."""
DEEPEST_NESTING = 1000
"""The depth of lists and objects from which parsers of JSON differ."""
NUMBER_CHARACTERS = b"0123456789.-"
"""The characters of a number before its exponent."""
BEFORE_NUMBER = b":,[ \t\r\n"
"""The characters that may precede a number in JSON."""


class JsonRowDecoder:
    """A decoder of lines into the fields that a run reads."""

    def __init__(self, columns: Columns) -> None:
        # A shorter line is not too long for a document, whatever is in it, and parsing it needs
        # less memory than a row may take.
        limit = columns.document_limit
        most_bytes = UNFOLDED_SHARE * limit // max(VALUE_BYTES.values())
        self._longest_line = min(limit, max(LONG_LINE - 1, most_bytes))
        self._attributes = {name: f"field_{at}" for at, name in enumerate(columns.all)}
        self._joined = tuple(self._attributes[name] for name in columns.sources if columns.joined)
        self._decode = self._make_decoder(columns)

    def _make_decoder(self, columns: Columns) -> Any:
        """Returns a function that decodes a line, or None if the exact parser parses all lines."""
        # Most runs read no JSON, so the import waits for the first file.
        import msgspec

        self._errors = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
        texts = (columns.id, *columns.carried_columns)
        if columns.fields or columns.vector or columns.fingerprint:
            return None
        if columns.tokens and columns.tokens in texts:
            return None
        if columns.partitions or not all(map(_is_supported_name, columns.all)):
            return None
        # Digits that a float cannot hold are restored by the exact parser. In an id, all of them
        # count: no float is above 1 and below 0.
        safe_float = Annotated[float, msgspec.Meta(gt=-LARGEST_WHOLE, lt=LARGEST_WHOLE)]
        no_float = Annotated[float, msgspec.Meta(gt=1, lt=0)]
        fields: list[tuple[str, Any, Any]] = []
        for name, attribute in self._attributes.items():
            required = name == columns.id or (name in columns.sources and not columns.joined)
            kind: Any = str | int | safe_float | bool | None
            if name in columns.sources:
                kind = list[str] if columns.tokens else str
                kind = kind if required else kind | None
            elif name == columns.id:
                kind = str | int | no_float | bool
            fields.append((attribute, kind, msgspec.NODEFAULT if required else None))
        row_type = msgspec.defstruct(
            "JsonFields",
            fields,
            rename={attribute: name for name, attribute in self._attributes.items()},
            kw_only=True,
            gc=False,
        )
        return msgspec.json.Decoder(row_type).decode

    def decode_lines(self, block: bytes, lines: Sequence[bytes]) -> list[Any]:
        """Returns an object with the fields of each line.

        It is None if the exact parser has to parse the line.
        """
        if self._decode is None or not _is_simple(block, lines):
            return [None] * len(lines)
        is_valid = is_utf8(block)
        if is_valid and max(map(len, lines), default=0) <= self._longest_line:
            try:
                return self._without_empty(list(map(self._decode, lines)))
            except self._errors:
                pass
        return self._without_empty(
            [self._decode_line(line) if is_valid or is_utf8(line) else None for line in lines]
        )

    def get_values(self, rows: Sequence[Any], name: str) -> list[Any]:
        """Returns the values of a field."""
        return list(map(attrgetter(self._attributes[name]), rows))

    def _decode_line(self, line: bytes) -> Any:
        if len(line) > self._longest_line:
            return None
        try:
            return self._decode(line)
        except self._errors:
            return None

    def _without_empty(self, rows: list[Any]) -> list[Any]:
        """Leaves rows to the exact parser in which none of several fields has a text."""
        if not self._joined:
            return rows
        return [
            None
            if all(getattr(row, attribute, None) is None for attribute in self._joined)
            else row
            for row in rows
        ]


def _is_supported_name(name: str) -> bool:
    """Returns whether msgspec supports a field of this name, which may not be a path."""
    return not any(character in '"\\.' or character < " " for character in name)


def _is_simple(block: bytes, lines: Sequence[bytes]) -> bool:
    """Returns False if a block may hold deep nesting, or a number that is larger than any float.

    Parsers of JSON differ in both.
    """
    codes = np.frombuffer(block, np.uint8)
    if _may_have_long_number(block, codes):
        return False
    opened = 0
    exponents = [np.empty(0, np.int64)]
    for start in range(0, len(block), SCANNED_BYTES):
        part = codes[start : start + SCANNED_BYTES + 1]
        # Folding makes a brace of a bracket, and a small letter of a capital one.
        folded = part | np.uint8(0x20)
        opened += int(np.count_nonzero(folded == ord("{")))
        is_digit = (part - np.uint8(ord("0"))) < 10
        exponents.append(np.flatnonzero((folded[1:] == ord("e")) & is_digit[:-1]) + (start + 1))
    if _may_have_large_number(codes, np.concatenate(exponents)):
        return False
    return opened - len(lines) < DEEPEST_NESTING or not any(
        line.count(b"[") + line.count(b"{") >= DEEPEST_NESTING
        for line in lines
        if len(line) > 2 * DEEPEST_NESTING
    )


def _may_have_long_number(block: bytes, codes: np.ndarray) -> bool:
    is_digit = (codes[::DIGIT_STEP] - np.uint8(ord("0"))) < 10
    places = np.flatnonzero(is_digit[1:] & is_digit[:-1]) * DIGIT_STEP
    return any(block[place : place + DIGIT_STEP].isdigit() for place in places.tolist())


def _may_have_large_number(codes: np.ndarray, exponents: np.ndarray) -> bool:
    """Returns whether a number may have a positive exponent of three digits.

    Args:
        codes: The characters of a block, uint8 (n,).
        exponents: The positions of each E behind a digit, int64.
    """
    # A block ends with a brace, unless its last line is not an object.
    exponents = exponents[exponents + 3 < len(codes)]
    has_sign = codes[exponents + 1] == ord("+")
    has_digits = np.ones(len(exponents), bool)
    for distance in range(1, 4):
        has_digits &= (codes[exponents + distance] - np.uint8(ord("0"))) < 10
    ends = exponents[has_sign | has_digits] - 1
    # The characters before each E are followed back to the beginning of the number.
    for _ in range(LONG_NUMBER):
        if not len(ends):
            return False
        before = codes[np.maximum(ends - 1, 0)]
        if BEGINS_NUMBER[before].any() or not ends.all():
            return True
        ends = ends[IN_NUMBER[before]] - 1
    return True


def _table_of(characters: bytes) -> np.ndarray:
    """Returns a table of all bytes that is true for some, bool (256,)."""
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


IN_NUMBER = _table_of(NUMBER_CHARACTERS)
BEGINS_NUMBER = _table_of(BEFORE_NUMBER)
