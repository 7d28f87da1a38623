"""Keep policies: which document of a cluster stays."""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.errors import UsageError

LENGTH = "length"
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

    def keys(self, columns: pa.Table, lengths: np.ndarray) -> list[pa.Array | pa.ChunkedArray]:
        """What documents are sorted by, a column for each criterion; see `order` for the arguments."""
        return [_sort_key(term, columns, lengths) for term in self.terms]


def _parse_term(text: str) -> Term:
    found = TERM.fullmatch(text)
    if found is None:
        raise UsageError(f"keep criterion {text.strip()!r} is not of the form COL desc, COL asc or COL:first>second")
    values = tuple(value.strip() for value in (found["values"] or "").split(">") if value.strip())
    return Term(found["column"], (found["way"] or "asc").lower() == "desc", values)


def _sort_key(term: Term, columns: pa.Table, lengths: np.ndarray) -> pa.Array | pa.ChunkedArray:
    if term.column == LENGTH and not term.values:
        return pa.array(lengths)
    column = columns[term.column]
    if term.values:
        text = column.cast(pa.large_string())
        position = pc.index_in(text, value_set=pa.array(term.values, pa.large_string()))
        return pc.if_else(pc.is_null(text), None, pc.fill_null(position, len(term.values)))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return numbers_if_all_are(column) if is_text(column.type) else column


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def numbers_if_all_are(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A text column (csv has no other) sorts as numbers where every value is one, else by bytes."""
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    filled = pc.if_else(pc.equal(text, ""), None, text)
    try:
        return filled.cast(pa.float64())
    except pa.ArrowInvalid:
        return column.cast(pa.large_binary())
