"""Rates and latencies of the last minutes."""

import time
from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from nearkin.report.formatting import format_bytes, format_percent
from nearkin.server.console import charts as figures
from nearkin.server.console import components as shown
from nearkin.server.console.visitor import Page, Visit, current
from nearkin.server.index_gauges import FLEET_METRICS
from nearkin.server.telemetry import LAYER_RESULTS, RECENT_SECONDS

EVERY = 2000
"""Milliseconds."""
WINDOW = 10
"""Seconds that the present is averaged over."""
STEP = 5
"""Seconds that are drawn as one: counts as their mean, percentiles as those of the worst second."""
STARTS = tuple(range(-RECENT_SECONDS, 0, STEP))
KINDS = (
    ("New", ("new",), figures.BLUE),
    ("Matched", ("match",), figures.PURPLE),
    ("Updated", ("updated",), figures.ORANGE),
    ("Known", tuple(LAYER_RESULTS.values()), figures.GREY),
)
SHARES = ("verify_drop_rate", "empty_bin_rate", "recall_on_labeled_set")


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """The page."""
    body = html.Div(await _drawn(visit), id="live")
    return [*shown.heading("Live"), dcc.Interval(id="live-clock", interval=EVERY), body]


async def _refresh(_: int | None) -> list[Component]:
    visit = current()
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
        shown.tiles(
            ("Upserts a second", f"{rate:,.1f}"),
            ("Latency, p99", milliseconds(slowest)),
            ("Waiting", f"{waiting:,}"),
            ("Documents", f"{counts['records']:,}"),
            ("Clusters", f"{counts['leaders']:,}"),
            ("Index", format_bytes(counts["bytes"])),
        ),
        shown.note(
            f"At {shown.at(now)}; rate and latency of the last {WINDOW} seconds"
            + (f", of {workers} workers, percentiles of the slowest. " if workers > 1 else ". ")
            + "Latency is of documents that came one by one; counts may be older: "
            "each is kept for twenty times as long as counting takes."
        ),
        html.Div([_rates(seconds, now), _latencies(seconds, now)], className="charts"),
        shown.section(
            "Figures of the fleet",
            shown.table(
                "Of this process, since it was started",
                ("Figure", "Value", "What it is"),
                [
                    (name, told(name, fleet.to_dict()[name]), meaning)
                    for name, meaning in FLEET_METRICS.items()
                ],
                numbers=(1,),
            ),
            id="fleet",
        ),
    ]


def told(name: str, value: float | None) -> str:
    """A figure in its unit."""
    if value is None:
        return "–"
    if name in SHARES:
        return format_percent(value)
    if name.endswith("_bytes"):
        return format_bytes(int(value))
    return (
        milliseconds(value)
        if "latency" in name
        else f"{value:,.3g}"
        if isinstance(value, float)
        else f"{value:,}"
    )


def milliseconds(seconds: float | None) -> str:
    """Three digits of them.

    Examples:
        >>> milliseconds(0.01234), milliseconds(None)
        ('12.3 ms', '–')
    """
    return "–" if seconds is None else f"{1000 * seconds:,.3g} ms"


def _rates(seconds: Mapping[int, Mapping[str, Any]], now: int) -> Component:
    steps = [[one["counts"] for one in some] for some in _steps(seconds, now)]
    traces = []
    for name, results, colour in KINDS:
        y = [
            sum(counts.get(result, 0) for counts in some for result in results) / STEP
            for some in steps
        ]
        traces.append(figures.area(name, STARTS, y, colour))
    total = sum(sum(counts.values()) for some in steps for counts in some)
    return figures.chart(
        "live-rates",
        "Upserts a second, by result",
        f"{total:,} upserts in the last five minutes",
        traces,
        xaxis=_ago(),
        yaxis=figures.axis("", rangemode="tozero"),
    )


def _latencies(seconds: Mapping[int, Mapping[str, Any]], now: int) -> Component:
    steps = _steps(seconds, now)

    def of(name: str) -> list[float | None]:
        every = [[1000 * one[name] for one in some if one[name] is not None] for some in steps]
        return [max(some, default=None) for some in every]

    traces = [
        figures.line(
            "Median", STARTS, of("p50"), figures.BLUE, mode="lines+markers", marker={"size": 4}
        ),
        figures.line(
            "99th percentile",
            STARTS,
            of("p99"),
            figures.ORANGE,
            mode="lines+markers",
            marker={"size": 4},
        ),
    ]
    return figures.chart(
        "live-latencies",
        "Milliseconds from arrival to outcome",
        "Median and 99th percentile of the last five minutes",
        traces,
        xaxis=_ago(),
        yaxis=figures.axis("", rangemode="tozero"),
    )


def _steps(seconds: Mapping[int, Mapping[str, Any]], now: int) -> list[list[Mapping[str, Any]]]:
    """What there is of each STEP seconds; those of the present second are still to come."""
    return [
        [seconds[now + at + i] for i in range(STEP) if now + at + i in seconds] for at in STARTS
    ]


def _ago() -> dict[str, Any]:
    ticks = [-240, -180, -120, -60, 0]
    texts = [f"{-at // 60} min" if at else "now" for at in ticks]
    return figures.axis("", range=[-RECENT_SECONDS, 2], tickvals=ticks, ticktext=texts)


def connect(app: Dash) -> None:
    """The page renews itself."""
    app.callback(
        Output("live", "children"), Input("live-clock", "n_intervals"), prevent_initial_call=True
    )(_refresh)


PAGE = Page("live", "Live", "metrics", build, connect, every_scope=True)
