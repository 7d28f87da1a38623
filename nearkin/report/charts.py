"""Geometry of the report's charts: where bars, ticks and curves go, in units of the SVG's view box.

The page draws them with its own colours and type, so they follow its light, dark and printed form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nearkin.evaluate.audit import Audit
from nearkin.report.model import BINS, EDGES, Histogram, Parameters, SizeCount

WIDTH, HEIGHT = 420, 264
LEFT, RIGHT, TOP, BOTTOM = 40, 40, 36, 40
SIZE_CLASSES = (2, 3, 4, 5, 10, 20, 50, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Smallest size of each bar of the cluster-size chart."""


class Bar(NamedTuple):
    """A rectangle and what it stands for."""

    x: float
    y: float
    width: float
    height: float
    value: int
    label: str
    series: str


class Point(NamedTuple):
    """A measured value with its interval, in units of the view box."""

    x: float
    y: float
    low: float
    high: float
    label: str


class Tick(NamedTuple):
    """A position along an axis and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """What an SVG needs to be drawn.

    Attributes:
        bars: In drawing order.
        x_ticks: Along the bottom.
        y_ticks: Along the left.
        right_ticks: Along the right; empty without a second scale.
        curve: Points of the curve as an SVG `points` attribute; empty without one.
        marker: x of the vertical marker, or None.
        points: Measured values.
    """

    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    right_ticks: tuple[Tick, ...] = ()
    curve: str = ""
    marker: float | None = None
    points: tuple[Point, ...] = ()


class SizeClass(NamedTuple):
    """Clusters of a range of sizes, and the documents they remove."""

    smallest: int
    largest: int
    clusters: int
    removed: int

    @property
    def label(self) -> str:
        """As `2` or `5–9`."""
        return (
            f"{self.smallest:,}"
            if self.smallest == self.largest
            else f"{self.smallest:,}–{self.largest:,}"
        )


def compact(count: float) -> str:
    """A number short enough for an axis.

    Examples:
        >>> [compact(n) for n in (7, 950, 1000, 1234, 45_678, 999_999, 2_500_000)]
        ['7', '950', '1k', '1.2k', '46k', '1M', '2.5M']
    """
    for limit, unit, suffix in (
        (999.5, 1, ""),
        (999_500, 1000, "k"),
        (999_500_000, 10**6, "M"),
        (math.inf, 10**9, "G"),
    ):
        if count < limit:
            value = count / unit
            return (
                f"{value:.1f}".removesuffix(".0") if unit > 1 and value < 9.95 else f"{value:.0f}"
            ) + suffix
    return str(count)


def size_classes(sizes: Sequence[SizeCount]) -> list[SizeClass]:
    """Cluster sizes in classes of growing width, up to that of the largest cluster.

    Examples:
        >>> [(c.label, c.clusters, c.removed) for c in size_classes([SizeCount(2, 5), SizeCount(6, 1), SizeCount(7, 1)])]
        [('2', 5, 5), ('3', 0, 0), ('4', 0, 0), ('5–9', 2, 11)]
    """
    largest = max((size for size, _ in sizes), default=0)
    bounds = [*SIZE_CLASSES, 10 * SIZE_CLASSES[-1]]
    classes = []
    for low, high in pairwise(bounds):
        if low <= largest:
            inside = [entry for entry in sizes if low <= entry.size < high]
            removed = sum((entry.size - 1) * entry.clusters for entry in inside)
            classes.append(
                SizeClass(low, high - 1, sum(entry.clusters for entry in inside), removed)
            )
    return classes


def size_chart(classes: Sequence[SizeClass]) -> Chart:
    """A bar for each class, heights logarithmic."""
    scale = _LogScale(max(entry.clusters for entry in classes))
    slot = (WIDTH - LEFT - 12) / len(classes)
    bars = tuple(
        Bar(
            LEFT + slot * (i + 0.14), scale.y(entry.clusters), slot * 0.72, scale.height(entry.clusters), entry.clusters,
            f"{entry.label} documents: {entry.clusters:,} clusters, {entry.removed:,} documents removed", "near",
        )
        for i, entry in enumerate(classes)
    )  # fmt: skip
    labels = (
        compact(entry.smallest) + ("+" if entry.largest > entry.smallest else "")
        for entry in classes
    )
    return Chart(
        bars,
        tuple(Tick(LEFT + slot * (i + 0.5), label) for i, label in enumerate(labels)),
        scale.ticks(),
    )


def similarity_chart(verified: Histogram, estimated: Histogram, parameters: Parameters) -> Chart:
    """Candidates by estimate and verified pairs by similarity, with the S-curve over them."""
    scale = _LogScale(max(*verified.counts, *estimated.counts))
    bars = [
        *_histogram_bars(estimated, scale, "candidates"),
        *_histogram_bars(verified, scale, "verified"),
    ]
    banded = bool(parameters.curve)
    return Chart(
        tuple(bars),
        tuple(Tick(_similarity_x(s), f"{s:g}") for s in (0, 0.2, 0.4, 0.6, 0.8, 1)),
        scale.ticks(),
        tuple(Tick(_plot_y(p), f"{p:.0%}") for p in (0, 0.5, 1)) if banded else (),
        _curve(parameters.curve),
        _similarity_x(parameters.threshold),
    )


def recall_chart(audit: Audit) -> Chart:
    """Recall by similarity as it was measured, over what the S-curve and the margin predict."""
    first, last = audit.bins[0].low, audit.bins[-1].high
    lowest = min(min(b.recall.low if b.recall.total else 1.0, b.predicted) for b in audit.bins)
    floor = min(0.9, math.floor(lowest * 10) / 10)
    inner = WIDTH - LEFT - 12

    def x(similarity: float) -> float:
        return LEFT + inner * (similarity - first) / (last - first)

    def y(share: float) -> float:
        return _plot_y((share - floor) / (1 - floor))

    middles = [((b.low + b.high) / 2, b) for b in audit.bins]
    points = tuple(
        Point(
            x(middle), y(b.recall.value), y(b.recall.low), y(b.recall.high),
            f"{b.low:.2f} to {b.high:.2f}: {b.recall.hits:,} of {b.recall.total:,} found, predicted {b.predicted:.1%}",
        )
        for middle, b in middles
        if b.recall.total
    )  # fmt: skip
    curve = " ".join(f"{x(middle):.1f},{y(b.predicted):.1f}" for middle, b in middles)
    levels = [floor + (1 - floor) * i / 4 for i in range(5)]
    edges = [*(b.low for b in audit.bins), last]
    return Chart(
        (),
        tuple(Tick(x(edge), f"{edge:g}") for edge in edges),
        tuple(
            Tick(y(level), f"{level:.0%}" if round(level * 100, 6).is_integer() else f"{level:.1%}")
            for level in levels
        ),
        curve=curve,
        points=points,
    )


def _histogram_bars(histogram: Histogram, scale: "_LogScale", series: str) -> list[Bar]:
    width = (WIDTH - LEFT - RIGHT) / BINS
    return [
        Bar(
            LEFT + i * width + 0.4, scale.y(count), width - 0.8, scale.height(count), count,
            f"{EDGES[i]:.2f} to {EDGES[i + 1]:.2f}: {count:,} {series}", series,
        )
        for i, count in enumerate(histogram.counts)
        if count
    ]  # fmt: skip


def _curve(shares: tuple[float, ...]) -> str:
    last = max(len(shares) - 1, 1)
    points = ((_similarity_x(i / last), _plot_y(share)) for i, share in enumerate(shares))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _similarity_x(similarity: float) -> float:
    return LEFT + similarity * (WIDTH - LEFT - RIGHT)


def _plot_y(share: float) -> float:
    """y of a share of the plot's height."""
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


class _LogScale:
    """Counts from 0 on: log(1 + count), so that a single one is seen next to millions."""

    def __init__(self, largest: int) -> None:
        self._largest = max(largest, 1)

    def _share(self, count: int) -> float:
        return math.log1p(count) / math.log1p(self._largest)

    def y(self, count: int) -> float:
        return _plot_y(self._share(count))

    def height(self, count: int) -> float:
        return HEIGHT - BOTTOM - self.y(count)

    def ticks(self) -> tuple[Tick, ...]:
        """Zero and powers of ten, at most seven of them."""
        powers = math.floor(math.log10(self._largest))
        step = 1 + powers // 7
        return (
            Tick(_plot_y(0), "0"),
            *(Tick(self.y(10**p), compact(10**p)) for p in range(0, powers + 1, step)),
        )
