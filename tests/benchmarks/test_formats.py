"""Tests of the measurement of file formats."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.formats import FULL, NEW_WORKLOADS, WORKLOADS, main, make_corpus
from benchmarks.pages import formats_section
from nearkin.corpus import Columns, FileCorpus

DEDUP = "dedup, jsonl.zst in and out"
READ = "read Parquet, snappy, one row group"


def test_command_measures_workloads_and_writes_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "formats.json"
    main(["--quick", "--write", "--out", str(record), DEDUP, READ])
    content = json.loads(record.read_text("utf-8"))
    rows = {row[0]: row[1:] for row in content["tables"][0]["rows"]}
    assert set(rows) == {DEDUP, READ}
    assert all(float(figures[0]) > 0 for figures in rows.values())
    progress = capsys.readouterr().err
    assert all(f"{name}: " in progress for name in rows)
    section = formats_section(content)
    assert all(f"| {name} |" in section for name in rows)


def test_workloads_include_every_goal_of_writing() -> None:
    names = {*WORKLOADS, *NEW_WORKLOADS}
    assert {"dedup, Parquet with snappy", DEDUP} <= names
    assert FULL.documents == 400_000


def test_corpora_of_all_formats_hold_the_same_documents(tmp_path: Path) -> None:
    megabytes = make_corpus(tmp_path, 40)
    table = pq.read_table(tmp_path / "corpus.parquet")
    assert pq.ParquetFile(tmp_path / "corpus.parquet").num_row_groups == 1
    texts = table["text"].to_pylist()
    assert sum(map(len, texts)) == round(megabytes * 1e6)
    assert (texts[15], texts[30]) == (texts[7], texts[7])
    assert len(set(texts)) == 38
    for name in ("corpus.jsonl", "corpus.jsonl.zst", "corpus.jsonl.gz", "corpus.csv"):
        corpus = FileCorpus.open([str(tmp_path / name)])
        slices = corpus.read_slices(0, Columns(id="id"))
        read = [text for part in slices for text in part.documents["text"].to_pylist()]
        assert read == texts
