"""The live page: rates and latencies of the last minutes."""

import time
from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from nearkin.report.formatting import format_bytes, format_percent
from nearkin.server.console import charts
from nearkin.server.console import components as ui
from nearkin.server.console.visitor import Page, Visit, current_visit
from nearkin.server.index_gauges import FLEET_METRICS
from nearkin.server.telemetry import LAYER_RESULTS, RECENT_SECONDS

REFRESH_MILLISECONDS = 2000
"""Milliseconds between updates of the page."""
WINDOW = 10
"""Number of seconds over which current values are averaged."""
STEP = 5
"""Number of seconds of a point in a chart, which has the mean of counts and the maximum of
percentiles."""
STARTS = tuple(range(-RECENT_SECONDS, 0, STEP))
RESULT_GROUPS = (
    ("New", ("new",), charts.BLUE),
    ("Matched", ("match",), charts.PURPLE),
    ("Updated", ("updated",), charts.ORANGE),
    ("Known", tuple(LAYER_RESULTS.values()), charts.GREY),
)
PERCENT_METRICS = ("verify_drop_rate", "empty_bin_rate", "recall_on_labeled_set")


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page.

    Args:
        visit: The current visit.
        query: Query parameters.
    """
    body = html.Div(await _drawn(visit), id="live")
    return [
        *ui.page_heading("Live"),
        dcc.Interval(id="live-clock", interval=REFRESH_MILLISECONDS),
        body,
    ]


async def _refresh(_: int | None) -> list[Component]:
    visit = current_visit()
    visit.require_page(PAGE)
    visit.service.require_ready()
    return await _drawn(visit)


async def _drawn(visit: Visit) -> list[Component]:
    service = visit.service
    series, waiting, workers = await service.run_in_thread(visit.recent_metrics.read, service)
    counts = await service.run_overview(service.cluster_listings.counts)
    recall = None if service.golden_result is None else service.golden_result.recall
    fleet = await service.run_in_thread(
        service.index.search_stats.metrics, recall, counts.get("bytes")
    )
    now = int(time.time())
    seconds = {one["second"]: one for one in series}
    recent = [seconds[at] for at in range(now - WINDOW, now) if at in seconds]
    rate = sum(sum(one["counts"].values()) for one in recent) / WINDOW
    slowest = max((one["p99"] for one in recent if one["p99"] is not None), default=None)
    return [
        ui.fact_tiles(
            ("Upserts per second", f"{rate:,.1f}"),
            ("Latency, p99", format_milliseconds(slowest)),
            ("Waiting", f"{waiting:,}"),
            ("Documents", f"{counts['records']:,}"),
            ("Clusters", f"{counts['leaders']:,}"),
            ("Index", format_bytes(counts["bytes"])),
        ),
        ui.note(
            f"At {ui.format_time(now)}. Rate and latency are those of the last {WINDOW} seconds"
            + (
                f" and of {workers} workers; percentiles are those of the slowest worker. "
                if workers > 1
                else ". "
            )
            + "Latencies are those of single documents, without streams. Counts may be older: "
            "each is reused for twenty times as long as counting takes."
        ),
        html.Div([_rates(seconds, now), _latencies(seconds, now)], className="charts"),
        ui.section(
            "Fleet metrics",
            ui.table(
                "Of this process since it was started",
                ("Metric", "Value", "Meaning"),
                [
                    (name, format_metric(name, fleet.to_dict()[name]), meaning)
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
    return (
        format_milliseconds(value)
        if "latency" in name
        else f"{value:,.3g}"
        if isinstance(value, float)
        else f"{value:,}"
    )


def format_milliseconds(seconds: float | None) -> str:
    """Returns seconds as milliseconds with three digits, or a dash without a value.

    Examples:
        >>> format_milliseconds(0.01234), format_milliseconds(None)
        ('12.3 ms', '–')
    """
    return "–" if seconds is None else f"{1000 * seconds:,.3g} ms"


def _rates(seconds: Mapping[int, Mapping[str, Any]], now: int) -> Component:
    steps = [[one["counts"] for one in some] for some in _steps(seconds, now)]
    traces = []
    for name, results, colour in RESULT_GROUPS:
        y = [
            sum(counts.get(result, 0) for counts in some for result in results) / STEP
            for some in steps
        ]
        traces.append(charts.area_trace(name, STARTS, y, colour))
    total = sum(sum(counts.values()) for some in steps for counts in some)
    return charts.make_chart(
        "live-rates",
        "Upserts per second, by result",
        f"{total:,} upserts in the last five minutes",
        traces,
        xaxis=_ago(),
        yaxis=charts.make_axis("", rangemode="tozero"),
    )


def _latencies(seconds: Mapping[int, Mapping[str, Any]], now: int) -> Component:
    steps = _steps(seconds, now)

    def of(name: str) -> list[float | None]:
        every = [[1000 * one[name] for one in some if one[name] is not None] for some in steps]
        return [max(some, default=None) for some in every]

    traces = [
        charts.line_trace(
            "Median", STARTS, of("p50"), charts.BLUE, mode="lines+markers", marker={"size": 4}
        ),
        charts.line_trace(
            "99th percentile",
            STARTS,
            of("p99"),
            charts.ORANGE,
            mode="lines+markers",
            marker={"size": 4},
        ),
    ]
    return charts.make_chart(
        "live-latencies",
        "Milliseconds from arrival to outcome",
        "Median and 99th percentile of the last five minutes",
        traces,
        xaxis=_ago(),
        yaxis=charts.make_axis("", rangemode="tozero"),
    )


def _steps(seconds: Mapping[int, Mapping[str, Any]], now: int) -> list[list[Mapping[str, Any]]]:
    """Returns the recorded seconds of each point of a chart, without the current second."""
    return [
        [seconds[now + at + i] for i in range(STEP) if now + at + i in seconds] for at in STARTS
    ]


def _ago() -> dict[str, Any]:
    ticks = [-240, -180, -120, -60, 0]
    texts = [f"{-at // 60} min" if at else "now" for at in ticks]
    return charts.make_axis("", range=[-RECENT_SECONDS, 2], tickvals=ticks, ticktext=texts)


def connect(app: Dash) -> None:
    """Registers the callback that updates the page."""
    app.callback(
        Output("live", "children"), Input("live-clock", "n_intervals"), prevent_initial_call=True
    )(_refresh)


PAGE = Page("live", "Live", "metrics", build, connect, every_scope=True)
