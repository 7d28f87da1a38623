"""Repeated lines of files: their table, and the documents without them."""

import shutil
from pathlib import Path

from nearkin.corpus import FileCorpus
from nearkin.reports.files import REPORT_PAGE, write_page
from nearkin.reports.passages_page import render_lines_page
from nearkin.reports.repeated_lines import describe_lines
from nearkin.runs.passage_cuts import write_cut_documents, write_lines_table
from nearkin.texts.passages.cutting.run import CutTexts
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import LineRun, count_lines
from nearkin.texts.passages.run import REJECTED


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
