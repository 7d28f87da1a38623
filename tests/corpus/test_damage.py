"""Tests that damaged files are read up to the damage, and that the rest is rejected."""

import csv
import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent

CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
ROWS = 20_000
RNG = np.random.default_rng(3)
WORDS = RNG.integers(0, 1 << 40, (ROWS, 3))
TEXTS = [" ".join(f"w{word:x}" for word in row) for row in WORDS.tolist()]
FORMS = {
    "jsonl": "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode(),
    "csv": ("text\n" + "".join(f"{text}\n" for text in TEXTS)).encode(),
}


def compressed(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


class Drops:
    """A file that returns one byte at a time, so that a codec loses no decompressed bytes."""

    closed = False

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 1))

    def close(self) -> None:
        pass


def decodable(codec: str, data: bytes) -> bytes:
    """Reads what precedes the damage, with a library of Python if it has one."""
    parts = []
    if codec == "gzip":
        tool = zlib.decompressobj(31)
        try:
            for at in range(len(data)):
                parts.append(tool.decompress(data[at : at + 1]))
        except zlib.error:
            pass
        return b"".join(parts)
    stream = pa.CompressedInputStream(pa.PythonFile(Drops(data), "r"), codec)
    try:
        while part := stream.read(1):
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)


def read(path: Path, columns: Columns = Columns()) -> tuple[list[str], list[Any]]:  # noqa: B008
    texts, rejected = [], []
    for batch in FileCorpus.open([str(path)]).batches(columns):
        texts += batch.documents["text"].to_pylist()
        rejected += batch.rejected
    return texts, rejected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("suffix", CODECS)
