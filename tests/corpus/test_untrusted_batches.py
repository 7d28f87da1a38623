"""Record batches of strangers, whose offsets and counts may be any number."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.ipc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.untrusted_batches import examine_batch, find_invalid_text
from nearkin.errors import UsageError
from tests.corpus.samples import run_dedup_on, words_of

ROWS = 30
MANY = (1 << 31) - 1


def make_table() -> pa.Table:
    return pa.table(
        {
            "text": [words_of(number) for number in range(ROWS)],
            "tags": [["t", "x"]] * ROWS,
            "note": ["n" * 7] * ROWS,
        }
    )


def write_damaged(path: Path, step: int, at: int, value: int) -> Path:
    """Writes three batches, of which the second has a wrong offset.

    Args:
        path: The file.
        step: The difference of two offsets of the column.
        at: The place of the wrong offset.
        value: The wrong offset.
    """
    with pa.ipc.new_file(path, make_table().schema) as writer:
        for _ in range(3):
            writer.write_table(make_table())
    content = path.read_bytes()
    offsets = struct.pack(f"<{ROWS + 1}i", *range(0, step * (ROWS + 1), step))
    first = content.index(offsets)
    place = content.index(offsets, first + 1) + 4 * at
    path.write_bytes(content[:place] + struct.pack("<i", value) + content[place + 4 :])
    return path


@pytest.mark.parametrize(
    ("step", "at", "value"),
    [(2, ROWS, 600_000_000), (2, 9, 512), (7, ROWS, 7 * ROWS + 5_000_000), (7, 3, -1)],
)
def test_damage_of_a_copied_column_costs_its_record_batch(
    step: int, at: int, value: int, tmp_path: Path
) -> None:
    path = write_damaged(tmp_path / "a.arrow", step, at, value)
    record = run_dedup_on([str(path)], tmp_path / "out")
    counts = record["counts"]
    assert (counts["read"], counts["rejected"]) == (3 * ROWS, ROWS)
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"]
    (entry,) = map(json.loads, (tmp_path / "out/rejected.jsonl").read_text().splitlines())
    assert (entry["file"], entry["row"], entry["rows"]) == ("a.arrow", ROWS, ROWS)
    assert "the file cannot be read: rows 30 to 59: " in entry["reason"]
    with pa.ipc.open_file(tmp_path / "out/kept/a.arrow") as kept:
        rows = kept.read_all()
    rows.validate(full=True)
    assert rows.equals(make_table())


def test_library_counts_the_rows_of_a_run(tmp_path: Path) -> None:
    result = nk.dedup(write_damaged(tmp_path / "a.arrow", 7, 3, -1))
    assert result.rejected.to_arrow()["rows"].to_pylist() == [ROWS]
    assert result.statistics["rejected"] == ROWS
    assert sum(reason.rows for reason in result.report_data.rejected) == ROWS


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "a.feather"])
@pytest.mark.parametrize(
    "values",
    [
        lambda: pa.nulls(MANY),
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), pa.array(["x"])),
        lambda: pa.StructArray.from_buffers(pa.struct([]), MANY, [None]),
        lambda: pa.FixedSizeBinaryArray.from_buffers(pa.binary(0), MANY, [None, pa.py_buffer(b"")]),
    ],
    ids=["null", "run_end_encoded", "struct", "binary"],
)
def test_rows_that_take_no_bytes_are_one_rejection(values: Any, name: str, tmp_path: Path) -> None:
    batch = pa.record_batch([values(), values()], ["text", "id"])
    opener = pa.ipc.new_stream if name == "a.arrows" else pa.ipc.new_file
    with opener(tmp_path / name, batch.schema) as writer:
        writer.write_batch(batch)
    columns = Columns(text=None, tokens="text")
    (read,) = FileCorpus.open([str(tmp_path / name)]).batches(columns)
    (rejected,) = read.rejected
    assert rejected.rows == MANY
    assert "2,147,483,647 values in " in rejected.reason


@pytest.mark.parametrize(
    "values",
    [
        lambda: pa.ListArray.from_arrays(pa.array([0, MANY], pa.int32()), pa.nulls(MANY)),
        lambda: pa.FixedSizeListArray.from_arrays(pa.nulls(MANY), MANY),
        lambda: pa.ListViewArray.from_arrays(
            pa.array([0] * 40_000, pa.int32()),
            pa.array([40_000] * 40_000, pa.int32()),
            pa.array(np.zeros(40_000, np.int8)),
        ),
    ],
    ids=["list", "fixed_size_list", "list_view"],
)
def test_elements_that_take_no_bytes_are_damage(values: Callable[[], pa.Array]) -> None:
    damage = examine_batch(pa.record_batch([values()], ["tokens"])).damage
    assert damage is not None
    assert "it claims" in damage


def test_small_batches_of_nulls_are_rejected_row_by_row(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"text": pa.nulls(3)}), tmp_path / "a.feather")
    (batch,) = FileCorpus.open([str(tmp_path)]).batches(Columns())
    assert [(entry.row, entry.reason) for entry in batch.rejected] == [
        (row, "text is null") for row in range(3)
    ]


@pytest.mark.parametrize("name", ["a.parquet", "a.orc", "a.arrow"])
def test_many_nulls_are_few_rejections(name: str, tmp_path: Path) -> None:
    count = 20_000
    table = pa.table(
        {"text": pa.nulls(count, pa.string()), "id": [f"id {at}" for at in range(count)]}
    )
    write = {
        "a.parquet": lambda: pq.write_table(table, tmp_path / name),
        "a.orc": lambda: orc.write_table(table, tmp_path / name),
        "a.arrow": lambda: feather.write_feather(table, tmp_path / name),
    }
    write[name]()
    batches = list(FileCorpus.open([str(tmp_path)]).batches(Columns()))
    assert sum(batch.rejected_rows for batch in batches) == count
    assert sum(len(batch.rejected) for batch in batches) < 10


def test_invalid_text_of_a_copied_column_costs_its_row(tmp_path: Path) -> None:
    table = pa.table({"text": ["a b", "c d", "e f"]})
    stored = pa.array([b"x", b"\xff", b"y"]).view(pa.string())
    table = table.append_column("note", stored)
    feather.write_feather(table, tmp_path / "a.feather", compression="uncompressed")
    (batch,) = FileCorpus.open([str(tmp_path)]).batches(Columns())
    assert batch.rows.tolist() == [0, 2]
    assert [(entry.row, entry.reason) for entry in batch.rejected] == [
        (1, "note is not valid UTF-8")
    ]
    nested = pa.record_batch([pa.ListArray.from_arrays([0, 1, 2, 3], stored)], ["notes"])
    assert len(find_invalid_text(nested, ())) == 3
    assert find_invalid_text(nested, ("notes",)) == {}


def test_values_that_other_libraries_write_are_not_damage() -> None:
    """Arrow of JavaScript has dates with a time, and decimals may have any digits."""
    columns = {
        "date": pa.array([5], pa.int64()).view(pa.date64()),
        "time": pa.array([99_999_999], pa.int32()).view(pa.time32("s")),
        "list": pa.array([["x"]], pa.list_view(pa.string_view())),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "category": pa.array(["a"]).dictionary_encode(),
        "runs": pc.run_end_encode(pa.array(["a"])),
        "union": pa.UnionArray.from_sparse(
            pa.array([0], pa.int8()), [pa.array([1]), pa.array(["b"])]
        ),
        "null": pa.nulls(1),
        "flag": pa.array([True]),
    }
    batch = pa.record_batch(list(columns.values()), list(columns))
    assert examine_batch(batch).damage is None
    assert find_invalid_text(batch, ()) == {}


def make_wrong_offsets() -> pa.Array:
    offsets = pa.py_buffer(np.array([0, 1 << 30, 6], np.int32))
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcdef")])


@pytest.mark.parametrize(
    "make",
    [
        lambda bad: pa.table({"text": ["a", "b"], "note": bad}),
        lambda bad: pa.record_batch([bad], ["text"]),
        lambda bad: pa.RecordBatchReader.from_batches(
            pa.schema([("text", pa.string())]), [pa.record_batch([bad], ["text"])]
        ),
        lambda bad: {"text": bad},
        lambda bad: pa.table(
            {"text": pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False)}
        ),
    ],
    ids=["table", "batch", "stream", "mapping", "dictionary"],
)
def test_damaged_table_is_refused_with_its_rows(make: Any) -> None:
    with pytest.raises(UsageError, match="rows 0 to 1 are damaged Arrow data: "):
        nk.dedup(make(make_wrong_offsets()))


def test_damaged_column_is_refused() -> None:
    with pytest.raises(UsageError, match="damaged Arrow data"):
        nk.sketch(make_wrong_offsets(), nk.Spec())


def test_type_of_a_later_file_is_checked_before_reading(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": [1]}), tmp_path / "b.parquet")
    corpus = FileCorpus.open([str(tmp_path)])
    with pytest.raises(UsageError, match=r"b\.parquet: column 'text' is int64, not text"):
        corpus.check(Columns())
