"""Writing of Excel workbooks."""

import zipfile
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest

from nearkin.runtime import excel_writer
from nearkin.runtime.excel_writer import SheetWriter, format_value
from tests.corpus.formats.excel_files import read_cells


def write(path: Path, *rows: list[object]) -> Path:
    writer = SheetWriter(str(path), ["a"])
    for row in rows:
        writer.write_row(row)
    writer.close()
    return path


def test_values_are_read_again(tmp_path: Path) -> None:
    row = [
        "a", 1, 0.1, True, date(2026, 5, 1), datetime(2026, 5, 1, 8, 30), datetime(2026, 5, 1),
        time(8, 30), timedelta(hours=30), "_x0041_", "a\x01b", " lead\r\n", "é😀",
    ]  # fmt: skip
    assert read_cells(write(tmp_path / "a.xlsx", row))[1] == row


def test_values_that_excel_does_not_have_are_texts(tmp_path: Path) -> None:
    row = [
        10**16, float("inf"), date(1800, 1, 1), datetime(2026, 5, 1, tzinfo=UTC),
        timedelta(-1), {"a": 1}, [1],
    ]  # fmt: skip
    texts = [
        "10000000000000000", "inf", "1800-01-01", "2026-05-01 00:00:00+00:00", "-24:00:00",
        '{"a":1}', "[1]",
    ]  # fmt: skip
    assert read_cells(write(tmp_path / "a.xlsx", row))[1] == texts


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "{=1}", "http://a.b", "\t=1"])
def test_texts_are_never_formulas_or_links(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", [text])
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    assert b"<f>" not in sheet
    assert b"hyperlink" not in sheet
    assert b't="inlineStr"' in sheet
    assert read_cells(path)[1] == [text]


def test_equal_rows_become_equal_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, ["x", 1]) for name in ("a.xlsx", "b.xlsx")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_limits_of_a_sheet_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_cells(write(tmp_path / "a.xlsx", ["x" * 32_767]))[1] == ["x" * 32_767]
    with pytest.raises(ValueError, match="row 2 has 32,768 characters in column A"):
        write(tmp_path / "a.xlsx", ["x" * 32_768])
    monkeypatch.setattr(excel_writer, "MAX_ROWS", 2)
    with pytest.raises(ValueError, match="at most 2 rows; write"):
        write(tmp_path / "a.xlsx", ["a"], ["b"])
    monkeypatch.setattr(excel_writer, "MAX_COLUMNS", 0)
    with pytest.raises(ValueError, match="at most 0 columns"):
        write(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (50000.0, "50000"),
        (-1.5, "-1.5"),
        (123456789012345.0, "123456789012345"),
        (time(8, 30), "08:30:00"),
        (datetime(2026, 5, 1, 8, 30, 0, 5000), "2026-05-01 08:30:00.005000"),
    ],
)
def test_texts_of_values_do_not_depend_on_the_language(value: object, text: str) -> None:
    assert format_value(value) == text
