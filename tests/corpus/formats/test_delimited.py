"""Tests of CSV and TSV: quotes, line ends, invalid rows and added columns."""

import csv
import gzip
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats.delimited import HEADER_LIMIT
from nearkin.errors import UsageError
from tests.corpus.samples import copy_all_rows, read_corpus, read_file, run_command

MIXED_REMEDY = "encoding='utf-8,windows-1252' reads such rows"


def test_rows_with_a_wrong_number_of_values_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,fine\n2\n3,a,b\n4,\xff\n5,"two\nlines"\n6,\n')
    rows, rejected = read_corpus(FileCorpus.open([str(tmp_path / "a.csv")]), Columns(id="id"))
    assert [(row["id"], row["text"]) for row in rows] == [
        ("1", "fine"),
        ("5", "two\nlines"),
        ("6", ""),
    ]
    assert [(entry.row, entry.reason) for entry in rejected] == [
        (1, "the row has 1 values instead of 2"),
        (2, "the row has 3 values instead of 2"),
        (3, f"the row is not valid UTF-8: byte 3 is 0xFF; {MIXED_REMEDY}"),
    ]


def test_header_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id,text," + b"a" * (8 * HEADER_LIMIT) + b"\n1,one\n"))
    corpus = FileCorpus.open([str(path)])
    corpus.check(Columns())
    tracemalloc.start()
    rows, rejected = read_corpus(corpus, Columns(document_limit=1 << 20))
    assert tracemalloc.get_traced_memory()[1] < 4 * HEADER_LIMIT
    tracemalloc.stop()
    assert not rows
    assert "the header is not valid" in rejected[0].reason


