"""The page of an audit: the output of `nearkin audit --json`."""

import json
from collections.abc import Mapping
from pathlib import Path

from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.quality.evaluate.audit import Audit
from nearkin.quality.evaluate.intervals import Proportion
from nearkin.quality.evaluate.recall import RecallBin
from nearkin.reports.model import restore_dataclass
from nearkin.runtime.number_format import format_percent
from nearkin.service.server.console import charts
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page."""
    page = ui.page_heading(
        "Audit",
        "Precision and recall of a whole run, measured on a sample of its documents.",
    )
    path = visit.service.settings.audit
    if path is None:
        advice = (
            "There is no audit yet. Run nearkin audit RUN --json > audit.json, and start the "
            "server with --audit audit.json."
        )
        return [*page, ui.note(advice)]
    audit = await visit.service.run_in_thread(read_audit, path)
    return [
        *page,
        ui.fact_tiles(
            ("Recall", format_share(audit.recall)),
            ("Precision", format_share(audit.precision)),
            ("Required recall", format_percent(audit.asked)),
            ("Documents sampled", f"{audit.sampled:,}"),
        ),
        ui.note(
            f"{describe_interval('Recall', audit.recall)} "
            f"{describe_interval('Precision', audit.precision)} "
            f"{audit.advice.capitalize()}."
        ),
        _recall_chart(audit),
        ui.table(
            "Recall of pairs at or above the threshold, by similarity",
            ("Similarity", "Pairs", "Recall", "Interval", "Predicted"),
            [
                (
                    f"{similarity_bin.low:.2f} to {similarity_bin.high:.2f}",
                    f"{similarity_bin.recall.total:,}",
                    format_share(similarity_bin.recall),
                    format_interval(similarity_bin.recall),
                    format_percent(similarity_bin.predicted),
                )
                for similarity_bin in audit.bins
            ],
            numbers=(1, 2, 3, 4),
        ),
    ]


def format_share(share: Proportion) -> str:
    """Returns a measured proportion as a percentage, or a dash if nothing was measured."""
    if not share.total:
        return "–"
    return format_percent(share.value)


def format_interval(share: Proportion) -> str:
    """Returns the confidence interval of a proportion, or a dash if nothing was measured."""
    if not share.total:
        return "–"
    return f"{format_percent(share.low)} to {format_percent(share.high)}"


def read_audit(path: Path) -> Audit:
    """Reads the result of an audit."""
    try:
        record = json.loads(path.read_bytes())
        record.pop("metrics", None)
        recalls = [entry["recall"] for entry in record["bins"]]
        for counted in (record["precision"], record["recall"], *recalls):
            if "value" not in counted:  # version 0.1.0 wrote counts alone
                counted["value"] = Proportion.from_counts(counted["hits"], counted["total"]).value
        audit: Audit = restore_dataclass(Audit, record)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise UsageError(f"{path} is not the output of nearkin audit --json: {error}") from error
    return audit


def describe_interval(name: str, share: Proportion) -> str:
    """Returns a sentence with a confidence interval.

    Examples:
        >>> describe_interval("Recall", Proportion.from_counts(95, 100))
        'Recall is 88.8% to 97.8% of 100, at 95% confidence.'
    """
    if not share.total:
        return f"{name} was not measured: the sample has no such pairs."
    return f"{name} is {format_interval(share)} of {share.total:,}, at 95% confidence."


def _recall_chart(audit: Audit) -> Component:
    """Returns a chart of the measured and the predicted recall by similarity."""
    measured = [similarity_bin for similarity_bin in audit.bins if similarity_bin.recall.total]
    errors = {
        "type": "data",
        "symmetric": False,
        "color": charts.BLUE,
        "array": [measure.recall.high - measure.recall.value for measure in measured],
        "arrayminus": [measure.recall.value - measure.recall.low for measure in measured],
    }
    points = charts.line_trace(
        "Measured, with its interval",
        [_middle_of_bin(measure) for measure in measured],
        [measure.recall.value for measure in measured],
        charts.BLUE,
        mode="markers",
        error_y=errors,
        marker={"size": 8},
    )
    predicted = [similarity_bin.predicted for similarity_bin in audit.bins]
    curve = charts.line_trace(
        "Predicted by the S-curve and the margin",
        [_middle_of_bin(similarity_bin) for similarity_bin in audit.bins],
        predicted,
        charts.ORANGE,
    )
    lowest = min([*predicted, *(measure.recall.low for measure in measured)], default=0.9)
    return charts.make_chart(
        "audit-recall",
        "Recall by similarity",
        f"Recall of {audit.recall.total:,} pairs by similarity, measured and predicted",
        [curve, points],
        xaxis=charts.make_axis("similarity"),
        yaxis=charts.make_axis("", tickformat=".0%", range=[min(0.9, lowest) - 0.01, 1.01]),
    )


def _middle_of_bin(similarity_bin: RecallBin) -> float:
    return (similarity_bin.low + similarity_bin.high) / 2


PAGE = Page("audit", "Audit", "admin", build, every_scope=True)
