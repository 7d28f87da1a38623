"""Prints the summary of a finished decontamination on a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from nearkin.reports.terminal.passages import list_rejections
from nearkin.reports.terminal.summary_lines import Results, SummaryLines
from nearkin.runtime.number_format import format_count, format_percent

SUITES_SHOWN = 3
"""The number of suites that are shown, those with the largest shares first."""
OUTPUT_FILES = (
    "hits.parquet",
    "suites.parquet",
    "kept",
    "cuts.parquet",
)
"""The files of an output that a summary lists before the rejected rows and the report."""


def describe_decontamination(counts: Mapping[str, int]) -> str:
    """Returns how many items are in documents, in one line."""
    verb = "is" if 1 in (counts["contaminated_items"], counts["items"]) else "are"
    return (
        f"{counts['contaminated_items']:,} of {format_count(counts['items'], 'item')} {verb} in "
        f"{counts['contaminated_documents']:,} of {format_count(counts['documents'], 'document')}"
    )


def print_decontamination(
    counts: Mapping[str, int],
    suites: Sequence[Mapping[str, object]],
    warnings: Sequence[str],
    output: Path,
    console: Console,
    next_command: Sequence[str] = (),
) -> None:
    """Prints how many items of each suite are in documents, and the results."""
    facts = []
    if "cuts" in counts:
        parts = format_count(counts["cuts"], "part")
        verb = "was" if counts["cuts"] == 1 else "were"
        documents = format_count(counts["documents_cut"], "document")
        facts.append(f"{parts} {verb} cut from {documents}")
    elif counts.get("documents_removed"):
        removed = format_count(counts["documents_removed"], "document")
        verb = "was" if counts["documents_removed"] == 1 else "were"
        facts.append(f"{removed} {verb} removed")
    rejections, files = list_rejections(counts["rejected"], output)
    SummaryLines(
        headline=describe_decontamination(counts),
        facts=facts,
        details=_describe_suites(suites),
        warnings=[*rejections, *warnings],
        results=Results(output, [*OUTPUT_FILES, *files, "report.html"]),
        next_command=next_command,
    ).print(console)


def _describe_suites(suites: Sequence[Mapping[str, object]]) -> list[str]:
    """Returns a sentence about each of the suites with the largest shares."""
    shown = sorted(suites, key=lambda row: (-float(str(row["share"])), str(row["suite"])))
    lines = [
        f"{row['suite']}: {row['contaminated_items']:,} of {row['items']:,} items "
        f"({format_percent(float(str(row['share'])))}) in {row['documents']:,} documents"
        for row in shown[:SUITES_SHOWN]
    ]
    if len(suites) > SUITES_SHOWN:
        lines[-1] += f"; {format_count(len(suites) - SUITES_SHOWN, 'more suite')} in suites.parquet"
    return lines
