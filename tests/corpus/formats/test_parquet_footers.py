"""Tests of row groups that are appended to a file."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus.formats.parquet_footers import (
    RowGroupAppender,
    StructReader,
    encode_struct,
    read_footer,
)


@pytest.fixture
def pool() -> Iterator[Executor]:
    """Returns threads that copy."""
    with ThreadPoolExecutor(3) as threads:
        yield threads


def make_table(first: int, rows: int) -> pa.Table:
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "text": pa.array([f"text {at} " * 9 for at in numbers], pa.string()),
            "group": pa.array([f"g{at % 3}" for at in numbers], pa.string()).dictionary_encode(),
            "list": pa.array([[int(at), None] for at in numbers], pa.list_(pa.int64())),
            "flag": pa.array([None if at % 5 == 0 else bool(at % 2) for at in numbers], pa.bool_()),
            "ratio": numbers / 7,
        }
    ).replace_schema_metadata({"a": "b"})


@pytest.mark.parametrize("codec", ["snappy", "zstd", "none"])
@pytest.mark.parametrize("has_indexes", [False, True])
def test_appended_row_groups_are_those_of_the_parts(
    codec: str, has_indexes: bool, pool: Executor, tmp_path: Path
) -> None:
    sizes = [(0, 0), (0, 40), (40, 0), (40, 1), (41, 500), (541, 3)]
    target = tmp_path / "joined.parquet"
    appender = RowGroupAppender(target, pool)
    for number, (first, rows) in enumerate(sizes):
        part = tmp_path / f"{number}.parquet"
        pq.write_table(
            make_table(first, rows),
            part,
            row_group_size=20,
            compression=codec,
            use_dictionary=["group"],
            write_page_index=has_indexes,
            write_page_checksum=True,
        )
        appender.append(part)
    appender.close()
    joined = pq.ParquetFile(target, page_checksum_verification=True)
    assert joined.metadata.num_row_groups == 2 + 1 + 25 + 1
    assert joined.read().to_pylist() == make_table(0, 544).to_pylist()
    assert joined.schema_arrow.metadata == {b"a": b"b"}
    assert [joined.read_row_group(at).num_rows for at in (0, 2, 3, 28)] == [20, 1, 20, 3]
    filtered = pq.read_table(target, filters=[("ratio", ">", 540 / 7)])
    assert filtered.num_rows == 3
    assert list(tmp_path.iterdir()) == [target]


def test_a_footer_is_written_as_it_was_read(tmp_path: Path) -> None:
    """Column names and counts beyond the short forms of lists, steps and integers are among it."""
    wide = {f"{number}" * 90: pa.array([number, -number]) for number in range(40)}
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table(wide), path, sorting_columns=[pq.SortingColumn(1)])
    with path.open("rb") as source:
        end, footer = read_footer(source)
        source.seek(end)
        content = source.read()[:-8]
    assert encode_struct(footer) == content
    assert StructReader(content).read_struct() == footer


def test_files_with_different_columns_are_not_joined(pool: Executor, tmp_path: Path) -> None:
    appender = RowGroupAppender(tmp_path / "joined.parquet", pool)
    for name in ("a", "b"):
        pq.write_table(pa.table({name: [1]}), tmp_path / name)
    appender.append(tmp_path / "a")
    with pytest.raises(ValueError, match=r"joined\.parquet have different columns"):
        appender.append(tmp_path / "b")


def test_nothing_is_written_without_parts(pool: Executor, tmp_path: Path) -> None:
    RowGroupAppender(tmp_path / "joined.parquet", pool).close()
    assert not list(tmp_path.iterdir())
