"""Keep policies: the order that decides which document of a cluster is kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.errors import UsageError
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.runtime.arrow_types import is_text
from nearkin.stages.cluster.dates import count_unreadable_dates, read_dates
from nearkin.stages.cluster.kept_documents import ClusterCriterion

LENGTH = "length"
DEFAULT_ORDER = "length desc"
"""The keep order of a policy that consists of a criterion of clusters alone."""
NUMBERS = (pa.int64(), pa.uint64(), pa.float64())
"""The types by which a text column of numbers is sorted. The first that fits all values counts."""
TERM = re.compile(
    r"\s*(?P<column>[^:,\s]+)\s*(?:(?P<direction>asc|desc)|:(?P<values>.+))?\s*", re.IGNORECASE
)
DATE_TERM = re.compile(r"\s*(?P<direction>newest|oldest)\s*:\s*(?P<column>[^:,>\s]+)\s*", re.I)


@dataclass(frozen=True)
class Term:
    """A criterion: a column with a direction, or values of a column in order of preference.

    Attributes:
        column: Column, or `length`.
        descending: Whether the largest value comes first.
        values: Values of the column in order of preference, the best first.
        is_date: Whether the values are dates, as `nearkin.stages.cluster.dates` reads them.
    """

    column: str
    descending: bool = False
    values: tuple[str, ...] = ()
    is_date: bool = False


@dataclass(frozen=True)
class KeepPolicy:
    """A sequence of criteria that orders the documents of a cluster.

    Nulls, and texts that are not dates in a column of dates, come last. Of documents that are equal
    by all criteria, the smaller id comes first, as `nearkin.stages.cluster.id_order` compares them.

    Attributes:
        terms: Criteria, the most important one first.
        cluster_criterion: Criterion that chooses the kept document after clustering, or None. The
            other criteria then decide in which order clusters are formed, and between documents of
            the same score.

    Examples:
        >>> policy = KeepPolicy.parse("source:gold>web, quality desc, length desc, date asc")
        >>> policy.columns
        ('source', 'quality', 'date')
        >>> KeepPolicy.parse("newest:crawled, length desc").date_columns
        ('crawled',)
        >>> KeepPolicy.parse("central, newest:crawled").cluster_criterion
        <ClusterCriterion.CENTRAL: 'central'>
    """

    terms: tuple[Term, ...]
    cluster_criterion: ClusterCriterion | None = None

    @classmethod
    def parse(cls, text: str) -> "KeepPolicy":
        """Parses a policy as it is written on the command line."""
        parts = [part.strip() for part in text.split(",") if part.strip()]
        criteria = [part for part in parts if part.lower() in list(ClusterCriterion)]
        if not criteria:
            return cls(tuple(_parse_term(part) for part in parts))
        if len(criteria) > 1 or parts[0] != criteria[0]:
            raise UsageError(
                f"invalid keep policy {text!r}: {criteria[-1]} is only possible as the first "
                f"criterion; write it first, or '{criteria[-1]} asc' for a column of this name"
            )
        order = parts[1:] or [DEFAULT_ORDER]
        terms = tuple(_parse_term(part) for part in order)
        return cls(terms, ClusterCriterion(criteria[0].lower()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the policy reads. `length` (the bytes of the text) is built in."""
        names = (term.column for term in self.terms if term.is_date or term.column != LENGTH)
        return tuple(dict.fromkeys(names))

    @property
    def date_columns(self) -> tuple[str, ...]:
        """The columns whose values are read as dates."""
        return tuple(dict.fromkeys(term.column for term in self.terms if term.is_date))

    def count_unreadable_dates(self, columns: pa.Table) -> dict[str, int]:
        """Returns the number of values that are not dates, for each column of dates."""
        return {
            name: sum(map(count_unreadable_dates, iterate_portions(columns[name])))
            for name in self.date_columns
        }

    def order(self, columns: pa.Table, lengths: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Returns the document numbers in keep order, uint32 (n,).

        `lengths` are bytes of texts, and `ties` the ranks of ids.
        """
        keys = {f"{i}": key for i, key in enumerate(self.keys(columns, lengths))}
        directions = [
            (f"{i}", "descending" if term.descending else "ascending")
            for i, term in enumerate(self.terms)
        ]
        table = pa.table({**keys, "ties": pa.array(ties)})
        order = pc.sort_indices(table, sort_keys=[*directions, ("ties", "ascending")])
        return order.to_numpy().astype(np.uint32)

    def keys(
        self,
        columns: pa.Table,
        lengths: np.ndarray,
        kinds: Mapping[str, pa.DataType | None] | None = None,
    ) -> list[pa.Array | pa.ChunkedArray]:
        """Returns the sort keys of the documents, one column for each criterion.

        Args:
            lengths: Number of bytes of each text, int64 (n,).
            kinds: Type by which each text column is sorted; None for its bytes. By default, it is
                the result of `number_type`.
        """
        return [_sort_key(term, columns, lengths, kinds) for term in self.terms]


def _parse_term(text: str) -> Term:
    date = DATE_TERM.fullmatch(text)
    if date is not None:
        is_newest = date["direction"].lower() == "newest"
        return Term(date["column"], descending=is_newest, is_date=True)
    match = TERM.fullmatch(text)
    if match is None:
        raise UsageError(
            f"invalid keep criterion {text.strip()!r}; write COL, COL asc, COL desc, newest:COL, "
            "oldest:COL, COL:FIRST>SECOND, most-complete or central"
        )
    values = tuple(value.strip() for value in (match["values"] or "").split(">") if value.strip())
    return Term(match["column"], (match["direction"] or "asc").lower() == "desc", values)


def _sort_key(
    term: Term,
    columns: pa.Table,
    lengths: np.ndarray,
    kinds: Mapping[str, pa.DataType | None] | None,
) -> pa.Array | pa.ChunkedArray:
    if term.column == LENGTH and not term.values and not term.is_date:
        return pa.array(lengths)
    column = columns[term.column]
    if term.is_date:
        return pa.chunked_array([read_dates(part) for part in iterate_portions(column)], pa.int64())
    if term.values:
        text = column.cast(pa.large_string())
        position = pc.index_in(text, value_set=pa.array(term.values, pa.large_string()))
        return pc.if_else(pc.is_null(text), None, pc.fill_null(position, len(term.values)))
    if not is_text(column.type):
        return column
    kind = number_type(column) if kinds is None else kinds[term.column]
    if kind is None:
        return column.cast(pa.large_binary())
    return as_numbers(column, kind)


def number_type(column: pa.ChunkedArray | pa.Array) -> pa.DataType | None:
    """Returns the first type of NUMBERS that fits every value of a text column.

    Examples:
        >>> number_type(pa.array(["10", " 9"])), number_type(pa.array(["10", "n/a"]))
        (DataType(int64), None)
    """
    return next((kind for kind in NUMBERS if holds_numbers(column, kind)), None)


def holds_numbers(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> bool:
    """Returns True if every value of a text column is a number of a type."""
    try:
        for part in iterate_portions(column):
            _numbers_of(part, kind)
    except pa.ArrowInvalid:
        return False
    return True


def as_numbers(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray:
    """Converts a text column to numbers.

    Empty texts, which are missing values in CSV, become null.
    """
    return pa.chunked_array([_numbers_of(part, kind) for part in iterate_portions(column)], kind)


def _numbers_of(values: pa.Array, kind: pa.DataType) -> pa.Array:
    text = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(text, ""), None, text).cast(kind)
