"""The rules by which a kept row gets values of the rows of its cluster."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.formats.base import ValueForm
from nearkin.corpus.stored_values import (
    DecodedValues,
    ValueKind,
    decode_values,
    encode_values,
    join_lists,
)
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.choices import MergeRule
from nearkin.stages.cluster.dates import read_dates

SEPARATOR = "; "
"""The characters between the texts that `union` joins."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
"""A pattern of a text that is a number."""
ORDERED = (ValueKind.TEXT, ValueKind.NUMBER, ValueKind.TIME, ValueKind.DURATION)
ALL_KINDS = tuple(ValueKind)
FITTING_KINDS: Mapping[MergeRule, Sequence[ValueKind]] = {
    MergeRule.FIRST_NON_EMPTY: ALL_KINDS,
    MergeRule.MOST_FREQUENT: ALL_KINDS,
    MergeRule.LONGEST: (ValueKind.TEXT, ValueKind.LIST),
    MergeRule.MIN: ORDERED,
    MergeRule.MAX: ORDERED,
    MergeRule.UNION: (ValueKind.TEXT, ValueKind.LIST),
}
"""The kinds of values that each rule is for."""


class MergedField(NamedTuple):
    """A column of which kept rows get values of the rows of their clusters."""

    column: str
    rule: MergeRule

    def fits(self, kinds: Collection[ValueKind]) -> bool:
        """Returns whether the rule is for values of some kinds in one cluster."""
        fitting = FITTING_KINDS[self.rule]
        return fitting is ALL_KINDS or (len(kinds) < 2 and all(kind in fitting for kind in kinds))

    def require_kinds(self, kinds: Iterable[ValueKind], place: str) -> None:
        """Requires that the rule is for the kinds of the values of a column.

        Args:
            place: The file or the row with the values, for a message.
        """
        listed = list(dict.fromkeys(kinds))
        if self.fits(listed):
            return
        unfit = [kind for kind in listed if kind not in FITTING_KINDS[self.rule]]
        setting = name_setting("merge_fields", f"{self.column}:{self.rule}")
        if unfit:
            fitting = [rule for rule, those in FITTING_KINDS.items() if unfit[0] in those]
            raise UsageError(
                f"{setting} does not fit the column {self.column!r} of {place}, whose values are "
                f"of the type {unfit[0]}; give one of {', '.join(fitting)}"
            )
        rules = [rule for rule, those in FITTING_KINDS.items() if those is ALL_KINDS]
        raise UsageError(
            f"{setting} cannot compare the values of the column {self.column!r} of {place}, which "
            f"are of the types {' and '.join(listed)}; give them one type, or give one of "
            f"{', '.join(rules)}"
        )


def parse_merged_fields(text: str) -> tuple[MergedField, ...]:
    """Parses rules as they are written on the command line.

    Raises:
        UsageError: If an entry is not COL:RULE, a rule is unknown, or a column has two rules.

    Examples:
        >>> [tuple(field) for field in parse_merged_fields("phone:longest, tags:union")]
        [('phone', <MergeRule.LONGEST: 'longest'>), ('tags', <MergeRule.UNION: 'union'>)]
    """
    fields: dict[str, MergedField] = {}
    for entry in text.split(","):
        column, _, rule = (part.strip() for part in entry.rpartition(":"))
        setting = name_setting("merge_fields", text)
        if not column:
            raise UsageError(
                f"{setting} is not valid: {entry.strip()!r} is not COL:RULE; write it as "
                "phone:first-non-empty, for example"
            )
        if rule not in list(MergeRule):
            raise UsageError(
                f"{setting} is not valid: the rule {rule!r} of {column!r} is not one of "
                f"{', '.join(MergeRule)}{did_you_mean(rule, MergeRule)}"
            )
        if column in fields:
            raise UsageError(
                f"{setting} is not valid: the column {column!r} has two rules; leave out one"
            )
        fields[column] = MergedField(column, MergeRule(rule))
    return tuple(fields.values())


@dataclass(frozen=True)
class ClusterValues:
    """The stored values of a column in some clusters, one cluster after another.

    Attributes:
        values: The value of each row. The kept row of a cluster comes first, and the others follow
            in keep order.
        form: The form of the values.
        starts: The position of the kept row of each of n clusters, and the number of rows, int64
            (n + 1,).
    """

    values: pa.Array
    form: ValueForm
    starts: np.ndarray


class MergedValues(NamedTuple):
    """The values that kept rows get, with an entry for each of n clusters."""

    values: pa.Array
    """The new value, in the form of the column. Null if the kept row has the right one."""
    sources: list[list[int]]
    """The positions of the rows that a new value is from. Empty without a new value."""


def merge_values(
    field: MergedField, column: ClusterValues, name_row: Callable[[int], str]
) -> MergedValues:
    """Returns the values that the kept rows of clusters get.

    Args:
        name_row: Returns how a message names the row at a position.
    """
    decoded = decode_values(column.values, column.form)
    kept = column.starts[:-1].tolist()
    clusters = [
        [at for at in range(first, end) if decoded.values[at] is not None]
        for first, end in pairwise(column.starts.tolist())
    ]
    for rows in clusters:
        kinds = {decoded.kinds[at] for at in rows}
        if not field.fits(kinds):
            listed = [decoded.kinds[at] for at in rows]
            field.require_kinds(listed, f"the cluster of {name_row(rows[0])}")
    if field.rule is MergeRule.UNION:
        return _join_clusters(column, decoded, clusters)
    choose = _chooser_of(field.rule, decoded)
    chosen = [choose(rows) if rows else first for first, rows in zip(kept, clusters, strict=True)]
    is_own = [at == first for first, at in zip(kept, chosen, strict=True)]
    values = column.values.take(pa.array(chosen, pa.int64(), mask=np.array(is_own, bool)))
    sources = [[] if own else [at] for at, own in zip(chosen, is_own, strict=True)]
    return MergedValues(values, sources)


