"""Charts of several series, in the style of reports. Classes give the colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from nearkin.reports.charts import Bar, Tick
from nearkin.reports.formatting import format_compact

WIDTH = 640
HEIGHT = 300
LEFT = 52
RIGHT = 44
TOP = 36
BOTTOM = 40


class Line(NamedTuple):
    """A curve, whose parts are `points` attributes of SVG. A value that is missing divides it."""

    colour: str
    parts: list[str]


class Area(NamedTuple):
    """An area, as a `points` attribute of SVG."""

    colour: str
    points: str


@dataclass(frozen=True)
class Plot:
    """The positions of everything in a chart, in units of the view box.

    Attributes:
        right_ticks: Ticks of the right axis. Empty without a second scale.
        marker: A vertical line and its label, or None.
        legend: Names of the series and their colours.
    """

    id: str
    caption: str
    description: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    legend: Sequence[tuple[str, str]]
    x_title: str = ""
    y_title: str = ""
    bars: Sequence[Bar] = ()
    areas: Sequence[Area] = ()
    lines: Sequence[Line] = ()
    right_ticks: Sequence[Tick] = ()
    marker: Tick | None = None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM


class Scale:
    """The positions of values from `low` to `high` between two places.

    Examples:
        >>> scale = Scale(0, 10, 100, 200)
        >>> scale.place(2.5), [tick.label for tick in scale.ticks()]
        (125.0, ['0', '5', '10'])
    """

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = low
        self._high = high
        self._start = start
        self._end = end

    def place(self, value: float) -> float:
        """Returns the place of a value."""
        share = (value - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[Tick]:
        """Returns ticks at both ends and in the middle."""
        values = (self._low, (self._low + self._high) / 2, self._high)
        return [Tick(self.place(value), f"{value:,.3g}") for value in values]


def horizontal(low: float, high: float) -> Scale:
    """Returns the scale of the lower axis."""
    return Scale(low, high, LEFT, WIDTH - RIGHT)


def vertical(values: Sequence[float | None]) -> Scale:
    """Returns the scale of the left axis from 0 to at least the largest value."""
    largest = max((value for value in values if value is not None), default=0.0)
    digit = 10.0 ** math.floor(math.log10(largest)) if largest else 1.0
    return Scale(0, digit * math.ceil(largest / digit) or 1.0, HEIGHT - BOTTOM, TOP)


SHARES = Scale(0, 1, HEIGHT - BOTTOM, TOP)
"""The scale of shares on the right axis."""
SHARE_TICKS = [Tick(SHARES.place(share), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]


class LogScale:
    """A scale of counts, on which 1 is at the bottom and `largest` at the top."""

    def __init__(self, largest: float) -> None:
        self._powers = max(1, math.ceil(math.log10(max(largest, 1.0))))
        self._scale = Scale(0, self._powers, HEIGHT - BOTTOM, TOP)

    def bar(self, x: float, width: float, count: float, colour: str, label: str) -> Bar:
        """Returns a bar from the bottom to a count above 0."""
        y = min(self._scale.place(math.log10(count)), HEIGHT - BOTTOM - 1)
        return Bar(x, y, width, HEIGHT - BOTTOM - y, round(count), label, colour)

    def ticks(self) -> list[Tick]:
        """Returns ticks at powers of ten."""
        step = 1 + self._powers // 7
        return [
            Tick(self._scale.place(power), format_compact(10**power))
            for power in range(0, self._powers + 1, step)
        ]


def draw_line(
    colour: str, x: Scale, y: Scale, values: Sequence[tuple[float, float | None]]
) -> Line:
    """Returns the curve of values. A single value between missing ones is a short line."""
    parts: list[str] = []
    for is_missing, run in groupby(values, lambda at_value: at_value[1] is None):
        if is_missing:
            continue
        points = [(x.place(at), y.place(value)) for at, value in run if value is not None]
        if len(points) == 1:
            ((at, value),) = points
            points = [(at - 2, value), (at + 2, value)]
        parts.append(" ".join(f"{at:.1f},{value:.1f}" for at, value in points))
    return Line(colour, parts)


def draw_area(
    colour: str,
    x: Scale,
    y: Scale,
    low: Sequence[float],
    high: Sequence[float],
    at: Sequence[float],
) -> Area:
    """Returns the area between two curves over the same positions."""
    top = [f"{x.place(a):.1f},{y.place(v):.1f}" for a, v in zip(at, high, strict=True)]
    bottom = [f"{x.place(a):.1f},{y.place(v):.1f}" for a, v in zip(at, low, strict=True)]
    return Area(colour, " ".join([*top, *reversed(bottom)]))