def test_header_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    data = "text,größe\nfine,1\nalso fine,2\nschön,3\n".encode("latin-1")
    (tmp_path / "a.csv").write_bytes(data)
    columns = Columns(encoding="utf-8")
    texts, rejected = read_file(tmp_path / "a.csv", columns)
    assert texts == ["fine", "also fine"]
    assert [(entry.row, entry.reason) for entry in rejected] == [
        (2, f"the row is not valid UTF-8: byte 4 is 0xF6; {MIXED_REMEDY}")
    ]
    assert (
        copy_all_rows(tmp_path / "a.csv", columns, tmp_path / "out") == data[: data.index(b"sch")]
    )
    with pytest.raises(UsageError, match="no column 'größe'"):
        FileCorpus.open([str(tmp_path / "a.csv")]).check(Columns(text="größe", encoding="utf-8"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_are_preserved(line_end: str, tmp_path: Path) -> None:
    data = line_end.join(
        ["\ufeffid,text", "1,one", '2,"two', 'lines, and ""quotes"""', "3,three", ""]
    ).encode()
    (tmp_path / "a.csv").write_bytes(data)
    texts, rejected = read_file(tmp_path / "a.csv", Columns(id="id"))
    assert texts == ["one", f'two{line_end}lines, and "quotes"', "three"]
    assert not rejected
    assert copy_all_rows(tmp_path / "a.csv", Columns(), tmp_path / "out") == data


def test_null_bytes_are_read_and_copied(tmp_path: Path) -> None:
    data = b"text,n\nwith \x00 inside,1\nwithout,2\n"
    (tmp_path / "a.csv").write_bytes(data)
    assert read_file(tmp_path / "a.csv")[0] == ["with \x00 inside", "without"]
    assert copy_all_rows(tmp_path / "a.csv", Columns(), tmp_path / "out") == data


def test_unclosed_quote_rejects_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,one\n2,"open\n3,three\n4,"",\n5,five\n')
    texts, rejected = read_file(tmp_path / "a.csv")
    assert texts == ["one", "three", "five"]
    assert [(entry.row, entry.reason) for entry in rejected] == [
        (1, "the row has a quote that is not closed"),
        (3, "the row has 3 values instead of 2"),
    ]


def test_unclosed_quote_is_bounded_by_the_limit(tmp_path: Path) -> None:
    rows = "".join(f"{at},text number {at}\n" for at in range(2000))
    (tmp_path / "a.csv").write_text(f'id,text\n-1,"open\n{rows}')
    texts, rejected = read_file(tmp_path / "a.csv", Columns(document_limit=1000))
    assert texts == [f"text number {at}" for at in range(2000)]
    assert [entry.row for entry in rejected] == [0]
    assert ("longer than 1,000 bytes, or it has a quote that is not closed") in rejected[0].reason


def test_line_without_end_is_bounded_by_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"text\nfirst\n{'x' * 100_000}\nlast\n")
    texts, rejected = read_file(tmp_path / "a.csv", Columns(document_limit=1000))
    assert texts == ["first", "last"]
    assert [(entry.row, len(entry.raw)) for entry in rejected] == [(1, 200)]


def test_added_columns_follow_unchanged_rows(tmp_path: Path) -> None:
    data = b'id,text\r\n1,"a ""b"""\r\n2,plain'
    (tmp_path / "a.csv").write_bytes(data)
    corpus = FileCorpus.open([str(tmp_path / "a.csv")])
    added = pa.record_batch([pa.array(['x,"y"', None]), pa.array([True, False])], ["cluster", "id"])
    (tmp_path / "out").mkdir()
    write_kept(
        corpus,
        Columns(),
        np.ones(2, bool),
        tmp_path / "out",
        lambda start, end: added.slice(start, end - start),
    )
    want = b'id,text,cluster,nearkin_id\r\n1,"a ""b""","x,""y""",true\r\n2,plain,,false\r\n'
    assert (tmp_path / "out" / "a.csv").read_bytes() == want


CELLS = st.text(st.sampled_from(list('ab,"\n \t\x00é')), max_size=6)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(CELLS, CELLS), max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans()
)
def test_rows_are_read_as_python_writes_them(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    line_end: str,
    quote_all: bool,
) -> None:
    """Every row is a document, and kept files have the same values, in quotes if they need them."""
    buffer = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    csv.writer(buffer, lineterminator=line_end, quoting=quoting).writerows([("id", "text"), *rows])
    path = tmp_path_factory.mktemp("case")
    file = path / "a.csv"
    file.write_bytes(buffer.getvalue().encode())
    texts, rejected = read_file(file)
    assert texts == [text for _, text in rows]
    assert not rejected
    copied = copy_all_rows(file, Columns(), path / "out").decode()
    read = csv.reader(io.StringIO(copied, newline=""))
    assert list(read) == [["id", "text"], *map(list, rows)]
    assert quote_all or copied == buffer.getvalue()


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=12), max_size=8))
def test_every_row_is_a_document_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """No row is lost and no exception is raised, whatever the bytes are."""
    folder = tmp_path_factory.mktemp("case")
    (folder / "a.csv").write_bytes(b"text\n" + b"\n".join(lines))
    texts, rejected = read_file(folder / "a.csv")
    numbers = sorted(entry.row for entry in rejected)
    assert len(set(numbers)) == len(numbers)
    assert copy_all_rows(folder / "a.csv", Columns(), folder / "out").count(b"\n") >= len(texts)


