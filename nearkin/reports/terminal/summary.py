"""Prints the summary of a finished run on a terminal."""

from pathlib import Path

from rich.console import Console

from nearkin.quality.evaluate.doubtful_removals import DoubtfulRemovals
from nearkin.quality.evaluate.lost_share import LostShare
from nearkin.quality.evaluate.template_families import TemplateFamilies
from nearkin.reports.formatting import format_bytes
from nearkin.reports.model import MergeReport, ReportData
from nearkin.reports.terminal.passages import describe_cuts, describe_lines_report
from nearkin.reports.terminal.summary_lines import Results, SummaryLines
from nearkin.reports.warning_choice import WITH_JSON
from nearkin.runtime.number_format import format_percent
from nearkin.settings.spec import HAMMING
from nearkin.stages.winnowing import TOKEN_NAMES
from nearkin.texts.passages.cutting.request import CutRequest

OUTPUT_FILES = (
    "kept",
    "removed.parquet",
    "clusters.parquet",
    "related.parquet",
    "repeated_lines.parquet",
    "cuts.parquet",
)
"""The files of an output that a summary lists before the rejected rows and the report."""
WITHOUT_WORDS = ("cosine", HAMMING)
"""The measures of documents that are not texts, which `nearkin explain` cannot compare."""
SKELETON_CHARACTERS = 100
"""The number of characters of a skeleton that are shown."""


def print_summary(
    data: ReportData,
    console: Console,
    output: Path | None = None,
    *,
    can_explain: bool = True,
    kept_file: str | None = None,
) -> None:
    """Prints what a run did in at most eight lines.

    The last line is the command that compares the removed document that is least similar to its
    kept one with it, if its documents are texts.

    Args:
        data: Data of the report of the run.
        console: Terminal or file.
        output: Output folder of the run, or None if it is temporary.
        can_explain: True if the inputs can be read again.
        kept_file: File of the kept documents if it is not in the folder, as a user calls it.
    """
    results = None
    command: list[str] = []
    facts = _describe_changes(data)
    if output is not None:
        rejected = ["rejected.jsonl"] if data.counts.rejected else []
        results = Results(output, [*OUTPUT_FILES, *rejected, "report.html"], kept_file)
        command = _explain_closest_call(data, output) if can_explain else []
    elif kept_file is not None:
        facts.append(f"Results in {kept_file}")
    SummaryLines(
        headline=data.headline,
        facts=facts,
        details=_list_details(data),
        speed=_describe_speed(data) if data.total_seconds else "",
        warnings=data.all_warnings,
        more_warnings=place_of_warnings(output),
        results=results,
        next_command=command,
    ).print(console)


def place_of_warnings(output: Path | None) -> str:
    """Returns where all warnings of a run are, for its summary."""
    return WITH_JSON if output is None else f"in {output / 'report.html'}"


def _describe_changes(data: ReportData) -> list[str]:
    """Returns what was changed in the kept documents, if that was asked for."""
    facts: list[str] = []
    if data.passages is not None:
        request = CutRequest.parse(data.passages.cut, data.passages.min_left)
        facts += describe_cuts(data.passages.counts, request, TOKEN_NAMES[data.passages.unit])
    if data.lines is not None:
        facts += describe_lines_report(data.lines, data.counts.kept)
    if data.merged is not None:
        facts.append(_describe_merged(data.merged))
    return facts


def _describe_merged(merged: MergeReport) -> str:
    """Returns how many values kept rows got from their clusters."""
    columns = ", ".join(f"{column.column} {column.count:,}" for column in merged.columns)
    rows = "row" if merged.rows == 1 else "rows"
    return f"Values from clusters are in {merged.rows:,} kept {rows} ({columns})."


def _list_details(data: ReportData) -> list[str]:
    """Returns further sentences about a run, the most important ones first."""
    details = []
    if data.chosen:
        details.append(f"Chosen for these documents: {data.chosen}.")
    if data.doubtful is not None and data.doubtful.doubtful:
        details.append(_describe_doubtful(data.doubtful))
    details += data.counts.list_notes()
    if data.lost is not None and data.lost.total.worst:
        details.append(_describe_lost(data.lost.total))
    if data.templates is not None:
        details.append(_describe_templates(data.templates))
    return details


def _explain_closest_call(data: ReportData, output: Path) -> list[str]:
    """Returns the command that compares the two documents of the closest call, if there is one."""
    call = data.closest_call
    if call is None or data.parameters.measure in WITHOUT_WORDS:
        return []
    ids = [call.kept, call.removed]
    if any(id.startswith("-") for id in ids):
        # It would be taken for an option.
        return ["nearkin", "explain", "--run", str(output), "--", *ids]
    return ["nearkin", "explain", *ids, "--run", str(output)]


def _describe_doubtful(doubtful: DoubtfulRemovals) -> str:
    wrong = doubtful.wrong
    return (
        f"Doubtful: {doubtful.doubtful:,} of {doubtful.examined:,} examined removals; "
        f"expected to be wrong: {wrong.mean:.0%} ({wrong.low:.0%} to {wrong.high:.0%})."
    )


def _describe_lost(lost: LostShare) -> str:
    """Returns what removed documents lost: the shingles that the kept ones lack."""
    return (
        f"Removed documents lost {format_percent(lost.mean)} of their shingles on average, and at "
        f"most {format_percent(lost.worst)}."
    )


def _describe_templates(templates: TemplateFamilies) -> str:
    largest = templates.largest[0]
    skeleton = largest.skeleton
    if len(skeleton) > SKELETON_CHARACTERS:
        skeleton = f"{skeleton[:SKELETON_CHARACTERS]}…"
    families = "family" if templates.families == 1 else "families"
    return (
        f"{templates.documents:,} of {templates.examined:,} examined documents are in "
        f"{templates.families:,} template {families}; the largest has {largest.documents:,}: "
        f"{skeleton}"
    )


def _describe_speed(data: ReportData) -> str:
    rate = data.counts.read / data.total_seconds
    speed = f"{data.total_seconds:,.2f} s, {rate:,.0f} documents/s"
    if data.peak_memory:
        speed += f", peak memory {format_bytes(data.peak_memory)}"
    return speed
