"""Repeated lines of files: their table, and the documents without them."""

import shutil
from pathlib import Path

from nearkin.corpus import FileCorpus
from nearkin.engine import result_tables
from nearkin.reports.files import REPORT_PAGE, write_page
from nearkin.reports.passages_page import render_lines_page
from nearkin.reports.repeated_lines import describe_lines
from nearkin.runs.passage_cuts import write_cut_documents
from nearkin.texts.passages.cutting.run import CutTexts
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import REPEATED_LINES, LineRun, count_lines
from nearkin.texts.passages.run import REJECTED

LINES_TABLE = "repeated_lines.parquet"
"""The table of the repeated lines or paragraphs."""


def write_lines_table(run: LineRun, folder: Path) -> None:
    """Writes the table of repeated lines."""
    result_tables.write_batches(folder / LINES_TABLE, REPEATED_LINES, run.line_batches())


def write_repeated_lines(
    title: str, run: LineRun, request: LinesRequest, corpus: FileCorpus, folder: Path
) -> dict[str, int]:
    """Writes the result of a run into an empty folder, and returns its counts."""
    write_lines_table(run, folder)
    page = render_lines_page(title, describe_lines(run, request))
    write_page(folder / REPORT_PAGE, page)
    if request.is_cut:
        write_cut_documents(CutTexts(run), corpus, folder)
    shutil.copyfile(run.work.path / REJECTED, folder / REJECTED)
    return count_lines(run, request)
