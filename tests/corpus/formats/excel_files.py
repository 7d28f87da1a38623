"""Excel workbooks for tests, from rows of values or from raw XML."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xlsxwriter

from nearkin.runtime.excel_workbook import Workbook

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
Rows = Sequence[Sequence[Any]]


def write_workbook(path: Path, sheets: Rows | Mapping[str, Rows]) -> Path:
    """Writes a workbook with shared texts, as Excel does. Texts with = are formulas."""
    if not isinstance(sheets, Mapping):
        sheets = {"Sheet1": sheets}
    with xlsxwriter.Workbook(str(path), {"default_date_format": "dd/mm/yyyy"}) as workbook:
        for name, rows in sheets.items():
            sheet = workbook.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return path


def write_xml(
    path: Path,
    rows: str,
    *,
    shared: str = "",
    formats: str = "",
    workbook: str = "",
    after: str = "",
    prefix: str = "",
) -> Path:
    """Writes a workbook whose sheet has raw XML."""
    kinds = ("worksheet", "sharedStrings", "styles")
    targets = ("worksheets/sheet1.xml", "/xl/sharedStrings.xml", "styles.xml")
    links = "".join(
        f'<Relationship Id="r{kind}" Type="{KINDS}/{kind}" Target="{target}"/>'
        for kind, target in zip(kinds, targets, strict=True)
    )
    colon = f"{prefix}:" if prefix else ""
    space = f"xmlns:{prefix}" if prefix else "xmlns"
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{KINDS}">{workbook}<sheets>'
        '<sheet name="S" sheetId="1" r:id="rworksheet"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{LINKS}">{links}</Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{shared}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}">{formats}</styleSheet>',
        "xl/worksheets/sheet1.xml": f'<{colon}worksheet {space}="{MAIN}"><{colon}sheetData>'
        f"{rows}</{colon}sheetData>{after}</{colon}worksheet>",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def read_cells(path: Path, sheet: int = 0) -> list[list[Any]]:
    """Returns the values of a sheet, without empty rows, with None for empty cells."""
    with path.open("rb") as file:
        workbook = Workbook(file, path.name, 1 << 20)
        rows = list(workbook.rows(workbook.sheets[sheet]))
    width = max((max(row.values) for row in rows), default=-1) + 1
    return [[row.values.get(column) for column in range(width)] for row in rows]
