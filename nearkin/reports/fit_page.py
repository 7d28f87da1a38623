"""Renders the result of a fit as one HTML page, in the style of the report of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.result import FitResult, FittedSettings, WrongPair
from nearkin.quality.fit.validation import HeldOut
from nearkin.reports.charts import BOTTOM, HEIGHT, LEFT, WIDTH, Tick, plot_y
from nearkin.reports.diff import DocumentRole
from nearkin.reports.page import (
    describe_equal_texts,
    diff_markup,
    make_environment,
    page_style,
)
from nearkin.runtime.number_format import format_fraction
from nearkin.settings.choices import ClusterMethod

RIGHT_EDGE = 12
"""The space on the right of the chart."""
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SERIES = ("first", "second", "third")
"""The classes of the curves, which decide their colors."""
REMARK_OF_FALSE_PAIRS = (
    "Both documents are in one cluster. Their own similarity may be below the threshold."
)
REMARK_OF_MISSED_PAIRS = (
    "The documents are in different clusters. Their own similarity may be above the threshold."
)


class CurvePlot(NamedTuple):
    """A precision-recall curve and the point of its threshold, in units of the view box."""

    series: str
    name: str
    points: str
    x: float
    y: float
    label: str


class IntervalPoint(NamedTuple):
    """A point with intervals in both directions, in units of the view box."""

    x: float
    y: float
    left: float
    right: float
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class PrecisionRecallChart:
    """A chart of precision over recall.

    Attributes:
        x_ticks: Ticks of the recall.
        y_ticks: Ticks of the precision.
        curves: Curve of each of the best settings.
        held_out: Scores in cross-validation, or None.
    """

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    curves: tuple[CurvePlot, ...]
    held_out: IntervalPoint | None


class SettingsRow(NamedTuple):
    """A row of the table of settings."""

    series: str
    name: str
    threshold: str
    scores: tuple[str, ...]


class WrongComparison(NamedTuple):
    """A wrongly judged pair side by side with marked differences.

    `right` is empty if both texts read the same.
    """

    pair: WrongPair
    left: Markup
    right: Markup
    equal: str
    """The remark in place of the right side if it is empty."""


class WrongKind(NamedTuple):
    """Wrongly judged pairs of one kind. `remark` explains what may surprise, or is empty."""

    anchor: str
    title: str
    remark: str
    total: int
    pairs: list[WrongComparison]


def render_fit(fitted: FitResult, title: str, command: str = "") -> str:
    """Returns the result of a fit as a self-contained HTML page."""
    rows = [
        _settings_row(choice, series, describe_definition(choice.definition))
        for choice, series in zip(fitted.choices, SERIES, strict=False)
    ]
    if fitted.default is not None:
        rows.append(_settings_row(fitted.default, "", f"defaults: {fitted.default.definition}"))
    folder = Path(__file__).parent
    return (
        make_environment(folder)
        .get_template("fit.html")
        .render(
            fitted=fitted,
            title=title,
            best=describe_definition(fitted.best.definition),
            command=command,
            style=Markup(page_style()),
            chart=draw_precision_recall(fitted.choices, fitted.held_out),
            rows=rows,
            held_out=_held_out_scores(fitted.held_out),
            wrong=[
                WrongKind(
                    "false-pairs",
                    "Distinct documents that are found",
                    REMARK_OF_FALSE_PAIRS if fitted.labels.clusters is not None else "",
                    fitted.false_count,
                    _compare_pairs(fitted.false_pairs),
                ),
                WrongKind(
                    "missed-pairs",
                    "Duplicates that are missed",
                    REMARK_OF_MISSED_PAIRS if fitted.labels.clusters is not None else "",
                    fitted.missed_count,
                    _compare_pairs(fitted.missed_pairs),
                ),
            ],
            width=WIDTH,
            height=HEIGHT,
            left=LEFT,
            right=RIGHT_EDGE,
            bottom=BOTTOM,
        )
    )


def draw_precision_recall(
    choices: Sequence[FittedSettings], held_out: HeldOut | None
) -> PrecisionRecallChart:
    """Returns a chart of the precision-recall curves of the best settings.

    A curve has a point for each threshold at which a duplicate is found.
    """
    return PrecisionRecallChart(
        x_ticks=tuple(Tick(recall_x(level), f"{level:.0%}") for level in LEVELS),
        y_ticks=tuple(Tick(plot_y(level), f"{level:.0%}") for level in LEVELS),
        curves=tuple(
            _plot_curve(choice, series) for choice, series in zip(choices, SERIES, strict=False)
        ),
        held_out=None if held_out is None else _plot_held_out(held_out),
    )


def describe_definition(definition: Definition) -> str:
    """Returns a definition in words, with the way of clustering if it is not the default.

    Examples:
        >>> describe_definition(Definition("words", 1, "jaccard"))
        'words:1 jaccard'
        >>> describe_definition(Definition("words", 1, "jaccard").with_components(0.0))
        'words:1 jaccard, connected components with a floor of 0'
    """
    text = str(definition)
    if definition.cluster == ClusterMethod.COMPONENTS:
        text += ", connected components"
    if definition.floor is not None:
        text += f" with a floor of {definition.floor:g}"
    return text


def recall_x(recall: float) -> float:
    """Returns the horizontal position of a recall."""
    return LEFT + recall * (WIDTH - LEFT - RIGHT_EDGE)


def _plot_curve(choice: FittedSettings, series: str) -> CurvePlot:
    curve = choice.curve
    positions = np.flatnonzero(curve.together > 0)
    points = " ".join(
        f"{recall_x(float(curve.recall[i])):.1f},{plot_y(float(curve.precision[i])):.1f}"
        for i in positions
    )
    label = (
        f"{describe_definition(choice.definition)} at {choice.threshold:g}: precision "
        f"{format_fraction(choice.precision.value)}, recall {format_fraction(choice.recall.value)}"
    )
    return CurvePlot(
        series=series,
        name=f"{describe_definition(choice.definition)} at {choice.threshold:g}",
        points=points,
        x=recall_x(choice.recall.value),
        y=plot_y(choice.precision.value),
        label=label,
    )


def _plot_held_out(held_out: HeldOut) -> IntervalPoint:
    recall = held_out.recall
    precision = held_out.precision
    return IntervalPoint(
        x=recall_x(recall.value),
        y=plot_y(precision.value),
        left=recall_x(recall.low),
        right=recall_x(recall.high),
        low=plot_y(precision.low),
        high=plot_y(precision.high),
        label=f"In cross-validation: precision {_format_estimate(precision)}, recall "
        f"{_format_estimate(recall)}",
    )


def _settings_row(choice: FittedSettings, series: str, name: str) -> SettingsRow:
    scores = (choice.precision, choice.recall, choice.f1)
    return SettingsRow(
        series, name, f"{choice.threshold:g}", tuple(_format_estimate(score) for score in scores)
    )


def _held_out_scores(held_out: HeldOut | None) -> tuple[str, ...]:
    if held_out is None:
        return ()
    scores = (held_out.precision, held_out.recall, held_out.f1)
    return tuple(_format_estimate(score) for score in scores)


def _format_estimate(estimate: Estimate) -> str:
    return (
        f"{format_fraction(estimate.value)} ({format_fraction(estimate.low)} to "
        f"{format_fraction(estimate.high)})"
    )


def _compare_pairs(pairs: Sequence[WrongPair]) -> list[WrongComparison]:
    neutral = DocumentRole.COMPARED
    comparisons = []
    for pair in pairs:
        left, right = diff_markup(pair.text_a, pair.text_b, neutral, neutral)
        equal = describe_equal_texts(pair.text_a, pair.text_b)
        comparisons.append(WrongComparison(pair, left, right, equal))
    return comparisons
