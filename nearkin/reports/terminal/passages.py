"""Prints the summary of a finished run over passages on a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.corpus.rejects import count_reasons, describe_rejections
from nearkin.reports.formatting import format_bytes
from nearkin.reports.model import LinesReport
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.runtime.visible_text import make_visible
from nearkin.texts.passages.cutting.request import CutCounts, CutRequest, CutUnit
from nearkin.texts.passages.lines.request import Counted, LinesRequest

SHOWN = 5
"""The number of the most frequent passages that are shown."""
SHOWN_CHARACTERS = 60
REJECTED = "rejected.jsonl"
"""The file of the rejected rows of an output."""
OUTPUT_FILES = (
    ("passages", "passages.parquet"),
    ("documents", "documents.parquet"),
    ("frequent passages", "frequent.parquet"),
    ("sources", "sources.parquet"),
    ("repeated lines", "repeated_lines.parquet"),
    ("kept documents", "kept"),
    ("cut parts", "cuts.parquet"),
    ("rejected rows", "rejected.jsonl"),
    ("report", "report.html"),
    ("run record", "passages.json"),
)
"""The names and the paths of the files of an output, in the order in which they are listed."""


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
    """Prints how much of a corpus is repeated, the most frequent passages and the output files."""
    console.print()
    console.print(Text(describe_passages(counts), style="bold"))
    console.print(
        f"{format_count(counts['passages'], 'passage')} of at least {least} {token}s "
        f"({counts['different_passages']:,} different) in "
        f"{counts['documents_with_passages']:,} of {format_count(counts['documents'], 'document')}",
        highlight=False,
    )
    if frequent:
        console.print(_frequent_table(frequent[:SHOWN], token))
    if cut is not None:
        names = [item.name for item in fields(CutCounts)]
        print_cuts(CutCounts(**{name: counts[name] for name in names}), cut, token, console)
    print_end(counts, warnings, output, OUTPUT_FILES, console)


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
    console.print()
    print_lines_report(report_lines(counts, request), counts["documents"], console)
    print_end(counts, warnings, output, OUTPUT_FILES, console)


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


def print_lines_report(lines: LinesReport, documents: int, console: Console) -> None:
    """Prints how many lines are repeated, and what was cut."""
    console.print(describe_lines(lines, documents), highlight=False)
    if lines.counts is not None:
        counts = lines.counts
        _print_cut_parts(counts.cuts, counts.documents_cut, counts.cut_bytes, console)


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


def print_end(
    counts: Mapping[str, int],
    warnings: Sequence[str],
    output: Path,
    output_files: Sequence[tuple[str, str]],
    console: Console,
) -> None:
    """Prints the rejected rows, the warnings and the output files."""
    if counts["rejected"]:
        reasons = count_reasons(output / REJECTED)
        console.print(describe_rejections(counts["rejected"], reasons), highlight=False)
    for warning in warnings:
        console.print(Text.assemble(("warning ", "yellow"), make_visible(warning)))
    files = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, file in output_files:
        path = output / file
        if path.exists():
            files.add_row(Text(name), Text(make_visible(str(path)), overflow="fold"))
    console.print(files)


def print_cuts(counts: CutCounts, request: CutRequest, token: str, console: Console) -> None:
    """Prints what was cut from documents, and which ones were removed."""
    if request.unit != CutUnit.DOCUMENT:
        _print_cut_parts(counts.cuts, counts.documents_cut, counts.cut_bytes, console)
    if counts.documents_removed:
        removed = format_count(counts.documents_removed, "document")
        verb = "was" if counts.documents_removed == 1 else "were"
        reason = f"with fewer than {format_count(request.min_left, token)} left"
        if request.unit == CutUnit.DOCUMENT:
            reason = f"of which {format_percent(request.share)} or more is repeated"
        console.print(
            f"{removed} {reason} {verb} removed ({format_bytes(counts.removed_bytes)})",
            highlight=False,
        )


def _print_cut_parts(parts: int, documents: int, size: int, console: Console) -> None:
    verb = "was" if parts == 1 else "were"
    console.print(
        f"{format_count(parts, 'part')} {verb} cut from {format_count(documents, 'document')} "
        f"({format_bytes(size)})",
        highlight=False,
    )


def _frequent_table(frequent: Sequence[Mapping[str, object]], token: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("places", justify="right")
    table.add_column(f"{token}s", justify="right")
    table.add_column("most frequent passages", no_wrap=True, overflow="ellipsis")
    for row in frequent:
        text = " ".join(str(row["text"])[: 4 * SHOWN_CHARACTERS].split())[:SHOWN_CHARACTERS]
        table.add_row(f"{row['places']:,}", f"{row['tokens']:,}", Text(make_visible(text)))
    return table
