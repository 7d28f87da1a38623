"""Tests that content of another format is recognized by its first bytes."""

import gzip
import zipfile
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.errors import UsageError
from tests.corpus.samples import read_texts, run_command

FOREIGN = {
    "sheet.xlsm": b"PK\x03\x04" + bytes(100),
    "scan.pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "image.bin": b"abc\0def",
    "lines.jsonl": gzip.compress(b'{"text": "a"}\n'),
    "table.csv": b"PK\x03\x04" + bytes(100),
    "wide.jsonl": '{"text": "a"}\n'.encode("utf-16"),
    "data.txt": b"PAR1" + bytes(50),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_content_of_another_format_is_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(FOREIGN[name])
    for command in ("dedup", "pairs", "lab sketch"):
        assert (
            run_command(*command.split(), tmp_path / name, "--out", tmp_path / "out") == app.USAGE
        )
        message = capsys.readouterr().err
        assert f"cannot read {tmp_path / name}: it holds " in message
        assert "nearkin reads .parquet" in message
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["customers.xlsm", "old.xls", "sheet.ods", "unnamed"])
def test_spreadsheet_is_an_error_that_says_what_to_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "old.xls":
        path.write_bytes(b"\xd0\xcf\x11\xe0" + bytes(100))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("[Content_Types].xml", "<Types/>")
            archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(UsageError, match=r"a spreadsheet; save it as \.xlsx, or its sheet as CSV"):
        nk.dedup(path)


def test_text_that_begins_like_another_format_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("PAR1,text\n1,a\n")
    (tmp_path / "b.txt").write_text("%PDF is a prefix")
    corpus = FileCorpus.open([str(tmp_path)])
    corpus.check(Columns())
    assert read_texts(corpus)[0] == ["a", "%PDF is a prefix"]
