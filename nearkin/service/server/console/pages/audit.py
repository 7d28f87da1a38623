"""The page of an audit: the output of `nearkin audit --json`."""

import json
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from nearkin.errors import UsageError
from nearkin.quality.evaluate.audit import Audit
from nearkin.quality.evaluate.intervals import Proportion
from nearkin.reports import charts
from nearkin.reports.charts import draw_recall
from nearkin.reports.model import restore_dataclass
from nearkin.reports.similarity_bins import name_bin
from nearkin.runs.run_record import RUN, read_run_record
from nearkin.runtime.number_format import format_percent
from nearkin.service.server.console.markup import render
from nearkin.service.server.console.visitor import Page, Visit
from nearkin.service.server.settings import ServerSettings


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page."""
    settings = visit.service.settings
    audit = None
    if settings.audit is not None:
        audit = await visit.service.run_in_thread(read_audit, settings.audit)
    elif settings.run is not None:
        audit = await visit.service.run_in_thread(read_run_audit, settings.run)
    bins = () if audit is None else audit.bins
    rows = [
        (
            name_bin(similarity_bin.low, similarity_bin.high),
            f"{similarity_bin.recall.total:,}",
            format_share(similarity_bin.recall),
            format_interval(similarity_bin.recall),
            format_percent(similarity_bin.predicted),
        )
        for similarity_bin in bins
    ]
    return render(
        "audit.html",
        audit=audit,
        rows=rows,
        chart=None if audit is None else draw_recall(audit),
        size=charts,
        share=format_share,
        describe=describe_interval,
    )


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


def read_run_audit(folder: Path) -> Audit | None:
    """Reads the result of the audit of a run, or returns None if the run was not audited."""
    record = read_run_record(folder / RUN).audit
    if record is None:
        return None
    audit: Audit = restore_dataclass(Audit, dict(record))
    return audit


def has_audit(settings: ServerSettings) -> bool:
    """Returns True if the server was started with an audit to show."""
    return settings.audit is not None or settings.run is not None


def describe_interval(name: str, share: Proportion) -> str:
    """Returns a sentence with a confidence interval.

    Examples:
        >>> describe_interval("Recall", Proportion.from_counts(95, 100))
        'Recall is 88.8% to 97.8% of 100, at 95% confidence.'
    """
    if not share.total:
        return f"{name} was not measured: the sample has no such pairs."
    return f"{name} is {format_interval(share)} of {share.total:,}, at 95% confidence."


PAGE = Page("audit", "Audit", "admin", build, every_scope=True, is_offered=has_audit)