def _chooser_of(rule: MergeRule, decoded: DecodedValues) -> Callable[[list[int]], int]:
    """Returns a function that chooses one of the rows of a cluster, which are in keep order.

    Of equal ones, it chooses the first.
    """
    values = decoded.values
    if rule is MergeRule.FIRST_NON_EMPTY:
        return lambda rows: rows[0]
    if rule is MergeRule.MOST_FREQUENT:
        return lambda rows: _choose_most_frequent(rows, values)
    if rule is MergeRule.LONGEST:
        return lambda rows: max(rows, key=lambda at: len(values[at]))
    choose = min if rule is MergeRule.MIN else max
    dates = _read_dates(decoded)

    def choose_extreme(rows: list[int]) -> int:
        keys = _sort_keys(rows, decoded, dates)
        return choose(rows, key=keys.__getitem__)

    return choose_extreme


def _choose_most_frequent(rows: list[int], values: list[Any]) -> int:
    keys = [to_hashable(values[at]) for at in rows]
    (most_frequent, _), *_ = Counter(keys).most_common(1)
    return rows[keys.index(most_frequent)]


def _read_dates(decoded: DecodedValues) -> list[int | None]:
    """Returns the time of each text that is a date, or None."""
    if ValueKind.TEXT not in decoded.kinds:
        return []
    texts = [value if isinstance(value, str) else None for value in decoded.values]
    return list(read_dates(pa.array(texts, pa.large_string())).to_pylist())


def _sort_keys(rows: list[int], decoded: DecodedValues, dates: list[int | None]) -> dict[int, Any]:
    """Returns the values of a cluster by which rows are compared.

    Texts are compared as numbers if all of the cluster are, then as dates, then by their bytes.
    """
    values = {at: decoded.values[at] for at in rows}
    if decoded.kinds[rows[0]] is not ValueKind.TEXT:
        return {at: _to_comparable(value) for at, value in values.items()}
    numbers = {at: _read_number(text) for at, text in values.items()}
    if None not in numbers.values():
        return numbers
    times = {at: dates[at] for at in rows}
    if None not in times.values():
        return times
    return {at: text.encode() for at, text in values.items()}


def _to_comparable(value: Any) -> Any:
    """Returns a value that can be compared with others of its kind: a day is its beginning."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if isinstance(value, time):
        return datetime.combine(date.min, value) - datetime.min
    return value


def _read_number(text: str) -> Decimal | None:
    """Returns the number that a text is, or None."""
    return Decimal(text.strip()) if NUMBER.fullmatch(text.strip()) else None


def to_hashable(value: Any) -> Any:
    """Returns a value that equals another one if both have equal contents.

    Examples:
        >>> to_hashable({"b": [1], "a": 2}) == to_hashable({"a": 2, "b": [1]})
        True
    """
    if isinstance(value, list):
        return tuple(map(to_hashable, value))
    if isinstance(value, dict):
        return frozenset((key, to_hashable(part)) for key, part in value.items())
    return value


def _join_clusters(
    column: ClusterValues, decoded: DecodedValues, clusters: Sequence[list[int]]
) -> MergedValues:
    """Returns the values of kept rows with what other rows add to them."""
    kept = column.starts[:-1].tolist()
    joined = [
        _join_cluster(first, rows, decoded) for first, rows in zip(kept, clusters, strict=True)
    ]
    sources = [list(dict.fromkeys(at for at, _ in places)) for places in joined]
    is_of_lists = any(decoded.kinds[at] is ValueKind.LIST for places in joined for at, _ in places)
    if is_of_lists:
        items = [
            [*((first, place) for place in range(len(decoded.values[first] or ()))), *places]
            if places
            else None
            for first, places in zip(kept, joined, strict=True)
        ]
        return MergedValues(join_lists(column.values, column.form, items), sources)
    texts = [
        SEPARATOR.join(
            [
                *([decoded.values[first]] if decoded.values[first] is not None else ()),
                *(split_text(decoded.values[at])[place] for at, place in places),
            ]
        )
        if places
        else None
        for first, places in zip(kept, joined, strict=True)
    ]
    return MergedValues(encode_values(texts, column.form, column.values.type), sources)


def _join_cluster(first: int, rows: list[int], decoded: DecodedValues) -> list[tuple[int, int]]:
    """Returns the parts that other rows add to the value of the kept row.

    Each is the position of its row, and its place among the parts of the value there.
    """
    known: set[Any] = set()
    added = []
    for at in rows:
        for place, part in enumerate(split_parts(decoded.values[at])):
            key = to_hashable(part)
            if at != first and part is not None and key not in known:
                added.append((at, place))
            known.add(key)
    return added


def split_parts(value: Any) -> list[Any]:
    """Returns the elements of a list, or the parts of a text."""
    return value if isinstance(value, list) else split_text(value)


def split_text(text: str) -> list[str]:
    """Returns the parts of a text that `union` may have joined.

    Examples:
        >>> split_text("red; green;blue")
        ['red', 'green;blue']
    """
    return [part.strip() for part in text.split(SEPARATOR) if part.strip()]
