"""Excel workbooks as inputs, and their kept copies."""

import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.formats.base import ValueForm
from nearkin.corpus.stored_values import store_texts
from nearkin.errors import MissingExtraError, RunError, UsageError
from tests.cli.conftest import run
from tests.corpus.formats.excel_files import read_cells, write_workbook, write_xml
from tests.corpus.formats.kept_copies import (
    deduplicate,
    deduplicate_to_lines,
    read_reasons,
    read_texts,
)
from tests.corpus.formats.record_files import TEXTS

HEADER = ["id", "text", "born"]
ROWS = [HEADER, *([i, text, date(1990, 1, 1 + i)] for i, text in enumerate(TEXTS))]


def test_kept_copies_have_the_values_of_the_input(tmp_path: Path) -> None:
    copy = deduplicate(write_workbook(tmp_path / "a.xlsx", ROWS), "--id", "id")
    assert read_cells(copy) == [ROWS[at] for at in (0, 1, 3, 5)]


def test_kept_file_is_the_copy_of_one_workbook(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", ROWS)
    assert run("dedup", path, "--out", tmp_path / "b.xlsx", "--quiet") == app.DONE
    assert read_cells(tmp_path / "b.xlsx") == [ROWS[at] for at in (0, 1, 3, 5)]


def test_values_are_texts_in_files_of_another_format(tmp_path: Path) -> None:
    rows = deduplicate_to_lines(write_workbook(tmp_path / "a.xlsx", ROWS))
    assert rows[1] == {"id": "2", "text": TEXTS[2], "born": "1990-01-03"}


def test_rows_of_other_files_become_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text\n=1+1,"a, b"\n')
    assert run("dedup", path, "--out", tmp_path / "b.xlsx", "--quiet") == app.DONE
    assert read_cells(tmp_path / "b.xlsx") == [["id", "text"], ["=1+1", "a, b"]]


def test_columns_are_added(tmp_path: Path) -> None:
    copy = deduplicate(write_workbook(tmp_path / "a.xlsx", ROWS), "--id", "id", "--annotate")
    rows = read_cells(copy)
    assert rows[0][:3] == HEADER
    added = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    assert added["cluster"] == ("0", "0", "2", "2", "4", "4")
    assert added["kept"] == (True, False) * 3


def test_texts_can_be_cut(tmp_path: Path) -> None:
    rows = [["text"], [" ".join(f"w{i}" for i in range(200))], ["a " + ROWS[1][1]]]
    rows.append([f"{rows[1][0]} end"])
    path = write_workbook(tmp_path / "a.xlsx", rows)
    corpus = FileCorpus.open([str(path)])
    writer = corpus.format_of(corpus.files[0]).writer(
        corpus.files[0], Columns(), str(tmp_path / "b.xlsx")
    )
    for part in corpus.read_slices(0, Columns(), whole=True):
        texts = store_texts(_texts(["new", None, None]), ValueForm.OBJECT)
        changed = writer.replace_values(part.complete_rows, "text", texts)
        writer.write(writer.select(changed, part.rows >= 0, None))
    writer.close()
    assert read_cells(tmp_path / "b.xlsx") == [["text"], ["new"], *rows[2:]]


def _texts(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.large_string())


def test_workbook_is_an_input_of_the_library(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", ROWS)
    result = nk.dedup(path, id="id")
    assert result.kept.tolist() == [True, False] * 3


def test_blank_rows_are_not_rows_and_faults_name_the_row_of_the_sheet(tmp_path: Path) -> None:
    rows = [[], ["id", "text"], ["1", "a"], [], ["2", "b", "c"], ["3", "d"]]
    path = write_workbook(tmp_path / "a.xlsx", rows)
    assert read_texts(path) == ["a", "d"]
    assert read_reasons(path) == [
        "the row has a value in column C, which has no name in the header"
    ]
    with pytest.raises(RunError, match=r"a\.xlsx, line 5: the row has a value in column C"):
        nk.dedup(path, on_error="fail")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", [["name", "text", "name"], ["a", "b", "c"]])
    with pytest.raises(UsageError, match=r"columns A and C are both named 'name' in row 1; rename"):
        nk.dedup(path)


def test_unknown_column_is_an_error_before_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_workbook(tmp_path / "a.xlsx", ROWS)
    assert run("dedup", path, "--text", "txt", "--out", tmp_path / "out") == app.USAGE
    assert "did you mean 'text'?" in capsys.readouterr().err


def test_other_sheets_and_merged_cells_are_named(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"People": ROWS, "Old": ROWS, "Empty": []})
    (doubt,) = FileCorpus.open([str(path)]).describe_doubts(Columns())
    assert doubt.startswith("read the sheet 'People' of 'a.xlsx' and not 'Old'; to read another")
    rows = '<row r="1"><c r="A1" t="str"><v>text</v></c></row><row r="2"><c><v>5</v></c></row>'
    after = '<mergeCells><mergeCell ref="A2:A3"/></mergeCells>'
    path = write_xml(tmp_path / "b.xlsx", rows, after=after)
    (doubt,) = FileCorpus.open([str(path)]).describe_doubts(Columns())
    assert doubt.startswith("'b.xlsx' has merged cells (A2:A3), of which only the first one has")


def test_rows_before_damage_are_read(tmp_path: Path) -> None:
    rows = "".join(f'<row><c r="A{line}" t="str"><v>text</v></c></row>' for line in range(1, 5000))
    path = write_xml(tmp_path / "a.xlsx", rows + '<row r="5000"><c r="?"/></row>')
    assert set(read_texts(path)) == {"text"}
    assert "cannot be read from row" in read_reasons(path)[0]
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    with pytest.raises(UsageError, match="not a complete Excel workbook"):
        nk.dedup(path)


def test_empty_sheet_has_no_documents(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", [["text"]])
    assert read_texts(path) == []
    with pytest.raises(UsageError, match="no column 'text'"):
        nk.dedup(write_workbook(tmp_path / "b.xlsx", []))


def test_compressed_workbook_is_refused(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", ROWS).rename(tmp_path / "a.xlsx.gz")
    with pytest.raises(UsageError, match=r"the parts of \.xlsx files are compressed"):
        nk.dedup(path)


def test_missing_library_is_named_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_workbook(tmp_path / "a.xlsx", ROWS)
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(MissingExtraError, match=r"\.\[excel\]"):
        nk.dedup(path)
