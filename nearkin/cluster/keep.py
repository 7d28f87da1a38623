"""Keep policies: which document of a cluster stays."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.errors import UsageError

LENGTH = "length"
NUMBERS = (pa.int64(), pa.uint64(), pa.float64())
"""The types by which text that is all numbers may be sorted; the first one that holds every value is taken."""
PORTION_BYTES = 8 << 20
TERM = re.compile(r"\s*(?P<column>[^:,\s]+)\s*(?:(?P<way>asc|desc)|:(?P<values>.+))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Term:
    """One criterion: a column in a direction, or values of a column in order of preference."""

    column: str
    descending: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeepPolicy:
    """Criteria in order; nulls last; ties go to the smaller id (UTF-8 bytes).

    Examples:
        >>> policy = KeepPolicy.parse("source:gold>web, quality desc, length desc, date asc")
        >>> policy.columns
        ('source', 'quality', 'date')
        >>> KeepPolicy.parse("quality downwards")
        Traceback (most recent call last):
        ...
        nearkin.errors.UsageError: keep criterion 'quality downwards' is not of the form COL desc, COL asc or COL:first>second
    """

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, text: str) -> "KeepPolicy":
        """From the command line's form."""
        return cls(tuple(_parse_term(part) for part in text.split(",") if part.strip()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads; `length` (bytes of text) is built in."""
        return tuple(dict.fromkeys(term.column for term in self.terms if term.column != LENGTH))

    def order(self, columns: pa.Table, lengths: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Ordinals in keep order, uint32 (n,).

        Args:
            columns: The policy's columns, one row for each document.
            lengths: int64 (n,), bytes of text.
            ties: integer (n,), the rank of each document's id.
        """
        keys = {f"{i}": key for i, key in enumerate(self.keys(columns, lengths))}
        ways = [(f"{i}", "descending" if term.descending else "ascending") for i, term in enumerate(self.terms)]
        table = pa.table({**keys, "ties": pa.array(ties)})
        order = pc.sort_indices(table, sort_keys=[*ways, ("ties", "ascending")])
        return order.to_numpy().astype(np.uint32)

    def keys(
        self, columns: pa.Table, lengths: np.ndarray, kinds: Mapping[str, pa.DataType | None] | None = None
    ) -> list[pa.Array | pa.ChunkedArray]:
        """Returns what documents are sorted by, a column for each criterion.

        Args:
            columns: The policy's columns, one row for each document.
            lengths: int64 (n,), bytes of text.
            kinds: The type by which each text column is sorted, None for its bytes. By default what `number_type` says of the
                column.
        """
        return [_sort_key(term, columns, lengths, kinds) for term in self.terms]


def _parse_term(text: str) -> Term:
    found = TERM.fullmatch(text)
    if found is None:
        raise UsageError(f"keep criterion {text.strip()!r} is not of the form COL desc, COL asc or COL:first>second")
    values = tuple(value.strip() for value in (found["values"] or "").split(">") if value.strip())
    return Term(found["column"], (found["way"] or "asc").lower() == "desc", values)


def _sort_key(
    term: Term, columns: pa.Table, lengths: np.ndarray, kinds: Mapping[str, pa.DataType | None] | None
) -> pa.Array | pa.ChunkedArray:
    if term.column == LENGTH and not term.values:
        return pa.array(lengths)
    column = columns[term.column]
    if term.values:
        text = column.cast(pa.large_string())
        position = pc.index_in(text, value_set=pa.array(term.values, pa.large_string()))
        return pc.if_else(pc.is_null(text), None, pc.fill_null(position, len(term.values)))
    if not is_text(column.type):
        return column
    kind = number_type(column) if kinds is None else kinds[term.column]
    return column.cast(pa.large_binary()) if kind is None else as_numbers(column, kind)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def number_type(column: pa.ChunkedArray | pa.Array) -> pa.DataType | None:
    """Returns the first of NUMBERS that holds every value of a text column; None if some value is not a number.

    Examples:
        >>> number_type(pa.array(["10", " 9"])), number_type(pa.array(["10", "n/a"]))
        (DataType(int64), None)
    """
    return next((kind for kind in NUMBERS if holds(column, kind)), None)


def holds(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> bool:
    """Returns whether every value of a text column is a number of a type."""
    try:
        for part in _portions(column):
            _numbers_of(part, kind)
    except pa.ArrowInvalid:
        return False
    return True


def as_numbers(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray:
    """Returns a text column as numbers; an empty text, which stands for a missing value in CSV, is null.

    Raises:
        pa.ArrowInvalid: If a value is not a number of that type.
    """
    return pa.chunked_array([_numbers_of(part, kind) for part in _portions(column)], kind)


def _portions(column: pa.ChunkedArray | pa.Array) -> Iterator[pa.Array]:
    """Yields slices of a text column that take little memory to convert, also if the column is mapped from a large file."""
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        rows = max(1, len(chunk) * PORTION_BYTES // max(chunk.nbytes, 1))
        for start in range(0, len(chunk), rows):
            yield chunk.slice(start, rows)


def _numbers_of(values: pa.Array, kind: pa.DataType) -> pa.Array:
    text = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(text, ""), None, text).cast(kind)
