"""Tests of parquet row groups that are damaged, alone, or have large dictionaries."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats.parquet_row_groups import RowGroup, RowGroupReader
from tests.corpus.samples import SMALL, read_rows, write_parquet, write_repeated


def damage_column(path: Path, group: int, column: int) -> None:
    """Makes the header of the first page of a column of a row group unreadable."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(column)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)


def test_damaged_row_group_rejects_only_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = write_parquet(path)
    damage_column(path, 2, 0)
    texts, rejected = read_rows(path)
    want = [at for at in range(50) if not 20 <= at < 30]
    assert texts == [(at, table["text"][at].as_py()) for at in want]
    assert [
        entry.reason.startswith("the file cannot be read: rows 20 to 29 (row group 2): ")
        for entry in rejected
    ] == [True]
    corpus = FileCorpus.open([str(path)])
    (tmp_path / "out").mkdir()
    write_kept(corpus, SMALL, np.ones(40, bool), tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "a.parquet").equals(table.take(want))


def test_checksum_of_a_page_reveals_a_changed_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"document 25 ", b"document 99 "))
    texts, rejected = read_rows(path)
    assert [at for at, _ in texts] == [at for at in range(50) if not 20 <= at < 30]
    assert "CRC checksum" in rejected[0].reason


def test_reading_continues_after_a_damaged_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path)
    damage_column(path, 2, 0)
    for start in (0, 19, 20, 30, 45):
        rows = [
            row
            for batch in FileCorpus.open([str(path)]).batches(SMALL, start=(0, start))
            for row in batch.rows.tolist()
        ]
        assert rows == [at for at in range(start, 50) if not 20 <= at < 30]


def test_dictionary_is_not_repeated_in_memory(tmp_path: Path) -> None:
    write_repeated(tmp_path / "a.parquet", 600_000, 3000)
    largest = rows = 0
    corpus = FileCorpus.open([str(tmp_path / "a.parquet")])
    before = pa.total_allocated_bytes()
    for batch in corpus.batches(Columns()):
        largest = max(largest, pa.total_allocated_bytes() - before)
        rows += len(batch.rows)
    assert rows == 3000
    assert largest < 200 << 20
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.arange(3000) < 5, tmp_path / "out")
    assert pq.read_schema(tmp_path / "out" / "a.parquet").field("text").type == pa.string()


@pytest.mark.parametrize(("group_rows", "whole"), [(12_000, False), (6_000, True)])
def test_rows_of_a_single_row_group_and_of_copies_are_used_before_the_rest_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int, whole: bool
) -> None:
    texts = [f"text {number} " * 200 for number in range(12_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=group_rows)
    decode = RowGroupReader._decode
    decoded: list[int] = []

    def count_batches(reader: RowGroupReader, group: RowGroup) -> Iterator[pa.RecordBatch]:
        for batch in decode(reader, group):
            decoded.append(len(batch))
            yield batch

    monkeypatch.setattr(RowGroupReader, "_decode", count_batches)
    slices = FileCorpus.open([str(tmp_path / "a.parquet")]).read_slices(0, Columns(), whole=whole)
    first = next(slices)
    assert decoded == [len(first.rows)]
    assert len(first.rows) + sum(len(part.rows) for part in slices) == sum(decoded) == 12_000
    assert len(decoded) > 1
