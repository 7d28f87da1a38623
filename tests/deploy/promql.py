"""A small evaluator of PromQL: what the rules of deploy/ use, over samples that tests record.

Rates are the difference of the last and the first sample of a range over the time between them.
Prometheus also extrapolates to the ends of the range, which changes no comparison with zero, and
others by less than the distance of two samples.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
NAME = "__name__"
STALE_SECONDS = 300
"""The age up to which a sample is the present value of its series."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
}
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def without_name(labels: Labels) -> Labels:
    """Returns labels without the name of the metric."""
    return frozenset(item for item in labels if item[0] != NAME)


@dataclass
class Samples:
    """The samples of all series that were scraped, oldest first.

    Attributes:
        series: Times and values of each series.
        target: Labels that Prometheus adds.
    """

    series: dict[Labels, list[tuple[float, float]]] = field(default_factory=dict)
    target: tuple[tuple[str, str], ...] = (("instance", "a"), ("job", "nearkin"))

    def add(self, name: str, labels: dict[str, str], time: float, value: float) -> None:
        """Adds a sample of a series."""
        key = frozenset({**labels, **dict(self.target), NAME: name}.items())
        self.series.setdefault(key, []).append((time, value))

    def scrape(self, text: str | None, time: float) -> None:
        """Adds the samples of one scrape; None for a scrape that failed."""
        self.add("up", {}, time, 0.0 if text is None else 1.0)
        for family in text_string_to_metric_families(text or ""):
            for sample in family.samples:
                self.add(sample.name, sample.labels, time, sample.value)

    def evaluate(self, query: str, time: float) -> Vector:
        """Returns the value of a query at a time, by labels. It is empty if nothing matches."""
        value = self._value(promql_parser.parse(query), time)
        assert isinstance(value, dict)
        return value

    def _value(self, node: Any, time: float) -> Vector | float:
        match node:
            case promql_parser.NumberLiteral():
                return float(node.val)
            case promql_parser.ParenExpr():
                return self._value(node.expr, time)
            case promql_parser.VectorSelector():
                return self._present(node, time)
            case promql_parser.BinaryExpr():
                left = self._value(node.lhs, time)
                right = self._value(node.rhs, time)
                return _combine(str(node.op), left, right)
            case promql_parser.AggregateExpr():
                return self._sum(node, time)
            case promql_parser.Call():
                return self._call(node, time)
        raise NotImplementedError(type(node).__name__)

    def _select(self, node: Any) -> dict[Labels, list[tuple[float, float]]]:
        wanted = {NAME: node.name, **{one.name: one.value for one in node.matchers.matchers}}
        return {
            labels: samples
            for labels, samples in self.series.items()
            if wanted.items() <= dict(labels).items()
        }

    def _present(self, node: Any, time: float) -> Vector:
        at = time - (node.offset.total_seconds() if node.offset else 0.0)
        values: Vector = {}
        for labels, samples in self._select(node).items():
            recent = [value for when, value in samples if at - STALE_SECONDS < when <= at]
            # a series that the last scrape did not have is stale
            if recent and self._is_current(samples, at):
                values[labels] = recent[-1]
        return values

    def _is_current(self, samples: list[tuple[float, float]], at: float) -> bool:
        scrapes = [
            when
            for labels, rows in self.series.items()
            if (NAME, "up") in labels
            for when, _ in rows
            if when <= at
        ]
        last = max(when for when, _ in samples if when <= at)
        return not scrapes or last >= max(scrapes)

    def _sum(self, node: Any, time: float) -> Vector:
        assert str(node.op) == "sum"
        kept = set(node.modifier.labels)
        inner = self._value(node.expr, time)
        assert isinstance(inner, dict)
        totals: Vector = {}
        for labels, value in inner.items():
            group = frozenset(item for item in labels if item[0] in kept)
            totals[group] = totals.get(group, 0.0) + value
        return totals

    def _call(self, node: Any, time: float) -> Vector:
        name = node.func.name
        if name == "absent":
            return {} if self._value(node.args[0], time) else {frozenset(): 1.0}
        if name == "histogram_quantile":
            share = self._value(node.args[0], time)
            buckets = self._value(node.args[1], time)
            assert isinstance(share, float)
            assert isinstance(buckets, dict)
            return _quantiles(share, buckets)
        selector = node.args[0]
        seconds = selector.range.total_seconds()
        values: Vector = {}
        for labels, samples in self._select(selector.vector_selector).items():
            rows = [row for row in samples if time - seconds <= row[0] <= time]
            if len(rows) < 2:
                continue
            difference = rows[-1][1] - rows[0][1]
            if name == "rate":
                difference /= rows[-1][0] - rows[0][0]
            else:
                assert name in ("increase", "delta")
            values[without_name(labels)] = difference
        return values


def _combine(sign: str, left: Vector | float, right: Vector | float) -> Vector | float:
    if isinstance(left, float) and isinstance(right, float):
        return ARITHMETIC[sign](left, right)
    if isinstance(left, float):
        assert isinstance(right, dict)
        return {without_name(key): ARITHMETIC[sign](left, value) for key, value in right.items()}
    if isinstance(right, float):
        if sign in COMPARISONS:
            return {key: value for key, value in left.items() if COMPARISONS[sign](value, right)}
        return {without_name(key): ARITHMETIC[sign](value, right) for key, value in left.items()}
    by_labels = {without_name(key): value for key, value in right.items()}
    if sign == "or":
        known = {without_name(key) for key in left}
        added = {key: value for key, value in right.items() if without_name(key) not in known}
        return {**left, **added}
    if sign == "unless":
        return {key: value for key, value in left.items() if without_name(key) not in by_labels}
    pairs = {
        key: (value, by_labels[without_name(key)])
        for key, value in left.items()
        if without_name(key) in by_labels
    }
    if sign in COMPARISONS:
        return {key: pair[0] for key, pair in pairs.items() if COMPARISONS[sign](*pair)}
    return {without_name(key): ARITHMETIC[sign](*pair) for key, pair in pairs.items()}


def _quantiles(share: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in buckets.items():
        bound = float(dict(labels)["le"])
        group = frozenset(item for item in labels if item[0] != "le")
        groups.setdefault(group, []).append((bound, value))
    values: Vector = {}
    for group, rows in groups.items():
        rows.sort()
        rank = share * rows[-1][1]
        if rank <= 0:
            continue
        lower = 0.0
        before = 0.0
        for bound, count in rows:
            if count >= rank:
                is_last = bound == float("inf")
                part = 0.0 if is_last else (bound - lower) * (rank - before) / (count - before)
                values[group] = lower + part
                break
            lower = bound
            before = count
    return values
