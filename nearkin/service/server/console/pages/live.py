"""The live page: rates and latencies of the last minutes."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from nearkin.reports.formatting import format_bytes
from nearkin.runtime.number_format import format_percent
from nearkin.service.server.console import charts
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit, current_visit
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
    ("New", ("new", "related"), charts.BLUE),
    ("Matched", ("match",), charts.PURPLE),
    ("Updated", ("updated",), charts.ORANGE),
    ("Known", tuple(LAYER_RESULTS.values()), charts.GREY),
)
PERCENT_METRICS = (
    "verify_drop_rate",
    "exact_drop_rate",
    "empty_bin_rate",
    "recall_on_labeled_set",
)


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page."""
    return [
        *ui.page_heading("Live"),
        dcc.Interval(id="live-clock", interval=REFRESH_MILLISECONDS),
        html.Div(await _activity_content(visit), id="live"),
    ]


async def _refresh(_: int | None) -> list[Component]:
    visit = current_visit()
    visit.require_page(PAGE)
    visit.service.require_ready()
    return await _activity_content(visit)


async def _activity_content(visit: Visit) -> list[Component]:
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
    return [
        ui.fact_tiles(
            ("Upserts per second", f"{rate:,.1f}"),
            ("Latency, p99", format_milliseconds(max(latencies, default=None))),
            ("Waiting", f"{waiting:,}"),
            ("Documents", f"{counts['records']:,}"),
            ("Clusters", f"{counts['leaders']:,}"),
            ("Index", format_bytes(counts["bytes"])),
        ),
        ui.note(
            f"At {ui.format_time(now)}. {scope_of_rates}. "
            "Latencies are those of single documents, without streams. Counts may be older: "
            "each is reused for twenty times as long as counting takes."
        ),
        html.Div([_rate_chart(seconds, now), _latency_chart(seconds, now)], className="charts"),
        ui.section(
            "Fleet metrics",
            ui.table(
                "Of this process in the last ten minutes",
                ("Metric", "Value", "Meaning"),
                [
                    (name, format_metric(name, fleet[name]), meaning)
                    for name, meaning in FLEET_METRICS.items()
                ],
                numbers=(1,),
            ),
            id="fleet",
        ),
    ]


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


def _rate_chart(seconds: Mapping[int, SecondOfActivity], now: int) -> Component:
    counts_of_points = []
    for activities in _activities_of_points(seconds, now):
        counts = Counter[str]()
        for activity in activities:
            counts.update(activity.counts)
        counts_of_points.append(counts)
    traces = []
    for name, results, colour in RESULT_GROUPS:
        rates = [sum(counts[result] for result in results) / STEP for counts in counts_of_points]
        traces.append(charts.area_trace(name, STARTS, rates, colour))
    total = sum(counts.total() for counts in counts_of_points)
    return charts.make_chart(
        "live-rates",
        "Upserts per second, by result",
        f"{total:,} upserts in the last five minutes",
        traces,
        xaxis=_time_axis(),
        yaxis=charts.make_axis("", rangemode="tozero"),
    )


def _latency_chart(seconds: Mapping[int, SecondOfActivity], now: int) -> Component:
    points = _activities_of_points(seconds, now)
    medians = [_max_milliseconds(activity.p50 for activity in point) for point in points]
    percentiles = [_max_milliseconds(activity.p99 for activity in point) for point in points]
    style = {"mode": "lines+markers", "marker": {"size": 4}}
    traces = [
        charts.line_trace("Median", STARTS, medians, charts.BLUE, **style),
        charts.line_trace("99th percentile", STARTS, percentiles, charts.ORANGE, **style),
    ]
    return charts.make_chart(
        "live-latencies",
        "Milliseconds from arrival to outcome",
        "Median and 99th percentile of the last five minutes",
        traces,
        xaxis=_time_axis(),
        yaxis=charts.make_axis("", rangemode="tozero"),
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


def _time_axis() -> charts.PlotlyProperties:
    """Returns an axis of the time before now, in seconds."""
    ticks = [-240, -180, -120, -60, 0]
    texts = [f"{-tick // 60} min" if tick else "now" for tick in ticks]
    return charts.make_axis("", range=[-RECENT_SECONDS, 2], tickvals=ticks, ticktext=texts)


def connect(app: Dash) -> None:
    """Registers the callback that updates the page."""
    app.callback(
        Output("live", "children"), Input("live-clock", "n_intervals"), prevent_initial_call=True
    )(_refresh)


PAGE = Page("live", "Live", "metrics", build, connect, every_scope=True)
