"""Prints the summary of a finished run on a terminal."""

from pathlib import Path
from textwrap import indent

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.quality.evaluate.lost_share import LostShare
from nearkin.quality.evaluate.template_families import TemplateFamilies
from nearkin.reports.formatting import format_bytes
from nearkin.reports.model import ReportData
from nearkin.reports.row_categories import categorize_rows
from nearkin.reports.terminal.passages import print_cuts, print_lines_report
from nearkin.runtime.number_format import format_percent, format_similarity
from nearkin.runtime.shell_quoting import join_command
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.spec import HAMMING
from nearkin.stages.winnowing import TOKEN_NAMES
from nearkin.texts.passages.cutting.request import CutRequest

OUTPUT_FILES = (
    ("kept documents", "kept"),
    ("clusters", "clusters.parquet"),
    ("pairs", "pairs.parquet"),
    ("repeated lines", "repeated_lines.parquet"),
    ("cut parts", "cuts.parquet"),
    ("related documents", "related.parquet"),
    ("rejected rows", "rejected.jsonl"),
    ("settings", "settings.toml"),
    ("report", "report.html"),
    ("run record", "run.json"),
)
"""The names and the paths of the files of an output, in the order in which they are listed."""
WITHOUT_WORDS = ("cosine", HAMMING)
"""The measures of documents that are not texts, which `nearkin explain` cannot compare."""
SKELETON_CHARACTERS = 100
"""The number of characters of a skeleton that are shown."""
LEAST_COMPILATION = 0.05
"""The shortest compilation of kernels that is shown, in seconds."""


def print_summary(
    data: ReportData, console: Console, output: Path | None = None, *, can_explain: bool = True
) -> None:
    """Prints the headline, the numbers of rows by category, the warnings and the output files.

    The summary ends with what to do next: open the report, and look at the closest call.
    """
    console.print()
    console.print(Text(data.headline, style="bold"))
    console.print(_category_table(data))
    if data.chosen:
        console.print(Text(f"Chosen for these documents: {data.chosen}."))
    for note in data.counts.list_notes():
        console.print(Text(note))
    if data.lost is not None and data.lost.total.worst:
        console.print(Text(_describe_lost(data.lost.total)))
    if data.passages is not None:
        request = CutRequest.parse(data.passages.cut, data.passages.min_left)
        print_cuts(data.passages.counts, request, TOKEN_NAMES[data.passages.unit], console)
    if data.lines is not None:
        print_lines_report(data.lines, data.counts.kept, console)
    if data.doubtful is not None:
        console.print(Text(f"Doubtful removals: {data.doubtful.describe()}"))
    if data.templates is not None:
        console.print(Text(_describe_templates(data.templates)))
    if data.total_seconds:
        console.print(Text(_describe_speed(data), style="dim"))
    if data.compile_seconds >= LEAST_COMPILATION:
        compilation = f"kernels compiled in {data.compile_seconds:,.1f} s, once on this machine"
        console.print(Text(compilation, style="dim"))
    for warning in data.all_warnings:
        console.print(Text.assemble(("warning ", "yellow"), make_visible(warning)))
    if output is not None:
        console.print(_output_table(output))
        _print_next_steps(data, console, output, can_explain=can_explain)


def _print_next_steps(
    data: ReportData, console: Console, output: Path, *, can_explain: bool
) -> None:
    page = output / "report.html"
    console.print()
    if page.exists():
        console.print(Text(f"Next: open {make_visible(str(page))}"), soft_wrap=True)
    call = data.closest_call
    if call is None or not can_explain or data.parameters.measure in WITHOUT_WORDS:
        return
    similarity = format_similarity(call.similarity)
    console.print(Text(f"The closest call has similarity {similarity}; compare both texts:"))
    ids = [call.kept, call.removed]
    arguments = [*ids, "--run", str(output)]
    if any(id.startswith("-") for id in ids):
        # It would be taken for an option.
        arguments = ["--run", str(output), "--", *ids]
    width = console.width - 2 if console.is_terminal else None
    command = join_command(["nearkin", "explain", *arguments], width)
    console.print(Text(indent(command, "  "), style="bold"), soft_wrap=True)


def _category_table(data: ReportData) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for category in categorize_rows(data):
        table.add_row(category.name, f"{category.rows:,}", format_percent(category.share))
    return table


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
        f"{make_visible(skeleton)}"
    )


def _describe_speed(data: ReportData) -> str:
    rate = data.counts.read / data.total_seconds
    speed = f"{data.total_seconds:,.2f} s, {rate:,.0f} documents/s"
    if data.peak_memory:
        speed += f", peak memory {format_bytes(data.peak_memory)}"
    return speed


def _output_table(output: Path) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, file in OUTPUT_FILES:
        path = output / file
        if path.exists():
            style = "bold" if name == "report" else ""
            table.add_row(Text(name), Text(make_visible(str(path)), style=style, overflow="fold"))
    return table
