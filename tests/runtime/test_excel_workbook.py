"""The sheets of Excel workbooks."""

import tracemalloc
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.runtime.excel_workbook import (
    NumberKind,
    Workbook,
    classify_number_format,
    convert_number,
    name_column,
    parse_column,
)
from tests.corpus.formats.excel_files import read_cells, write_workbook, write_xml

MIB = 1 << 20


def test_values_have_their_types(tmp_path: Path) -> None:
    row = ["a", 1.5, True, datetime(2026, 5, 1), "", 'a & <b> "c"', "line\nend", "é😀", "a\x01b"]
    path = write_workbook(tmp_path / "a.xlsx", [row])
    expected = ["a", 1.5, True, date(2026, 5, 1), None, 'a & <b> "c"', "line\nend", "é😀", "a\x01b"]
    assert read_cells(path) == [expected]


def test_texts_in_parts_are_joined_without_their_pronunciation(tmp_path: Path) -> None:
    shared = (
        "<si><r><t>one </t></r><r><t>two</t></r><rPh sb='0' eb='1'><t>wan</t></rPh></si>"
        "<si><t>three</t></si>"
    )
    rows = (
        '<row r="3"><c r="B3" t="s"><v>0</v></c><c t="s"><v>1</v></c></row>'
        '<row><c r="A4" t="inlineStr"><is><t>in</t></is></c><c t="e"><v>#N/A</v></c></row>'
        '<row r="9"><c r="A9" s="0"/></row>'
    )
    path = write_xml(tmp_path / "a.xlsx", rows, shared=shared)
    assert read_cells(path) == [[None, "one two", "three"], ["in", "#N/A", None]]


def test_tags_with_a_prefix_are_read(tmp_path: Path) -> None:
    rows = '<x:row r="1"><x:c r="A1"><x:v>5</x:v></x:c></x:row>'
    assert read_cells(write_xml(tmp_path / "a.xlsx", rows, prefix="x")) == [[5.0]]


def test_formulas_have_the_value_that_was_computed(tmp_path: Path) -> None:
    rows = '<row r="1"><c r="A1" t="str"><f>"a"&amp;"b"</f><v>ab</v></c><c><f>1+1</f></c></row>'
    assert read_cells(write_xml(tmp_path / "a.xlsx", rows)) == [["ab"]]


def test_years_from_1904_are_read(tmp_path: Path) -> None:
    formats = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    rows = '<row r="1"><c r="A1" s="1"><v>0</v></c></row>'
    path = write_xml(
        tmp_path / "a.xlsx", rows, formats=formats, workbook='<workbookPr date1904="1"/>'
    )
    assert read_cells(path) == [[date(1904, 1, 1)]]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("General", NumberKind.NUMBER),
        ("#,##0.00 [$€-407]", NumberKind.NUMBER),
        ('0 "days"', NumberKind.NUMBER),
        ("[Red]0.0;[Blue]-0.0", NumberKind.NUMBER),
        ("0.00E+00", NumberKind.NUMBER),
        ("yyyy-mm-dd", NumberKind.DATE),
        ("[$-409]mmm\\ d", NumberKind.DATE),
        ("dd/mm/yyyy hh:mm", NumberKind.DATE_TIME),
        ("h:mm AM/PM", NumberKind.TIME),
        ("mm:ss.0", NumberKind.TIME),
        ("[h]:mm:ss", NumberKind.ELAPSED),
    ],
)
def test_number_formats_are_classified(code: str, kind: NumberKind) -> None:
    assert classify_number_format(code) is kind


@pytest.mark.parametrize(
    ("number", "kind", "value"),
    [
        (1.0, NumberKind.DATE, date(1900, 1, 1)),
        (61.0, NumberKind.DATE, date(1900, 3, 1)),
        (45658.25, NumberKind.DATE, datetime(2025, 1, 1, 6)),
        (45658.0, NumberKind.DATE_TIME, datetime(2025, 1, 1)),
        (0.75, NumberKind.TIME, time(18)),
        (1.25, NumberKind.ELAPSED, timedelta(hours=30)),
        (-5.0, NumberKind.DATE, -5.0),
        (1e300, NumberKind.DATE, 1e300),
        (float("inf"), NumberKind.DATE, float("inf")),
    ],
)
def test_numbers_become_dates_of_any_program(
    number: float, kind: NumberKind, value: object
) -> None:
    assert convert_number(number, kind, datetime(1899, 12, 30)) == value