def test_rows_in_front_of_a_missing_end_are_kept(
    form: str, suffix: str, tmp_path: Path, full: bool
) -> None:
    """One byte is missing, or half of the file: every row that can be decompressed is read."""
    rows = ROWS if full else 4000
    plain = b"".join(FORMS[form].splitlines(keepends=True)[: rows + (form == "csv")])
    data = compressed(CODECS[suffix], plain)
    path = tmp_path / f"a.{form}{suffix}"
    for end in (len(data) - 1, len(data) // 2):
        path.write_bytes(data[:end])
        found = decodable(CODECS[suffix], data[:end])
        assert plain.startswith(found)
        whole = found[: found.rfind(b"\n") + 1].count(b"\n") - (form == "csv" and bool(found))
        texts, rejected = read(path)
        assert texts == TEXTS[: len(texts)]
        if len(found) < len(plain):
            assert len(texts) == max(whole, 0)
        assert len(rejected) == (0 if len(texts) == rows and not rejected else 1)
        if rejected:
            assert rejected[0].row == -1
            assert rejected[0].reason.startswith(
                f"the file cannot be read from row {len(texts)}"
                if texts
                else "the file cannot be read"
            )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("suffix", CODECS)
def test_rows_in_front_of_a_changed_byte_are_kept(form: str, suffix: str, tmp_path: Path) -> None:
    plain = b"".join(FORMS[form].splitlines(keepends=True)[:3000])
    data = bytearray(compressed(CODECS[suffix], plain))
    data[len(data) * 3 // 4] ^= 0xFF
    path = tmp_path / f"a.{form}{suffix}"
    path.write_bytes(data)
    found = decodable(CODECS[suffix], bytes(data))
    texts, rejected = read(path)
    rows = found[: found.rfind(b"\n") + 1].count(b"\n") - (form == "csv" and bool(found))
    assert len(texts) + sum(entry.row >= 0 for entry in rejected) == max(rows, 0)
    assert len(texts) < 3000 or not rejected


@pytest.mark.parametrize("suffix", CODECS)
def test_a_damaged_text_is_no_document(suffix: str, tmp_path: Path) -> None:
    """Half of a text is not that text."""
    data = compressed(CODECS[suffix], "\n".join(TEXTS[:3000]).encode())
    (tmp_path / f"a.txt{suffix}").write_bytes(data[:-9])
    texts, rejected = read(tmp_path / f"a.txt{suffix}")
    assert texts == []
    assert [entry.reason.startswith("the file cannot be read") for entry in rejected] == [True]


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2", ".lz4"])
def test_compressed_parts_one_after_another(suffix: str, tmp_path: Path) -> None:
    plain = FORMS["jsonl"][:200_001]
    plain = plain[: plain.rfind(b"\n") + 1]
    for cut in (1, 65_536, 100_003):
        path = tmp_path / f"a.jsonl{suffix}"
        path.write_bytes(
            compressed(CODECS[suffix], plain[:cut]) + compressed(CODECS[suffix], plain[cut:])
        )
        texts, rejected = read(path)
        assert texts == TEXTS[: plain.count(b"\n")]
        assert not rejected


def test_a_damaged_file_goes_through_a_whole_run(tmp_path: Path) -> None:
    lines = FORMS["jsonl"].splitlines(keepends=True)
    (tmp_path / "a.jsonl.gz").write_bytes(compressed("gzip", b"".join(lines[:9000]))[:-1])
    record = run_dedup(
        Job((str(tmp_path),), tmp_path / "out", Columns(), RunOptions(bands=10, rows=5)), Silent()
    )
    counts = record["counts"]
    assert counts["kept"] > 8990
    assert counts["rejected"] == 1
    kept = decodable("gzip", (tmp_path / "out" / "kept" / "a.jsonl.gz").read_bytes())
    assert kept == b"".join(lines[: counts["kept"]])


def kept_file(path: Path, columns: Columns, out: Path) -> bytes:
    """The copy of a file of which every document is kept."""
    corpus = FileCorpus.open([str(path)])
    documents = sum(len(batch.rows) for batch in corpus.batches(columns))
    out.mkdir(exist_ok=True)
    write_kept(corpus, columns, np.ones(documents, bool), out)
    return (out / path.name).read_bytes()


def test_a_latin_1_header(tmp_path: Path) -> None:
    data = "text,größe\nfine,1\nalso fine,2\nschön,3\n".encode("latin-1")
    (tmp_path / "a.csv").write_bytes(data)
    texts, rejected = read(tmp_path / "a.csv")
    assert texts == ["fine", "also fine"]
    assert [(entry.row, entry.reason) for entry in rejected] == [(2, "the row is not valid UTF-8")]
    assert kept_file(tmp_path / "a.csv", Columns(), tmp_path / "out") == data[: data.index(b"sch")]
    with pytest.raises(UsageError, match="no column 'größe'"):
        FileCorpus.open([str(tmp_path / "a.csv")]).check(Columns(text="größe"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_of_csv_stay(line_end: str, tmp_path: Path) -> None:
    data = line_end.join(
        ["\ufeffid,text", "1,one", '2,"two', 'lines, and ""quotes"""', "3,three", ""]
    ).encode()
    (tmp_path / "a.csv").write_bytes(data)
    texts, rejected = read(tmp_path / "a.csv", Columns(id="id"))
    assert texts == ["one", f'two{line_end}lines, and "quotes"', "three"]
    assert not rejected
    assert kept_file(tmp_path / "a.csv", Columns(), tmp_path / "out") == data


def test_nul_bytes_in_csv(tmp_path: Path) -> None:
    data = b"text,n\nwith \x00 inside,1\nwithout,2\n"
    (tmp_path / "a.csv").write_bytes(data)
    assert read(tmp_path / "a.csv")[0] == ["with \x00 inside", "without"]
    assert kept_file(tmp_path / "a.csv", Columns(), tmp_path / "out") == data


def test_a_quote_that_never_closes_costs_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,one\n2,"open\n3,three\n4,"",\n5,five\n')
    texts, rejected = read(tmp_path / "a.csv")
    assert texts == ["one", "three", "five"]
    assert [(entry.row, entry.reason) for entry in rejected] == [
        (1, "the row has a quote that is not closed"),
        (3, "the row has 3 values instead of 2"),
    ]


def test_a_quote_that_never_closes_is_bounded(tmp_path: Path) -> None:
    rows = "".join(f"{at},text number {at}\n" for at in range(2000))
    (tmp_path / "a.csv").write_text(f'id,text\n-1,"open\n{rows}')
    texts, rejected = read(tmp_path / "a.csv", Columns(document_limit=1000))
    assert texts == [f"text number {at}" for at in range(2000)]
    assert [entry.row for entry in rejected] == [0]
    assert ("longer than 1,000 characters, or it has a quote that is not closed") in rejected[
        0
    ].reason


def test_a_csv_line_without_end_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"text\nfirst\n{'x' * 100_000}\nlast\n")
    texts, rejected = read(tmp_path / "a.csv", Columns(document_limit=1000))
    assert texts == ["first", "last"]
    assert [(entry.row, len(entry.raw)) for entry in rejected] == [(1, 200)]


def test_annotated_csv_keeps_its_rows(tmp_path: Path) -> None:
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
def test_csv_is_read_as_python_writes_it(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    line_end: str,
    quote_all: bool,
) -> None:
    """Every row is a document; kept files are the inputs, byte for byte."""
    buffer = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    csv.writer(buffer, lineterminator=line_end, quoting=quoting).writerows([("id", "text"), *rows])
    path = tmp_path_factory.mktemp("case")
    file = path / "a.csv"
    file.write_bytes(buffer.getvalue().encode())
    texts, rejected = read(file)
    assert texts == [text for _, text in rows]
    assert not rejected
    assert kept_file(file, Columns(), path / "out") == file.read_bytes()


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=12), max_size=8))
def test_every_csv_row_is_a_document_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """Whatever the bytes are, no row is lost and nothing raises."""
    folder = tmp_path_factory.mktemp("case")
    (folder / "a.csv").write_bytes(b"text\n" + b"\n".join(lines))
    texts, rejected = read(folder / "a.csv")
    numbers = sorted(entry.row for entry in rejected)
    assert len(set(numbers)) == len(numbers)
    assert kept_file(folder / "a.csv", Columns(), folder / "out").count(b"\n") >= len(texts)


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20), st.sampled_from([b'{"text": "x"}', b'{"text": 1}', b"[[", b" "])
        ),
        max_size=8,
    )
)
def test_every_json_line_is_a_document_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """Kept lines are the input's, byte for byte."""
    folder = tmp_path_factory.mktemp("case")
    data = b"\n".join(lines)
    # a file that begins with a bracket is read as one JSON array
    assume(not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["))
    (folder / "a.jsonl").write_bytes(data)
    texts, rejected = read(folder / "a.jsonl")
    filled = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    assert len(texts) + len(rejected) == len(filled)
    kept = kept_file(folder / "a.jsonl", Columns(), folder / "out")
    assert kept.split(b"\n")[:-1] == [line for line in data.split(b"\n") if b'"x"' in line]
