"""Tests that large record batches of Arrow files are read in slices, in little memory."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats import arrow_ipc, ipc_slices
from nearkin.corpus.formats.ipc_slices import read_sliced_batches
from nearkin.errors import RunError

ROWS = 1003
STRUCT = pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})


def make_sparse_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if i % 5 == 3 else value for i, value in enumerate(values)], kind)


def make_table() -> pa.Table:
    texts = [f"text {i} " + "naïve " * (i % 7) for i in range(ROWS)]
    whole = list(range(ROWS))
    lists = [texts[: i % 4] for i in range(ROWS)]
    return pa.table(
        {
            "text": pa.array(texts),
            "large": make_sparse_column(texts, pa.large_string()),
            "binary": make_sparse_column([text.encode() for text in texts], pa.binary()),
            "whole": make_sparse_column(whole, pa.int32()),
            "flag": make_sparse_column([i % 3 == 0 for i in whole], pa.bool_()),
            "time": make_sparse_column(whole, pa.timestamp("us")),
            "lists": make_sparse_column(lists, pa.list_(pa.string())),
            "vectors": make_sparse_column(
                [[float(i)] * 3 for i in whole], pa.list_(pa.float32(), 3)
            ),
            "struct": make_sparse_column(
                [{"a": i, "b": [f"x{i}"]} for i in whole],
                pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
            ),
            "empty": make_sparse_column([[] for _ in whole], pa.large_list(pa.int8())),
        }
    )


def write_file(path: Path, rows: pa.Table, **options: Any) -> Path:
    with pa.ipc.new_file(path, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows, max_chunksize=600)
    return path


def test_slices_have_the_rows_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc_slices, "BATCH_ROWS", 101)
    path = write_file(tmp_path / "a.arrow", make_table())
    slices = read_sliced_batches(os.fsencode(path))
    assert slices is not None
    first = 0
    parts = []
    for at, batch in slices:
        assert at == first
        assert isinstance(batch, pa.RecordBatch)
        batch.validate(full=True)
        assert len(batch) <= 101
        parts.append(batch)
        first += len(batch)
    assert pa.Table.from_batches(parts).combine_chunks().equals(make_table().combine_chunks())


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_batches_are_read_as_a_whole(compression: str, tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.arrow", make_table(), compression=compression)
    assert read_sliced_batches(os.fsencode(path)) is None


def test_corpus_reads_large_files_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_file(tmp_path / "a.arrow", make_table()), tmp_path / "out"
    out.mkdir()
    columns = Columns(carried_columns=("whole",))
    before = [batch.documents for batch in FileCorpus.open([str(source)]).batches(columns)]
    monkeypatch.setattr(arrow_ipc, "AHEAD", 0)
    corpus = FileCorpus.open([str(source)])
    after = [batch.documents for batch in corpus.batches(columns)]
    assert (
        pa.Table.from_batches(after)
        .combine_chunks()
        .equals(pa.Table.from_batches(before).combine_chunks())
    )
    later = [batch.documents for batch in corpus.batches(columns, (0, 777), 777)]
    assert sum(map(len, later)) == ROWS - 777
    write_kept(corpus, columns, np.arange(ROWS) % 2 == 0, out)
    with pa.ipc.open_file(out / "a.arrow") as written:
        assert (
            written.read_all()
            .combine_chunks()
            .equals(make_table().take(list(range(0, ROWS, 2))).combine_chunks())
        )


def test_large_batch_is_read_in_slices_up_to_a_truncation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_ipc, "AHEAD", 0)
    texts = pa.array([f"{i} " + "word " * 400 for i in range(30_000)])
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, pa.schema([("text", pa.string())])) as writer:
        writer.write_batch(pa.record_batch([texts], ["text"]))
        writer.write_batch(pa.record_batch([texts[:10]], ["text"]))
    corpus = FileCorpus.open([str(path)])
    tracemalloc.start()
    allocated = pa.total_allocated_bytes()
    try:
        for batch in corpus.batches(Columns()):
            assert pa.total_allocated_bytes() - allocated < 30 << 20
            del batch
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    batches = corpus.batches(Columns())
    next(batches)
    os.truncate(path, 1 << 20)
    with pytest.raises(RunError, match="has changed while the run was reading it"):
        list(batches)
