"""Tests of Arrow files and streams."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from tests.corpus.samples import LIMIT, SAMPLE_TEXTS, SMALL, read_corpus, read_rows, to_ipc


def test_string_views_are_read_and_copied(tmp_path: Path) -> None:
    views = pa.table({"text": pa.array(SAMPLE_TEXTS, pa.string_view())})
    (tmp_path / "a.arrow").write_bytes(to_ipc(pa.ipc.new_file, views))
    corpus = FileCorpus.open([str(tmp_path / "a.arrow")])
    assert [row["text"] for row in read_corpus(corpus, Columns())[0]] == SAMPLE_TEXTS
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.arange(50) < 3, tmp_path / "out")
    with pa.ipc.open_file(tmp_path / "out/a.arrow") as written:
        assert written.read_all().equals(views.slice(0, 3))


@pytest.mark.parametrize("opener", [pa.ipc.new_file, pa.ipc.new_stream])
def test_record_batch_that_decompresses_too_far_is_rejected_unread(
    opener: Any, tmp_path: Path
) -> None:
    """The batches before it are read."""
    schema = pa.schema([("text", pa.large_string())])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with opener(str(tmp_path / "a.arrow"), schema, options=options) as writer:
        for texts in (["first"], ["second"], ["x" * (17 * LIMIT)], ["behind"]):
            writer.write_batch(pa.record_batch([pa.array(texts, pa.large_string())], schema=schema))
    texts, rejected = read_rows(tmp_path / "a.arrow")
    assert texts == [(0, "first"), (1, "second")]
    assert [
        entry.reason.startswith(
            "the file cannot be read from row 2: a record batch unfolds into 1,700,"
        )
        for entry in rejected
    ] == [True]


def test_truncated_arrow_file_is_read_up_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    table = pa.table({"text": [f"document {at}" for at in range(100)]})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    texts, rejected = read_rows(path)
    assert len(texts) >= 20
    assert [text for _, text in texts] == table["text"].to_pylist()[: len(texts)]
    assert [
        entry.reason.startswith(f"the file cannot be read from row {len(texts)}")
        for entry in rejected
    ] == [True]
    (tmp_path / "out").mkdir()
    write_kept(FileCorpus.open([str(path)]), SMALL, np.ones(len(texts), bool), tmp_path / "out")
    assert read_rows(tmp_path / "out" / "a.arrow") == (texts, [])
    with pa.ipc.open_file(tmp_path / "out" / "a.arrow") as kept:
        assert kept.read_all().num_rows == len(texts)


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "a.arrows.gz", "a.arrow.old"])
def test_file_that_is_cut_between_two_batches_is_damaged(name: str, tmp_path: Path) -> None:
    """Arrow takes the end of the file for the end of the stream."""
    table = pa.table({"text": ["first", "second", "third"]})
    opener = pa.ipc.new_file if "arrow." in name or name.endswith("arrow") else pa.ipc.new_stream
    is_old = name.endswith("old")
    options = pa.ipc.IpcWriteOptions(use_legacy_format=is_old)
    content = pa.BufferOutputStream()
    with opener(content, table.schema, options=options) as writer:
        writer.write_table(table[:1])
        writer.write_table(table[1:2])
        cut = content.tell()
        writer.write_table(table[2:])
        writer.close()
    path = tmp_path / name.removesuffix(".old")
    for end, expected in ((cut, ["first", "second"]), (None, table["text"].to_pylist())):
        written = content.getvalue().to_pybytes()[:end] if end else content.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(written) if name.endswith("gz") else written)
        texts, rejected = read_rows(path)
        assert [text for _, text in texts] == expected
        reason = "the file cannot be read from row 2: the end of the stream is missing"
        assert [entry.reason for entry in rejected] == ([reason] if end else [])


def test_a_file_with_a_damaged_index_is_read_and_said_to_be_damaged(tmp_path: Path) -> None:
    """Texts have no checksum, so a damaged index is the only sign of damage there may be."""
    table = pa.table({"text": ["first", "second", "third"]})
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, table.schema) as writer:
        writer.write_table(table)
    path = tmp_path / "a.arrow"
    path.write_bytes(content.getvalue().to_pybytes().replace(b"second", b"sEcond")[:-1] + b"?")
    texts, rejected = read_rows(path)
    assert [text for _, text in texts] == ["first", "sEcond", "third"]
    assert [entry.reason for entry in rejected] == [
        "the file cannot be read from row 3: the index at the end of the file is damaged, "
        "so rows may be, too"
    ]


@pytest.mark.parametrize("column", ["text", "tokens"])
def test_damaged_offsets_are_damage_of_the_file(column: str, tmp_path: Path) -> None:
    texts = pa.array(["one", "two", "three"])
    offsets = pa.py_buffer(np.array([0, 3, -6, 11], np.int32))
    damaged = pa.Array.from_buffers(pa.string(), 3, [None, offsets, texts.buffers()[2]])
    values = {"text": damaged, "tokens": pa.ListArray.from_arrays([0, 1, 2, 3], damaged)}
    table = pa.table({column: values[column]})
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    columns = Columns(text=column) if column == "text" else Columns(text=None, tokens=column)
    (batch,) = FileCorpus.open([str(path)]).batches(columns)
    assert len(batch.rows) == 0
    assert batch.rejected[0].reason.startswith("the file cannot be read")
