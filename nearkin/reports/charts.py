"""The geometry of the report's charts: positions of bars, ticks and curves in an SVG's view box.

The page draws the charts with its own colors and fonts, so they follow its light, dark and printed
form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nearkin.quality.evaluate.audit import Audit
from nearkin.reports.formatting import format_compact
from nearkin.reports.model import Parameters, SizeCount
from nearkin.reports.similarity_bins import Histogram, name_bin
from nearkin.runtime.number_format import format_percent

WIDTH = 420
HEIGHT = 264
LEFT = 40
RIGHT = 40
TOP = 36
BOTTOM = 40
GAP = 0.8
"""The space between two bars of similarities."""
NARROWEST_BAR = 0.4
"""The width of the bar of a bin that is hardly wider than the space between bars."""
NARROWEST_RANGE = 0.05
"""The range of similarities that a chart shows if all pairs have the same."""
SIZE_CLASSES = (2, 3, 4, 5, 10, 20, 50, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)
"""The smallest cluster size of each bar of the chart of sizes."""


class Bar(NamedTuple):
    """A rectangle, its value, its label and the series it belongs to."""

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
    """The positions of everything in a chart.

    Attributes:
        bars: Bars in drawing order.
        x_ticks: Ticks of the lower axis.
        y_ticks: Ticks of the left axis.
        right_ticks: Ticks of the right axis. Empty without a second scale.
        curve: Points of the curve as an SVG `points` attribute. Empty without a curve.
        marker: Horizontal position of the vertical marker, or None.
        points: Measured values with their intervals.
    """

    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    right_ticks: tuple[Tick, ...] = ()
    curve: str = ""
    marker: float | None = None
    points: tuple[Point, ...] = ()


class SizeClass(NamedTuple):
    """The clusters of a range of sizes, and the number of documents removed from them."""

    smallest: int
    largest: int
    clusters: int
    removed: int

    @property
    def label(self) -> str:
        """The range as text, for example `2` or `5–9`."""
        if self.smallest == self.largest:
            return f"{self.smallest:,}"
        return f"{self.smallest:,}–{self.largest:,}"


def group_sizes(sizes: Sequence[SizeCount]) -> list[SizeClass]:
    """Groups cluster sizes in classes of growing width, up to the size of the largest cluster.

    Examples:
        >>> classes = group_sizes([SizeCount(2, 5), SizeCount(6, 1), SizeCount(7, 1)])
        >>> [(entry.label, entry.clusters, entry.removed) for entry in classes]
        [('2', 5, 5), ('3', 0, 0), ('4', 0, 0), ('5–9', 2, 11)]
    """
    largest = max((size for size, _ in sizes), default=0)
    bounds = [*SIZE_CLASSES, 10 * SIZE_CLASSES[-1]]
    classes = []
    for low, high in pairwise(bounds):
        if low <= largest:
            members = [entry for entry in sizes if low <= entry.size < high]
            clusters = sum(entry.clusters for entry in members)
            removed = sum((entry.size - 1) * entry.clusters for entry in members)
            classes.append(SizeClass(low, high - 1, clusters, removed))
    return classes


def draw_sizes(classes: Sequence[SizeClass]) -> Chart:
    """Returns a bar chart of cluster sizes with logarithmic heights."""
    scale = _LogScale(max(entry.clusters for entry in classes))
    slot = (WIDTH - LEFT - 12) / len(classes)
    bars = []
    ticks = []
    for i, entry in enumerate(classes):
        label = (
            f"{entry.label} documents: {entry.clusters:,} clusters, "
            f"{entry.removed:,} documents removed"
        )
        bars.append(
            Bar(
                x=LEFT + slot * (i + 0.14),
                y=scale.y(entry.clusters),
                width=slot * 0.72,
                height=scale.height(entry.clusters),
                value=entry.clusters,
                label=label,
                series="near",
            )
        )
        suffix = "+" if entry.largest > entry.smallest else ""
        ticks.append(Tick(LEFT + slot * (i + 0.5), format_compact(entry.smallest) + suffix))
    return Chart(bars=tuple(bars), x_ticks=tuple(ticks), y_ticks=scale.ticks())


def draw_similarities(verified: Histogram, estimated: Histogram, parameters: Parameters) -> Chart:
    """Returns a chart of candidate and verified pairs by similarity, with the S-curve over them."""
    scale = _LogScale(max(*verified.counts, *estimated.counts))
    right_ticks: tuple[Tick, ...] = ()
    if parameters.curve:
        right_ticks = tuple(Tick(plot_y(p), f"{p:.0%}") for p in (0, 0.5, 1))
    similarities = (0, 0.2, 0.4, 0.6, 0.8, 1)
    # a condition decides about pairs on both sides of any similarity
    marker = _similarity_x(parameters.threshold) if parameters.accept is None else None
    return Chart(
        bars=(
            *_histogram_bars(estimated, scale, "candidates"),
            *_histogram_bars(verified, scale, "verified"),
        ),
        x_ticks=tuple(Tick(_similarity_x(s), f"{s:g}") for s in similarities),
        y_ticks=scale.ticks(),
        right_ticks=right_ticks,
        curve=_curve_points(parameters.curve),
        marker=marker,
    )


def draw_recall(audit: Audit) -> Chart:
    """Returns a chart of the measured recall by similarity over the predicted recall."""
    last = audit.bins[-1].high
    first = audit.bins[0].low
    if first == last:
        # the only bin is that of a threshold of 1
        first = last - NARROWEST_RANGE
    lowest = min(
        min(entry.recall.low if entry.recall.total else 1.0, entry.predicted)
        for entry in audit.bins
    )
    floor = min(0.9, math.floor(lowest * 10) / 10)
    plot_width = WIDTH - LEFT - 12

    def x_of(similarity: float) -> float:
        return LEFT + plot_width * (similarity - first) / (last - first)

    def y_of(share: float) -> float:
        return plot_y((share - floor) / (1 - floor))

    points = []
    curve = []
    for entry in audit.bins:
        x = x_of((entry.low + entry.high) / 2)
        curve.append(f"{x:.1f},{y_of(entry.predicted):.1f}")
        if entry.recall.total:
            label = (
                f"{name_bin(entry.low, entry.high)}: {entry.recall.hits:,} of "
                f"{entry.recall.total:,} found, predicted {format_percent(entry.predicted)}"
            )
            points.append(
                Point(
                    x=x,
                    y=y_of(entry.recall.value),
                    low=y_of(entry.recall.low),
                    high=y_of(entry.recall.high),
                    label=label,
                )
            )
    levels = [floor + (1 - floor) * i / 4 for i in range(5)]
    edges = sorted({last, *(entry.low for entry in audit.bins)})
    return Chart(
        bars=(),
        x_ticks=tuple(Tick(x_of(edge), f"{edge:g}") for edge in edges),
        y_ticks=tuple(Tick(y_of(level), _format_level(level)) for level in levels),
        curve=" ".join(curve),
        points=tuple(points),
    )


def _format_level(level: float) -> str:
    is_whole = round(level * 100, 6).is_integer()
    return f"{level:.0%}" if is_whole else f"{level:.1%}"


def _histogram_bars(histogram: Histogram, scale: "_LogScale", series: str) -> list[Bar]:
    return [
        Bar(
            x=min(_similarity_x(low) + GAP / 2, WIDTH - RIGHT - NARROWEST_BAR),
            y=scale.y(count),
            width=max(_similarity_x(high) - _similarity_x(low) - GAP, NARROWEST_BAR),
            height=scale.height(count),
            value=count,
            label=f"{name_bin(low, high)}: {count:,} {series}",
            series=series,
        )
        for (low, high), count in zip(histogram.bins, histogram.counts, strict=True)
        if count
    ]


def _curve_points(shares: tuple[float, ...]) -> str:
    last = max(len(shares) - 1, 1)
    points = ((_similarity_x(i / last), plot_y(share)) for i, share in enumerate(shares))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _similarity_x(similarity: float) -> float:
    return LEFT + similarity * (WIDTH - LEFT - RIGHT)


def plot_y(share: float) -> float:
    """Returns the vertical position of a share of the plot's height."""
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


class _LogScale:
    """A scale log(1 + count), on which a single item is visible next to millions."""

    def __init__(self, largest: int) -> None:
        self._largest = max(largest, 1)

    def y(self, count: int) -> float:
        return plot_y(math.log1p(count) / math.log1p(self._largest))

    def height(self, count: int) -> float:
        return HEIGHT - BOTTOM - self.y(count)

    def ticks(self) -> tuple[Tick, ...]:
        """Returns ticks at zero and at powers of ten, at most eight in total."""
        powers = math.floor(math.log10(self._largest))
        step = 1 + powers // 7
        return (
            Tick(plot_y(0), "0"),
            *(Tick(self.y(10**p), format_compact(10**p)) for p in range(0, powers + 1, step)),
        )