def test_columns_have_letters() -> None:
    assert all(parse_column(name_column(column)) == column for column in range(1 << 14))


def test_hidden_sheets_are_not_read(tmp_path: Path) -> None:
    sheets = {"Notes": [["a"]], "People": [["b"]], "Empty": []}
    path = write_workbook(tmp_path / "a.xlsx", sheets)
    with path.open("rb") as file:
        workbook = Workbook(file, "a.xlsx", MIB)
        assert [sheet.name for sheet in workbook.sheets] == list(sheets)
        assert workbook.list_others() == ["People"]
    content = {}
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    hidden = content["xl/workbook.xml"].replace(b'name="Notes"', b'name="Notes" state="hidden"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, hidden if name == "xl/workbook.xml" else part)
    assert read_cells(path) == [["b"]]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ('<row r="1048577"><c><v>1</v></c></row>', "more than 1,048,576 rows"),
        ('<row r="1"><c r="XFE1"><v>1</v></c></row>', "more than 16,384 columns"),
        ('<row r="1">' + "<c/>" * 16_385 + "</row>", "more than 16,384 columns"),
        ('<row r="1"><c r="é1"><v>1</v></c></row>', "column 'é' of a cell is not valid"),
        (f'<row r="1"><c {"x" * (5 * MIB)}="1"/></row>', "a tag of .* has more than"),
        ('<row r="1"><c><v>' + "1" * (2 * MIB) + "</v></c></row>", "a text has more than"),
    ],
)
def test_sheets_beyond_the_limits_are_refused(rows: str, problem: str, tmp_path: Path) -> None:
    path = write_xml(tmp_path / "a.xlsx", rows)
    with pytest.raises(ValueError, match=problem):
        read_cells(path)


def test_expanding_parts_are_refused_before_they_are_in_memory(tmp_path: Path) -> None:
    texts = write_xml(tmp_path / "texts.xlsx", "", shared="<si/>" * MIB)
    spaces = write_xml(tmp_path / "spaces.xlsx", " " * (9 * MIB))
    for path in (texts, spaces):
        assert path.stat().st_size < MIB // 10
        tracemalloc.start()
        with pytest.raises(UsageError, match="bytes unpacked; save the sheet as CSV"):
            read_cells(path)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        tracemalloc.stop()


def test_repeated_texts_take_the_memory_of_one(tmp_path: Path) -> None:
    rows = "".join(f'<row><c r="A{line}" t="s"><v>0</v></c></row>' for line in range(1, 2001))
    path = write_xml(tmp_path / "a.xlsx", rows, shared=f"<si><t>{'x' * 500_000}</t></si>")
    tracemalloc.start()
    assert len(read_cells(path)) == 2000
    assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    tracemalloc.stop()


def test_entities_are_refused(tmp_path: Path) -> None:
    path = write_xml(tmp_path / "a.xlsx", "")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["xl/worksheets/sheet1.xml"] = b'<!DOCTYPE a [<!ENTITY b "c">]><worksheet/>'
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    with pytest.raises(ValueError, match="declares a document type"):
        read_cells(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xd0\xcf\x11\xe0" + bytes(100), r"an old workbook \(.xls\), or has a password"),
        (b"id,text\n1,a\n", "not a complete Excel workbook"),
        (b"", "not a complete Excel workbook"),
    ],
)
def test_other_files_are_named(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=problem):
        read_cells(path)


def test_archives_without_a_workbook_or_a_sheet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(UsageError, match="is not an Excel workbook"):
        read_cells(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(UsageError, match="no visible sheet"):
        read_cells(path)
