"""Tests of the detection of delimiters and encodings of CSV files, and of the options."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.corpus import Columns, FileCorpus
from nearkin.errors import RunError, UsageError
from nearkin.runs.api import dedup
from nearkin.runtime.dialect import (
    SAMPLE_BYTES,
    detect_delimiter,
    detect_dialect,
    detect_encoding,
    parse_delimiter,
    parse_encoding,
)
from tests.corpus.samples import copy_all_rows, read_file, run_command, run_dedup_on

ROWS = [
    ("id", "text"),
    ("1", "Größe und Farbe, sehr schön"),
    ("2", "a; b | c"),
    ("3", 'a "quoted" text\nof two lines'),
    ("4", "déjà vu à la carte — “quoted”…"),
]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]


def write_rows(
    path: Path,
    delimiter: str,
    encoding: str,
    line_end: str = "\r\n",
    rows: list[tuple[str, str]] = ROWS,
) -> bytes:
    """Writes rows as the csv module does. Returns the bytes of the file."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, lineterminator=line_end).writerows(rows)
    path.write_bytes(buffer.getvalue().encode(encoding))
    return path.read_bytes()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_dialect_is_detected_and_preserved(
    delimiter: str, encoding: str, line_end: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    data = write_rows(file, delimiter, encoding, line_end)
    texts, rejected = read_file(file, Columns(id="id"))
    assert texts == [text for _, text in ROWS[1:]]
    assert not rejected
    assert copy_all_rows(file, Columns(), tmp_path / "out") == data


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "cp1251", "shift_jis"])
def test_options_name_the_dialect(delimiter: str, encoding: str, tmp_path: Path) -> None:
    text = {"cp1251": "мама мыла раму", "shift_jis": "日本語のテキスト"}.get(encoding, "Größe")
    file = tmp_path / "a.csv"
    data = write_rows(file, delimiter, encoding, rows=[("text", "n"), (text, "1")])
    columns = Columns(delimiter=delimiter, encoding=parse_encoding(encoding))
    assert read_file(file, columns) == ([text], [])
    assert copy_all_rows(file, columns, tmp_path / "out") == data


def test_single_column_keeps_the_delimiter_of_the_suffix() -> None:
    assert detect_delimiter("text\none; two\nthree; four\n", ",") == ","
    assert detect_delimiter("text\none; two\n", "\t") == "\t"
    assert detect_delimiter("", ",") == ","


def test_delimiter_of_the_suffix_wins_if_several_fit() -> None:
    text = "a;b,text\n1;2,one\n3;4,two\n"
    assert detect_delimiter(text, ",") == ","
    assert detect_delimiter(text.replace(",", "\t"), "\t") == "\t"


