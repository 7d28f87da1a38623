"""The page of an audit: the output of `nearkin audit --json`."""

import json
from collections.abc import Mapping
from pathlib import Path

from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.evaluate.audit import Audit, Proportion
from nearkin.report.formatting import format_percent
from nearkin.report.model import restore_dataclass
from nearkin.server.console import charts
from nearkin.server.console import components as ui
from nearkin.server.console.visitor import Page, Visit


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page.

    Args:
        visit: The current visit.
        query: Query parameters.
    """
    page = ui.page_heading(
        "Audit",
        "Precision and recall of a whole run, measured on a sample of its documents.",
    )
    path = visit.service.settings.audit
    if path is None:
        how = (
            "There is no audit yet. Run nearkin audit RUN --json > audit.json, and start the "
            "server with --audit audit.json."
        )
        return [*page, ui.note(how)]
    found = await visit.service.run_in_thread(read_audit, path)
    return [
        *page,
        ui.fact_tiles(
            ("Recall", format_percent(found.recall.value) if found.recall.total else "–"),
            ("Precision", format_percent(found.precision.value) if found.precision.total else "–"),
            ("Required recall", format_percent(found.asked)),
            ("Documents sampled", f"{found.sampled:,}"),
        ),
        ui.note(
            f"{describe_interval('Recall', found.recall)} "
            f"{describe_interval('Precision', found.precision)} "
            f""
            f"{found.advice.capitalize()}."
        ),
        _chart(found),
        ui.table(
            "Recall of pairs at or above the threshold, by similarity",
            ("Similarity", "Pairs", "Recall", "Interval", "Predicted"),
            [
                (
                    f"{one.low:.2f} to {one.high:.2f}",
                    f"{one.recall.total:,}",
                    format_percent(one.recall.value) if one.recall.total else "–",
                    f"{format_percent(one.recall.low)} to {format_percent(one.recall.high)}"
                    if one.recall.total
                    else "–",
                    format_percent(one.predicted),
                )
                for one in found.bins
            ],
            numbers=(1, 2, 3, 4),
        ),
    ]


def read_audit(path: Path) -> Audit:
    """Reads the result of an audit.

    Raises:
        UsageError: If the file is not the output of `nearkin audit --json`.
    """
    try:
        record = json.loads(path.read_bytes())
        found: Audit = restore_dataclass(
            Audit, {name: value for name, value in record.items() if name != "metrics"}
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not the output of nearkin audit --json: {error}") from error
    return found


def describe_interval(name: str, share: Proportion) -> str:
    """Returns a sentence with a confidence interval.

    Args:
        name: Name of the measure.
        share: The measured proportion.

    Examples:
        >>> describe_interval("Recall", Proportion.from_counts(95, 100))
        'Recall is 88.8% to 97.8% of 100, at 95% confidence.'
    """
    if not share.total:
        return f"{name} was not measured: the sample has no such pairs."
    return (
        f"{name} is {format_percent(share.low)} to {format_percent(share.high)} of "
        f"{share.total:,}, at 95% confidence."
    )


def _chart(found: Audit) -> Component:
    measured = [one for one in found.bins if one.recall.total]
    x = [(one.low + one.high) / 2 for one in measured]
    spread = {
        "type": "data",
        "symmetric": False,
        "color": charts.BLUE,
        "array": [one.recall.high - one.recall.value for one in measured],
        "arrayminus": [one.recall.value - one.recall.low for one in measured],
    }
    y = [one.recall.value for one in measured]
    points = charts.line_trace(
        "Measured, with its interval",
        x,
        y,
        charts.BLUE,
        mode="markers",
        error_y=spread,
        marker={"size": 8},
    )
    middles = [(one.low + one.high) / 2 for one in found.bins]
    curve = charts.line_trace(
        "Predicted by the S-curve and the margin",
        middles,
        [one.predicted for one in found.bins],
        charts.ORANGE,
    )
    lowest = min(
        [one.predicted for one in found.bins] + [one.recall.low for one in measured], default=0.9
    )
    return charts.make_chart(
        "audit-recall",
        "Recall by similarity",
        f"Recall of {found.recall.total:,} pairs by similarity, measured and predicted",
        [curve, points],
        xaxis=charts.make_axis("similarity"),
        yaxis=charts.make_axis("", tickformat=".0%", range=[min(0.9, lowest) - 0.01, 1.01]),
    )


PAGE = Page("audit", "Audit", "admin", build, every_scope=True)
