"""The live page: rates and latencies of the last minutes."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from markupsafe import Markup

from nearkin.reports.charts import Tick
from nearkin.reports.formatting import format_bytes
from nearkin.runtime.number_format import format_percent
from nearkin.service.server.console import charts
from nearkin.service.server.console.markup import format_time, render
from nearkin.service.server.console.visitor import Page, Visit
from nearkin.service.server.index_gauges import FLEET_METRICS, fleet_metrics
from nearkin.service.server.telemetry import LAYER_RESULTS, RECENT_SECONDS, SecondOfActivity

REFRESH_MILLISECONDS = 2000
"""Milliseconds between updates of the page."""
WINDOW = 10
"""Number of seconds over which current values are averaged."""
STEP = 5
"""Number of seconds of a point in a chart, which has the mean of counts and the maximum of
percentiles."""
STARTS = tuple(range(-RECENT_SECONDS, 0, STEP))
RESULT_GROUPS = (
    ("New", ("new", "related"), "blue"),
    ("Matched", ("match",), "purple"),
    ("Updated", ("updated",), "orange"),
    ("Known", tuple(LAYER_RESULTS.values()), "grey"),
)
PERCENT_METRICS = (
    "verify_drop_rate",
    "exact_drop_rate",
    "empty_bin_rate",
    "recall_on_labeled_set",
)


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page."""
    return render(
        "live.html",
        milliseconds=REFRESH_MILLISECONDS,
        content=await build_activity(visit, {}),
    )


async def build_activity(visit: Visit, values: Mapping[str, str]) -> Markup:
    """Builds the part of the page that is updated."""
    service = visit.service
    series, waiting, workers = await service.run_in_thread(visit.recent_metrics.read, service)
    counts = await service.run_overview(service.cluster_listings.counts)
    recall = None
    if service.golden_result is not None:
        recall = service.golden_result.recall
    fleet = await service.run_in_thread(fleet_metrics, service.index, counts, recall)
    now = int(time.time())
    seconds = {activity.second: activity for activity in series}
    recent = [seconds[second] for second in range(now - WINDOW, now) if second in seconds]
    rate = sum(sum(activity.counts.values()) for activity in recent) / WINDOW
    latencies = [activity.p99 for activity in recent if activity.p99 is not None]
    scope_of_rates = f"Rate and latency are those of the last {WINDOW} seconds"
    if workers > 1:
        scope_of_rates += f" and of {workers} workers; percentiles are those of the slowest worker"
    facts = [
        ("Upserts per second", f"{rate:,.1f}"),
        ("Latency, p99", format_milliseconds(max(latencies, default=None))),
        ("Waiting", f"{waiting:,}"),
        ("Documents", f"{counts['records']:,}"),
        ("Clusters", f"{counts['leaders']:,}"),
        ("Index", format_bytes(counts["bytes"])),
    ]
    metrics = [
        (name, format_metric(name, fleet[name]), meaning) for name, meaning in FLEET_METRICS.items()
    ]
    return render(
        "activity.html",
        facts=facts,
        now=format_time(now),
        scope_of_rates=scope_of_rates,
        rates=_rate_chart(seconds, now),
        latencies=_latency_chart(seconds, now),
        metrics=metrics,
    )


def format_metric(name: str, value: float | None) -> str:
    """Returns a metric with its unit, or a dash without a value."""
    if value is None:
        return "–"
    if name in PERCENT_METRICS:
        return format_percent(value)
    if name.endswith("_bytes"):
        return format_bytes(int(value))
    if "latency" in name:
        return format_milliseconds(value)
    if isinstance(value, float):
        return f"{value:,.3g}"
    return f"{value:,}"


def format_milliseconds(seconds: float | None) -> str:
    """Returns seconds as milliseconds with three digits, or a dash without a value.

    Examples:
        >>> format_milliseconds(0.01234), format_milliseconds(None)
        ('12.3 ms', '–')
    """
    if seconds is None:
        return "–"
    return f"{1000 * seconds:,.3g} ms"


def _rate_chart(seconds: Mapping[int, SecondOfActivity], now: int) -> charts.Plot:
    counts_of_points = []
    for activities in _activities_of_points(seconds, now):
        counts = Counter[str]()
        for activity in activities:
            counts.update(activity.counts)
        counts_of_points.append(counts)
    bounds = [[0.0] * len(STARTS)]
    for _, results, _ in RESULT_GROUPS:
        rates = [sum(counts[result] for result in results) / STEP for counts in counts_of_points]
        bounds.append([low + rate for low, rate in zip(bounds[-1], rates, strict=True)])
    x = _time_scale()
    y = charts.vertical(bounds[-1])
    areas = [
        charts.draw_area(colour, x, y, low, high, STARTS)
        for (_, _, colour), (low, high) in zip(RESULT_GROUPS, pairwise(bounds), strict=True)
    ]
    total = sum(counts.total() for counts in counts_of_points)
    return charts.Plot(
        id="live-rates",
        caption="Upserts per second, by result",
        description=f"{total:,} upserts in the last five minutes",
        x_ticks=_time_ticks(x),
        y_ticks=y.ticks(),
        areas=areas,
        legend=[(name, colour) for name, _, colour in RESULT_GROUPS],
    )


def _latency_chart(seconds: Mapping[int, SecondOfActivity], now: int) -> charts.Plot:
    points = _activities_of_points(seconds, now)
    medians = [_max_milliseconds(activity.p50 for activity in point) for point in points]
    percentiles = [_max_milliseconds(activity.p99 for activity in point) for point in points]
    x = _time_scale()
    y = charts.vertical(percentiles)
    return charts.Plot(
        id="live-latencies",
        caption="Milliseconds from arrival to outcome",
        description="Median and 99th percentile of the last five minutes",
        x_ticks=_time_ticks(x),
        y_ticks=y.ticks(),
        lines=[
            charts.draw_line("blue", x, y, list(zip(STARTS, medians, strict=True))),
            charts.draw_line("orange", x, y, list(zip(STARTS, percentiles, strict=True))),
        ],
        legend=[("Median", "blue"), ("99th percentile", "orange")],
    )


def _max_milliseconds(latencies: Iterable[float | None]) -> float | None:
    """Returns the largest of latencies in seconds as milliseconds, or None if all are unknown."""
    return max((1000 * latency for latency in latencies if latency is not None), default=None)


def _activities_of_points(
    seconds: Mapping[int, SecondOfActivity], now: int
) -> list[list[SecondOfActivity]]:
    """Returns the recorded seconds of each point of a chart, without the current second."""
    points = []
    for start in STARTS:
        point_seconds = range(now + start, now + start + STEP)
        points.append([seconds[second] for second in point_seconds if second in seconds])
    return points


def _time_scale() -> charts.Scale:
    """Returns the scale of the time before now, in seconds."""
    return charts.horizontal(-RECENT_SECONDS, 0)


def _time_ticks(x: charts.Scale) -> list[Tick]:
    return [
        Tick(x.place(-60 * minutes), f"{minutes} min" if minutes else "now")
        for minutes in (4, 3, 2, 1, 0)
    ]


PAGE = Page("live", "Live", "metrics", build, build_activity, every_scope=True)
