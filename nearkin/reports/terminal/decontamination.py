"""Prints the summary of a finished decontamination on a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.reports.terminal.passages import print_end
from nearkin.runtime.number_format import format_count, format_percent
from nearkin.runtime.visible_text import make_visible

SUITES_SHOWN = 20
OUTPUT_FILES = (
    ("items in documents", "hits.parquet"),
    ("items", "items.parquet"),
    ("suites", "suites.parquet"),
    ("contaminated documents", "documents.parquet"),
    ("kept documents", "kept"),
    ("cut parts", "cuts.parquet"),
    ("rejected rows", "rejected.jsonl"),
    ("report", "report.html"),
    ("run record", "run.json"),
)
"""The names and the paths of the files of an output, in the order in which they are listed."""


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
) -> None:
    """Prints how many items of each suite are in documents, and the output files."""
    console.print()
    console.print(Text(describe_decontamination(counts), style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("suite", overflow="fold")
    for name in ("items", "contaminated", "share", "documents"):
        table.add_column(name, justify="right")
    # The suites with the largest shares come first.
    shown = sorted(suites, key=lambda row: (-float(str(row["share"])), str(row["suite"])))
    for row in shown[:SUITES_SHOWN]:
        table.add_row(
            Text(make_visible(str(row["suite"]))),
            f"{row['items']:,}",
            f"{row['contaminated_items']:,}",
            format_percent(float(str(row["share"]))),
            f"{row['documents']:,}",
        )
    console.print(table)
    if len(suites) > SUITES_SHOWN:
        console.print(f"{len(suites) - SUITES_SHOWN:,} more suites are in suites.parquet")
    if "cuts" in counts:
        parts = format_count(counts["cuts"], "part")
        verb = "was" if counts["cuts"] == 1 else "were"
        documents = format_count(counts["documents_cut"], "document")
        console.print(f"{parts} {verb} cut from {documents}", highlight=False)
    elif counts.get("documents_removed"):
        removed = format_count(counts["documents_removed"], "document")
        verb = "was" if counts["documents_removed"] == 1 else "were"
        console.print(f"{removed} {verb} removed", highlight=False)
    print_end(counts, warnings, output, OUTPUT_FILES, console)
