"""The files of a report in an output folder: report.json and report.html. Both quote documents."""

import json
from pathlib import Path
from typing import Any

from nearkin.errors import UsageError
from nearkin.reports.model import ReportData
from nearkin.runtime.files import PRIVATE_FILE, to_json, write_durably

REPORT_DATA = "report.json"
REPORT_PAGE = "report.html"


def write_report(folder: Path, data: ReportData, mode: int = PRIVATE_FILE) -> None:
    """Writes the data of a report and its page."""
    # `nearkin pairs` shares this module and writes no page.
    from nearkin.reports.page import render_page

    write_durably(folder / REPORT_DATA, to_json(data.to_dict()), mode)
    write_page(folder / REPORT_PAGE, render_page(data), mode)


def write_page(path: Path, page: str, mode: int = PRIVATE_FILE) -> None:
    """Writes the page of a report. Texts of documents may hold characters that UTF-8 cannot."""
    write_durably(path, page.encode("utf-8", "backslashreplace"), mode)


def read_report(folder: Path) -> ReportData:
    """Reads the data of a report."""
    try:
        if (folder / REPORT_DATA).exists():
            report: Any = json.loads((folder / REPORT_DATA).read_bytes())
        else:
            # nearkin 0.1 kept the report in run.json
            report = json.loads((folder / "run.json").read_bytes())["report"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(
            f"{folder} does not contain a report ({error}); run nearkin dedup again"
        ) from error
    return ReportData.from_dict(report)