def test_row_that_the_sample_cuts_does_not_count() -> None:
    assert detect_delimiter("a;b;c\n1;2;3\n4;5", ",", complete=False) == ";"


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30)),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([",", ";", "\t", "|"]),
)
def test_delimiter_of_written_rows_is_detected(
    rows: list[tuple[str, str, str]], delimiter: str
) -> None:
    """The header has no other delimiter, so only the one that was written splits it."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter).writerows([("id", "title", "body"), *rows])
    assert detect_delimiter(buffer.getvalue(), ",") == delimiter


@settings(max_examples=300)
@given(st.text())
def test_utf8_is_never_taken_for_windows_1252(text: str) -> None:
    data = text.encode("utf-8", "replace")
    assert detect_encoding(data) != "cp1252"


@pytest.mark.parametrize(
    "data",
    [
        b"text\nfine\n\xff\n",
        "text\nschön, größer\n".encode() + b"caf\xe9\n",
        "text\nмама мыла раму\n".encode("cp1251"),
        "text\n日本語のテキスト\n".encode("shift_jis"),
        b"text\n\x81\x8d\n",
        b"",
        b"text\nwith \x00 inside\n",
    ],
)
def test_damaged_or_unknown_text_stays_utf8(data: bytes) -> None:
    assert detect_encoding(data) == "utf-8"


def test_character_at_the_end_of_the_sample_is_not_damage() -> None:
    sample = (b"text\n" + b"x" * SAMPLE_BYTES)[: SAMPLE_BYTES - 1] + "é".encode()[:1]
    assert detect_encoding(sample) == "utf-8"


def test_detection_reads_a_bounded_beginning(tmp_path: Path) -> None:
    """Text that is not ASCII only after the sample does not change the encoding."""
    file = tmp_path / "a.csv"
    rows = b"".join(b"row %d,plain text\n" % at for at in range(SAMPLE_BYTES // 16))
    assert len(rows) > SAMPLE_BYTES
    file.write_bytes(b"text,note\n" + rows + b"caf\xe9,last\n")
    texts, rejected = read_file(file)
    assert len(texts) == SAMPLE_BYTES // 16
    assert [entry.reason.partition(":")[0] for entry in rejected] == ["the row is not valid UTF-8"]


@settings(max_examples=200)
@given(st.binary(max_size=200), st.sampled_from([None, *ENCODINGS]))
def test_any_bytes_have_a_dialect(data: bytes, encoding: str | None) -> None:
    dialect = detect_dialect(data, ",", None, parse_encoding(encoding))
    assert len(dialect.delimiter) == 1
    data.decode(dialect.encoding, "replace")


@pytest.mark.parametrize("text", ["", ";;", '"', "\n", " ", "é", "komma"])
def test_invalid_delimiter_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="semicolon"):
        parse_delimiter(text)


@pytest.mark.parametrize("text", ["", "utf-9", "base64", "zip", "rot13", "utf\x008"])
def test_unknown_encoding_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a known text encoding"):
        parse_encoding(text)


def test_rejected_rows_name_their_line(tmp_path: Path) -> None:
    """Lines count from 1, with the header and the line ends within quotes, as an editor does."""
    file = tmp_path / "a.csv"
    data = 'id,text\n1,"two\nlines"\n\n2\n3,"open\n4,four\n5\n'
    file.write_text(data)
    rejected = read_file(file)[1]
    lines = data.splitlines()
    assert [(entry.line, lines[entry.line - 1]) for entry in rejected] == [
        (5, "2"),
        (6, '3,"open'),
        (8, "5"),
    ]
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n\n{"text": 3}\n{"text"\n')
    assert [entry.line for entry in read_file(tmp_path / "a.jsonl")[1]] == [3, 4]


def test_rejected_lines_are_in_the_quarantine_and_in_errors(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,fine\n2\n3,also fine\n")
    run_dedup_on([str(tmp_path / "a.csv")], tmp_path / "out")
    entry = json.loads((tmp_path / "out" / "rejected.jsonl").read_text())
    assert (entry["row"], entry["line"]) == (1, 3)
    with pytest.raises(RunError, match=r"a\.csv, line 3: the row has 1 values"):
        dedup(tmp_path / "a.csv", on_error="fail")
    rejected = dedup(tmp_path / "a.csv").rejected
    assert rejected["line"].to_pylist() == [3]


def test_guessed_encoding_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text\nGröße und Farbe\n".encode("cp1252"))
    corpus = FileCorpus.open([str(tmp_path / "a.csv")])
    assert "'a.csv' as Windows-1252" in corpus.describe_doubts(Columns())[0]
    assert corpus.describe_doubts(Columns(encoding="cp1252")) == []
    assert corpus.describe_files(Columns()) == "Inputs: 1 .csv file (Windows-1252)"


def test_dialect_is_an_option_of_the_command_and_the_library(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    data = "text#n\r\nмама мыла раму#1\r\nпапа читал книгу#2\r\n".encode("cp1251")
    file.write_bytes(data)
    options = ["--delimiter", "#", "--encoding", "windows-1251"]
    assert run_command("dedup", file, *options, "--out", tmp_path / "out") == 0
    assert (tmp_path / "out" / "kept" / "a.csv").read_bytes() == data
    request = json.loads((tmp_path / "out" / "run.json").read_text())["columns"]
    assert (request["delimiter"], request["encoding"]) == ("#", "cp1251")
    result = dedup(file, delimiter="#", encoding="windows-1251")
    assert len(result) == 2