def test_row_whose_only_text_becomes_empty_is_still_a_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text\r\none\r\ntwo\r\n")
    corpus = FileCorpus.open([str(tmp_path / "a.csv")])
    kept = np.ones(2, bool)
    new_texts = pa.array(["", None], pa.large_string())
    write_kept(corpus, Columns(), kept, tmp_path / "out", rewrite=lambda *_: new_texts)
    assert (tmp_path / "out" / "a.csv").read_bytes() == b'text\r\n""\r\ntwo\r\n'
    assert read_file(tmp_path / "out" / "a.csv")[0] == ["", "two"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("first", "delimiter"),
    [("sep=;", ";"), ("\ufeffSEP=|", "|"), ('"sep=,"', ","), ("sep=\t", "\t")],
)
def test_line_that_names_the_delimiter_is_not_the_header(
    first: str, delimiter: str, line_end: str, tmp_path: Path
) -> None:
    rows = [["id", "text"], ["1", "one; two | three"], ["2", '"a""b"'], ["3", "four"]]
    data = line_end.join([first, *map(delimiter.join, rows), ""]).encode()
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    texts, rejected = read_file(path, Columns(id="id", delimiter=delimiter))
    if delimiter not in rows[1][1]:
        corpus = FileCorpus.open([str(path)])
        corpus.check(Columns(id="id"))
        found, _ = read_corpus(corpus, Columns(id="id"))
        assert [(row["id"], row["text"], row["at"][1]) for row in found] == [
            ("1", "one; two | three", 0),
            ("2", 'a"b', 1),
            ("3", "four", 2),
        ]
        assert copy_all_rows(path, Columns(), tmp_path / "out") == data
    else:
        # The value is not quoted.
        assert texts == ['a"b', "four"]
        assert [(entry.row, entry.line) for entry in rejected] == [(0, 3)]


def test_file_of_excel_is_one_file_with_its_first_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"sep=;\nid;text\n{name};the text of {name}\n")
    out = tmp_path / "kept.csv"
    assert run_command("dedup", tmp_path / "[ab].csv", "--id", "id", "--out", out) == 0
    assert out.read_text() == "sep=;\nid;text\na;the text of a\nb;the text of b\n"
    annotated = tmp_path / "out"
    assert run_command("dedup", tmp_path / "a.csv", "--annotate", "--out", annotated) == 0
    lines = (annotated / "kept" / "a.csv").read_text().splitlines()
    assert lines[:2] == ["sep=;", "id;text;cluster;kept;similarity;kind"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".txt"])
def test_rows_of_another_encoding_are_read_if_it_is_named(suffix: str, tmp_path: Path) -> None:
    text = "Größe und Café"
    contents = [text.encode(), text.encode("cp1252"), b"caf\xc3\xa9 \x81\xff"]
    match suffix:
        case ".csv":
            data = b"n,text\n" + b"".join(b"1," + content + b"\n" for content in contents)
        case ".jsonl":
            data = b"".join(b'{"text": "' + content + b'"}\n' for content in contents)
        case _:
            data = contents[1]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data)
    columns = Columns(encoding="utf-8,cp1252")
    texts, rejected = read_file(path, columns)
    if suffix == ".txt":
        assert (texts, rejected) == ([text], [])
        assert "byte 3 is 0xF6; " in read_file(path)[1][0].reason
    else:
        assert texts == [text] * 2
        assert [(entry.row, entry.line) for entry in rejected] == [
            (2, 4 if suffix == ".csv" else 3)
        ]
        assert "is 0x81; " in rejected[0].reason
        kept = tmp_path / "kept.parquet"
        encoding = ("--encoding", "utf-8,windows-1252")
        assert run_command("dedup", path, *encoding, "--out", kept) == 0
        assert pq.read_table(kept)["text"].to_pylist() == [text]
    copied = copy_all_rows(path, columns, tmp_path / "out")
    if suffix == ".csv":
        assert copied.decode() == "n,text\n" + 2 * f"1,{text}\n"
        return
    assert copied == data[: data.index(b"\x81")].rpartition(b"\n")[0] + b"\n" if rejected else data


def test_added_value_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = "schöne und große Worte in einem Satz, der lang genug ist"
    (tmp_path / "in" / "a.csv").write_bytes(f"id;text\n1;{text}\n".encode("cp1252"))
    (tmp_path / "in" / "b.csv").write_text(f"id;text\nя;{text}\n")
    options = ("--id", "id", "--annotate", "--keep", "id desc", "--out", tmp_path / "out")
    assert run_command("dedup", tmp_path / "in", *options) == app.DONE
    kept = (tmp_path / "out" / "kept" / "a.csv").read_bytes().decode("cp1252")
    assert "\\u044f" in kept
