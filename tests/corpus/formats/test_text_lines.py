"""Tests of text files of which each line is a document."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, make_ids, write_kept
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.formats import json_lines
from nearkin.errors import UsageError
from tests.cli.conftest import run
from tests.corpus.samples import read_file

LINES = Columns(lines=True)
LOG = (
    b"2026-01-31 10:00:01 received block blk_1608 from /10.250.19.102:54106 in /var/data/a\n"
    b" \t\r\n"
    b"2026-02-01 11:30:59 received block blk_-77 from /10.251.7.3:9000 in /srv/data/c\r\n"
    b"\n"
    b"a line of its own, without an end"
)
KEPT = LOG[: LOG.index(b" \t")] + LOG[LOG.rindex(b"a line") :] + b"\n"
"""The lines that the preset keeps."""


@pytest.mark.parametrize("name", ["app.log", "notes.txt", "README", "app.log.gz", "page.html"])
def test_each_line_that_is_not_blank_is_a_document(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LOG) if name.endswith(".gz") else LOG)
    corpus = FileCorpus.open([str(path)])
    corpus.check(LINES)
    batches = list(corpus.batches(LINES))
    texts = [text for batch in batches for text in batch.documents["text"].to_pylist()]
    assert texts == [line.decode() for line in LOG.splitlines() if line.strip()]
    ids = [id for batch in batches for id in make_ids(batch, LINES, corpus.names).to_pylist()]
    assert ids == [f"{name}:{row:010d}" for row in (0, 2, 4)]
    assert estimate_documents(corpus, LINES) == 3
    out = tmp_path / "out"
    out.mkdir()
    write_kept(corpus, LINES, np.array([True, False, True]), out)
    copy = (out / name).read_bytes()
    assert (gzip.decompress(copy) if name.endswith(".gz") else copy) == KEPT


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.binary(max_size=12)), size=st.integers(1, 7), start=st.integers(0, 5))
def test_lines_do_not_depend_on_blocks(
    lines: list[bytes], size: int, start: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    content = b"\n".join(lines)
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "BLOCK", size)
        corpus = FileCorpus.open([str(path)])
        documents, rejected = read_texts_of(corpus, start)
    expected = []
    invalid = []
    for row, line in enumerate(content.split(b"\n")):
        raw = line.removeprefix(b"\xef\xbb\xbf") if row == 0 else line
        if row < start or not raw.strip():
            continue
        try:
            expected.append((row, raw.removesuffix(b"\r").decode()))
        except UnicodeDecodeError:
            invalid.append(row)
    assert documents == expected
    assert rejected == invalid


def read_texts_of(corpus: FileCorpus, start: int) -> tuple[list[tuple[int, str]], list[int]]:
    documents: list[tuple[int, str]] = []
    rejected: list[int] = []
    for batch in corpus.batches(LINES, (0, start)):
        texts = batch.documents["text"].to_pylist()
        documents += zip(batch.rows.tolist(), texts, strict=True)
        rejected += [entry.row for entry in batch.rejected]
    return documents, rejected


def test_long_and_invalid_lines_are_rejected_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n" + b"x" * 3000 + b"\nGr\xf6\xdfe\nlast\n")
    columns = Columns(lines=True, document_limit=1000)
    texts, rejected = read_file(path, columns)
    assert texts == ["first", "last"]
    assert [(entry.row, entry.line) for entry in rejected] == [(1, 2), (2, 3)]
    assert "the line is longer than 1,000 bytes" in rejected[0].reason
    assert rejected[1].reason.startswith("the line is not valid UTF-8: byte 3 is 0xF6; ")
    columns = Columns(lines=True, encoding="cp1252")
    assert read_file(path, columns)[0][2] == "Größe"


def test_damaged_end_costs_no_complete_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    rng = np.random.default_rng(1)
    lines = [rng.bytes(40).hex().encode() for _ in range(4000)]
    path.write_bytes(gzip.compress(b"\n".join(lines))[:-100_000])
    texts, rejected = read_file(path, LINES)
    assert texts == [line.decode() for line in lines[: len(texts)]]
    assert 0 < len(texts) < len(lines)
    assert len(rejected) == 1


def test_preset_of_logs_reads_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LOG)
    preset = ("--preset", "logs")
    assert run("dedup", path, *preset, "--out", tmp_path / "out") == app.DONE
    assert "1 .log file (one document a line)" in capsys.readouterr().err
    assert (tmp_path / "out" / "kept" / "app.log").read_bytes() == KEPT
    assert run("dedup", path, *preset, "--no-lines", "--out", tmp_path / "whole") == app.DONE
    assert (tmp_path / "whole" / "kept" / "app.log").read_bytes() == LOG
    clusters = nk.dedup(path, preset="logs").clusters.arrow
    assert clusters["kept"].to_pylist() == [True, False, True]
    assert nk.dedup(path, preset="logs", lines=False).clusters.arrow.num_rows == 1
    # Files with rows are read as always.
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": "x y"}) + "\n" for _ in range(2)))
    assert nk.dedup(rows, preset="logs").clusters.arrow.num_rows == 2


def test_kept_lines_are_one_file_of_any_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LOG)
    texts = [line.decode() for line in KEPT.splitlines()]
    for name in ("k.log", "k.txt.gz", "k.jsonl", "k.csv", "k.parquet"):
        out = tmp_path / name
        assert run("dedup", path, "--preset", "logs", "--out", out, "--quiet") == app.DONE
        match name:
            case "k.jsonl":
                assert [json.loads(line) for line in out.read_text().splitlines()] == [
                    {"text": text} for text in texts
                ]
            case "k.csv":
                assert out.read_text().splitlines()[0] == "text"
            case "k.parquet":
                assert pq.read_table(out).to_pylist() == [{"text": text} for text in texts]
            case "k.txt.gz":
                assert gzip.decompress(out.read_bytes()) == KEPT
            case _:
                assert out.read_bytes() == KEPT
    result = nk.dedup(path, preset="logs")
    assert result.write(tmp_path / "library.txt").read_bytes() == KEPT
    # A whole text, and rows with columns, are not lines.
    rows = tmp_path / "rows.csv"
    rows.write_text("text\nx y\n")
    capsys.readouterr()
    assert run("dedup", rows, "--lines", "--out", tmp_path / "b.txt") == app.USAGE
    assert "is not a text, and its rows have columns" in capsys.readouterr().err
    assert run("dedup", path, "--out", tmp_path / "b.txt") == app.USAGE
    with pytest.raises(UsageError, match="does not write files with the suffix"):
        nk.dedup(path).write(tmp_path / "b.txt")


def test_every_command_reads_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [" ".join(f"w{number}x{at}" for at in range(12)) for number in range(30)]
    path = tmp_path / "app.log"
    path.write_text("\n".join([*words, *(f"{line} more" for line in words)]))
    other = tmp_path / "other.log"
    other.write_text(f"{words[0]} again\nsomething else of its own\n")
    pairs = tmp_path / "pairs.jsonl"
    assert run("pairs", path, "--lines", "--threshold", 0.7, "--out", pairs, "--quiet") == app.DONE
    assert len(pairs.read_text().splitlines()) == 30
    split = tmp_path / "split"
    shares = ("--groups", "0.5,0.5", "--out", split, "--quiet")
    assert run("split", path, "--lines", "--threshold", 0.7, *shares) == app.DONE
    groups = pq.read_table(split / "groups.parquet")
    assert groups.num_rows == 60
    copies = sorted(split.glob("*/app.log"))
    lines = [line for copy in copies for line in copy.read_text().splitlines()]
    assert sorted(lines) == sorted(path.read_text().splitlines())
    found = tmp_path / "leaks.jsonl"
    assert run("check", other, path, "--lines", "--threshold", 0.6, "--out", found, "--quiet") == 3
    assert len(found.read_text().splitlines()) == 2
    store = f"sqlite:///{tmp_path}/kin.db"
    capsys.readouterr()
    assert run("index", "build", path, "--lines", "--store", store, "--json") == app.DONE
    assert json.loads(capsys.readouterr().out)["documents"] == 60
    assert run("index", "add", other, "--lines", "--store", store, "--json") == app.DONE
    assert json.loads(capsys.readouterr().out)["documents"] == 2
    assert (
        run("lab", "sketch", path, "--lines", "--out", tmp_path / "s.arrow", "--quiet") == app.DONE
    )
    assert pa.ipc.open_file(tmp_path / "s.arrow").read_all().num_rows == 60
    assert run("tune", path, "--lines", "--threshold", 0.7) == app.DONE
