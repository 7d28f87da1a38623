"""Prints the summary of a finished run over passages on a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from nearkin.corpus.rejects import count_reasons, describe_rejections
from nearkin.reports.formatting import format_bytes
from nearkin.reports.model import LinesReport
from nearkin.reports.terminal.summary_lines import Results, SummaryLines
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.runtime.visible_text import make_visible
from nearkin.texts.passages.cutting.request import CutCounts, CutRequest, CutUnit
from nearkin.texts.passages.lines.request import Counted, LinesRequest

SHOWN_CHARACTERS = 200
"""The largest number of characters that are shown of a passage."""
REJECTED = "rejected.jsonl"
"""The file of the rejected rows of an output."""
OUTPUT_FILES = (
    "passages.parquet",
    "repeated_lines.parquet",
    "kept",
    "cuts.parquet",
)
"""The files of an output that a summary lists before the rejected rows and the report."""


def print_passages(
    counts: Mapping[str, int],
    least: int,
    token: str,
    cut: CutRequest | None,
    frequent: Sequence[Mapping[str, object]],
    warnings: Sequence[str],
    output: Path,
    console: Console,
) -> None:
    """Prints how much of a corpus is repeated, its most frequent passage, and the results."""
    facts = [
        f"{format_count(counts['passages'], 'passage')} of at least {least} {token}s "
        f"({counts['different_passages']:,} different) in "
        f"{counts['documents_with_passages']:,} of {format_count(counts['documents'], 'document')}"
    ]
    if cut is not None:
        names = [item.name for item in fields(CutCounts)]
        facts += describe_cuts(CutCounts(**{name: counts[name] for name in names}), cut, token)
    details = [_describe_passage(row, token, console.width) for row in frequent[:1]]
    print_result(describe_passages(counts), facts, details, counts, warnings, output, console)


def describe_passages(counts: Mapping[str, int]) -> str:
    """Returns how much of a corpus is repeated, in one line."""
    share = counts["repeated_bytes"] / max(counts["text_bytes"], 1)
    return (
        f"{format_percent(share)} of the text ({format_bytes(counts['repeated_bytes'])} of "
        f"{format_bytes(counts['text_bytes'])}) occurs more than once"
    )


def print_repeated_lines(
    counts: Mapping[str, int],
    request: LinesRequest,
    warnings: Sequence[str],
    output: Path,
    console: Console,
) -> None:
    """Prints how many lines are repeated, what was cut, and the output files."""
    headline, *facts = describe_lines_report(report_lines(counts, request), counts["documents"])
    print_result(headline, facts, [], counts, warnings, output, console)


def report_lines(counts: Mapping[str, int], request: LinesRequest) -> LinesReport:
    """Returns what a run found and cut of repeated lines."""
    cuts = None
    if request.is_cut:
        cuts = CutCounts(**{item.name: counts[item.name] for item in fields(CutCounts)})
    return LinesReport(
        unit=str(request.unit),
        least=request.least,
        counted=str(request.counted),
        action=str(request.action),
        repeated_lines=counts["repeated_lines"],
        repeated_places=counts["repeated_places"],
        counts=cuts,
    )


def describe_lines_report(lines: LinesReport, documents: int) -> list[str]:
    """Returns how many lines are repeated, and what was cut, in sentences."""
    described = [describe_lines(lines, documents)]
    if lines.counts is not None:
        counts = lines.counts
        described.append(_describe_parts(counts.cuts, counts.documents_cut, counts.cut_bytes))
    return described


def describe_lines(lines: LinesReport, documents: int) -> str:
    """Returns how many lines are repeated, in one line."""
    verb = "occurs" if lines.repeated_lines == 1 else "occur"
    where = f"in at least {lines.least:,} of"
    if lines.counted == Counted.PLACES:
        where = f"at least {lines.least:,} times in"
    return (
        f"{format_count(lines.repeated_lines, f'different {lines.unit}')} {verb} {where} "
        f"{format_count(documents, 'document')}, at {format_count(lines.repeated_places, 'place')}"
    )


def print_result(
    headline: str,
    facts: Sequence[str],
    details: Sequence[str],
    counts: Mapping[str, int],
    warnings: Sequence[str],
    output: Path,
    console: Console,
) -> None:
    """Prints the summary of a run over passages."""
    rejections, files = list_rejections(counts["rejected"], output)
    SummaryLines(
        headline=headline,
        facts=facts,
        details=details,
        warnings=[*rejections, *warnings],
        results=Results(output, [*OUTPUT_FILES, *files, "report.html"]),
    ).print(console)


def list_rejections(rejected: int, output: Path) -> tuple[list[str], list[str]]:
    """Returns a sentence about the rejected rows and the name of their file, if there are any."""
    if not rejected:
        return [], []
    return [describe_rejections(rejected, count_reasons(output / REJECTED))], [REJECTED]


def describe_cuts(counts: CutCounts, request: CutRequest, token: str) -> list[str]:
    """Returns what was cut from documents, and which ones were removed, in sentences."""
    described = []
    if request.unit != CutUnit.DOCUMENT:
        described.append(_describe_parts(counts.cuts, counts.documents_cut, counts.cut_bytes))
    if counts.documents_removed:
        removed = format_count(counts.documents_removed, "document")
        verb = "was" if counts.documents_removed == 1 else "were"
        reason = f"with fewer than {format_count(request.min_left, token)} left"
        if request.unit == CutUnit.DOCUMENT:
            reason = f"of which {format_percent(request.share)} or more is repeated"
        described.append(
            f"{removed} {reason} {verb} removed ({format_bytes(counts.removed_bytes)})"
        )
    return described


def _describe_parts(parts: int, documents: int, size: int) -> str:
    verb = "was" if parts == 1 else "were"
    return (
        f"{format_count(parts, 'part')} {verb} cut from {format_count(documents, 'document')} "
        f"({format_bytes(size)})"
    )


def _describe_passage(row: Mapping[str, object], token: str, width: int) -> str:
    """Returns a passage with its numbers in one line. A long text is cut, a number is not."""
    numbers = f"Most frequent: {row['places']:,} places, {row['tokens']:,} {token}s: "
    text = " ".join(make_visible(str(row["text"])[: 4 * SHOWN_CHARACTERS]).split())
    room = max(min(width - len(numbers), SHOWN_CHARACTERS), 10)
    return numbers + (text if len(text) <= room else f"{text[: room - 1]}…")
