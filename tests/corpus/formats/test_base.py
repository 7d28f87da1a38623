"""Tests of what all formats have in common: reading, copying, limits and rejections."""

import csv
import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.columns import document_limit
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.corpus.samples import (
    SAMPLE_FILES,
    SAMPLE_TABLE,
    SAMPLE_TEXTS,
    read_corpus,
    read_rows,
    write_repeated,
)


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_every_format_gives_the_same_documents(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SAMPLE_FILES[name]())
    corpus = FileCorpus.open([str(tmp_path / name)])
    columns = Columns(id="id", carried_columns=("score",))
    corpus.check(columns)
    rows, rejected = read_corpus(corpus, columns)
    assert [row["text"] for row in rows] == SAMPLE_TEXTS
    assert [row["id"] for row in rows] == SAMPLE_TABLE["id"].to_pylist()
    assert [float(row["score"]) for row in rows] == pytest.approx(SAMPLE_TABLE["score"].to_pylist())
    assert [row["at"] for row in rows] == [(0, i) for i in range(50)]
    assert not rejected


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_reading_starts_at_any_row(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SAMPLE_FILES[name]())
    corpus = FileCorpus.open([str(tmp_path / name)])
    for row in (0, 1, 7, 8, 49, 50):
        rows, _ = read_corpus(corpus, Columns(), start=(0, row), first=row)
        assert [found["text"] for found in rows] == SAMPLE_TEXTS[row:]


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_kept_rows_are_copied_unchanged(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / name).write_bytes(SAMPLE_FILES[name]())
    kept = np.arange(50) % 4 != 1
    corpus = FileCorpus.open([str(source / name)])
    write_kept(corpus, Columns(), kept, out)
    again = FileCorpus.open([str(out / name)])
    rows, _ = read_corpus(again, Columns(id="id", carried_columns=("score",)))
    assert [row["text"] for row in rows] == [
        text for text, stays in zip(SAMPLE_TEXTS, kept, strict=True) if stays
    ]
    if name.endswith(".parquet"):
        assert pq.read_schema(out / name).equals(pq.read_schema(source / name), check_metadata=True)
    if name == "a.jsonl":
        lines = (source / name).read_bytes().splitlines()
        assert (out / name).read_bytes().splitlines() == [
            line for line, stays in zip(lines, kept, strict=True) if stays
        ]


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_added_columns_are_written_beside_existing_ones(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / name).write_bytes(SAMPLE_FILES[name]())

    def rows(start: int, end: int) -> pa.RecordBatch:
        return pa.record_batch(
            [pa.array([f"c{i}" for i in range(start, end)]), pa.array([0.5] * (end - start))],
            ["cluster", "score"],
        )

    write_kept(FileCorpus.open([str(source / name)]), Columns(), np.ones(50, bool), out, rows)
    found, _ = read_corpus(
        FileCorpus.open([str(out / name)]),
        Columns(id="id", carried_columns=("cluster", "nearkin_score", "score")),
    )
    assert [row["cluster"] for row in found] == [f"c{i}" for i in range(50)]
    assert {float(row["nearkin_score"]) for row in found} == {0.5}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("a.parquet", lambda data: data[: len(data) // 2]),
        ("a.parquet", lambda data: b""),
        ("a.arrow", lambda data: data[:100]),
        ("a.ndjson.gz", lambda data: data[: len(data) // 2]),
        ("a.json.zst", lambda data: data[: len(data) // 2]),
        ("a.csv.gz", lambda data: b"no gzip"),
    ],
)
def test_unreadable_file_is_one_rejection(
    name: str, damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(damage(SAMPLE_FILES[name]()))
    (tmp_path / "z.jsonl").write_bytes(b'{"text": "still read"}\n')
    corpus = FileCorpus.open([str(tmp_path)])
    corpus.check(Columns())
    rows, rejected = read_corpus(corpus, Columns())
    assert rows[-1]["text"] == "still read"
    whole = [entry for entry in rejected if entry.row == -1]
    assert len(whole) == 1
    assert whole[0].reason.startswith("the file cannot be read")
    with pytest.raises(RunError, match=r"cannot be read.*on_error='quarantine'"):
        read_corpus(FileCorpus.open([str(tmp_path)], on_error="fail"), Columns())


def test_empty_files_have_no_documents_and_keep_their_schema(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.csv"):
        (tmp_path / name).write_bytes(b"")
    pq.write_table(SAMPLE_TABLE.slice(0, 0), tmp_path / "c.parquet")
    corpus = FileCorpus.open([str(tmp_path)])
    corpus.check(Columns())
    assert read_corpus(corpus, Columns()) == ([], [])
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.zeros(0, bool), tmp_path / "out")
    assert pq.read_table(tmp_path / "out/c.parquet").schema == SAMPLE_TABLE.schema


def test_document_of_fifty_megabytes_is_read(tmp_path: Path) -> None:
    large = "word " * (10 << 20)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": large}) + '\n{"text": "small"}\n')
    (tmp_path / "b.csv").write_text(f'text\n"{large}"\nsmall\n')
    rows, rejected = read_corpus(FileCorpus.open([str(tmp_path)]), Columns())
    assert [len(row["text"]) for row in rows] == [len(large), 5, len(large), 5]
    assert not rejected


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.parquet", "a.arrow"])
def test_documents_larger_than_their_share_of_memory_are_rejected(
    name: str, tmp_path: Path
) -> None:
    """Documents above the limit are rejected in every format."""
    limit = document_limit(512 << 20)
    assert limit == 16 << 20
    table = pa.table({"text": ["x" * (limit + 1), "small"]})
    path = tmp_path / name
    if name == "a.txt":
        path.write_text(table["text"][0].as_py())
    elif name == "a.jsonl":
        path.write_text("".join(f'{{"text": "{text}"}}\n' for text in table["text"].to_pylist()))
    elif name == "a.csv":
        path.write_text("\n".join(["text", *table["text"].to_pylist()]))
    elif name == "a.parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    texts, rejected = read_rows(path, Columns().with_memory(512 << 20))
    assert [text for _, text in texts] == ([] if name == "a.txt" else ["small"])
    assert [entry.row for entry in rejected] == [0]
    assert "longer than 16,777,216 " in rejected[0].reason


ROWS = st.lists(
    st.one_of(st.none(), st.text(max_size=8), st.just("x" * 200), st.just("same words here")),
    max_size=12,
)


@settings(max_examples=20)
@given(ROWS, st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.parquet", "a.arrow", "a.jsonl.gz"]))
def test_every_row_is_kept_removed_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], name: str
) -> None:
    """Every row is counted once, and kept rows equal those of the input."""
    folder = tmp_path_factory.mktemp("case")
    numbers = pa.array(range(len(texts)), pa.int64())
    table = pa.table({"text": pa.array(texts, pa.string()), "n": numbers})
    rows = [json.dumps(row) for row in table.to_pylist()]
    if ".jsonl" in name:
        data = "".join(f"{row}\n" for row in rows).encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    elif name == "a.json":
        (folder / name).write_text(f"[{','.join(rows)}]")
    elif name == "a.csv":
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
                [["text", "n"], *map(list, table.to_pandas().to_numpy())]
            )
    elif name == "a.parquet":
        pq.write_table(table, folder / name)
    else:
        with pa.ipc.new_file(str(folder / name), table.schema) as writer:
            writer.write_table(table)
    columns = Columns(document_limit=100)
    record = run_dedup(Job((str(folder / name),), folder / "out", columns, RunOptions()), Silent())
    counts = record.counts
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"]
    assert counts["read"] == len(texts)
    kept = folder / "out" / "kept" / name
    if ".jsonl" in name:
        written = gzip.decompress(kept.read_bytes()) if name.endswith("gz") else kept.read_bytes()
        assert set(written.decode().split("\n")[:-1]) <= set(rows)
        assert written.count(b"\n") == counts["kept"]
    elif name == "a.parquet":
        kept_rows = pq.read_table(kept)
        assert kept_rows.equals(table.take(kept_rows["n"].combine_chunks()))
        assert len(kept_rows) == counts["kept"]


MEASURED = """
    import resource, sys
    from nearkin.corpus import Columns, FileCorpus
    rows = rejected = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    corpus = FileCorpus.open([sys.argv[1]], ahead=(512 << 20) // 32)
    for batch in corpus.batches(Columns().with_memory(512 << 20)):
        rows += len(batch.rows)
        rejected += len(batch.rejected)
    print(rows, rejected, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def line_of_gigabytes(path: Path) -> None:
    block = b'{"text": "' + b"x" * (1 << 20)
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(b'{"text": "first"}\n' + block)
        for _ in range(800):
            sink.write(block[10:])
        sink.write(b'"}\n{"text": "last"}\n')


def values_of_gigabytes(path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(
            b'{"text": "first"}\n{"text": "x", "wide": ['
            + b"{}," * 10_000_000
            + b'{}]}\n{"text": "last"}\n'
        )


def dictionary_of_gigabytes(path: Path) -> None:
    write_repeated(path, 900_000, 3000)


def page_of_megabytes(path: Path) -> None:
    table = pa.table({"text": ["x" * 200_000_000]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


@pytest.mark.parametrize(
    ("make", "name", "rows"),
    [
        (line_of_gigabytes, "a.jsonl.zst", "2 1"),
        (values_of_gigabytes, "a.jsonl.zst", "2 1"),
        (dictionary_of_gigabytes, "a.parquet", "3000 0"),
        (page_of_megabytes, "a.parquet", "0 1"),
    ],
)
def test_small_hostile_file_stays_within_the_memory_bound(
    make: Any, name: str, rows: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 200_000
    command = [sys.executable, "-c", textwrap.dedent(MEASURED), str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    *counted, megabytes = done.stdout.split()
    assert " ".join(counted) == rows
    assert int(megabytes) < 300
