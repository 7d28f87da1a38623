"""Tests that wide tables and repeated long values are read within the memory bound."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats.base import FileSlice
from nearkin.errors import RunError

LIMIT = 1 << 20
LARGE = Columns()


def wide_table(rows: int, columns: int) -> pa.Table:
    """Returns columns of several types, each with enough values that a decoder needs memory."""
    rng = np.random.default_rng(1)
    kinds: list[Any] = [
        lambda: pa.array(rng.random(rows)),
        lambda: pa.array(rng.integers(0, 10**9, rows)).cast(pa.string()),
        lambda: pa.array([f"category {at % 50}" for at in range(rows)]).dictionary_encode(),
        lambda: pa.DictionaryArray.from_arrays(
            pa.array(np.arange(rows, dtype=np.int32) % 5), pa.array(list("edcba")), ordered=True
        ),
        lambda: pa.array(
            [None if at % 3 else f"{at // 9}" for at in range(rows)]
        ).dictionary_encode(),
        lambda: pa.array(
            [[at, None] if at % 7 else None for at in range(rows)], pa.list_(pa.int64())
        ),
        lambda: pa.array([{"a": at, "b": f"{at}"} for at in range(rows)]),
    ]
    arrays = {"text": pa.array([f"document {at}" for at in range(rows)])}
    arrays.update({f"c{at}": kinds[at % len(kinds)]() for at in range(columns)})
    fields = [pa.field(name, array.type, nullable=name != "c2") for name, array in arrays.items()]
    return pa.table(list(arrays.values()), schema=pa.schema(fields, {"made by": "a test"}))


def pieces_of(path: Path, columns: Columns) -> Iterator[FileSlice]:
    return FileCorpus.open([str(path)], ahead=columns.document_limit).read_slices(
        0, columns, whole=True
    )


def kept_file(path: Path, columns: Columns, folder: Path) -> Path:
    corpus = FileCorpus.open([str(path)])
    rows = sum(len(piece.rows) for piece in corpus.read_slices(0, columns))
    folder.mkdir()
    write_kept(corpus, columns, np.arange(rows) % 3 > 0, folder)
    assert [found.name for found in folder.iterdir()] == [path.name]
    return folder / path.name


def test_wide_table_is_copied_unchanged(tmp_path: Path) -> None:
    """The kept rows have the types and the metadata of the input."""
    table = wide_table(3000, 60)
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=2000)
    found = pq.read_table(kept_file(path, LARGE, tmp_path / "kept"))
    expected = pq.read_table(path).take(np.flatnonzero(np.arange(3000) % 3 > 0))
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist()


def test_columns_that_need_too_much_memory_together_are_decoded_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(1)
    columns = {f"c{at}": rng.random(5000) for at in range(600)}
    table = pa.table({"text": [f"document {at}" for at in range(5000)], **columns})
    pq.write_table(table, path)
    corpus = FileCorpus.open([str(path)])
    for whole in (False, True):
        before = pa.total_allocated_bytes()
        largest = 0
        pieces = []
        for piece in corpus.read_slices(0, Columns(document_limit=LIMIT), whole=whole):
            largest = max(largest, pa.total_allocated_bytes() - before)
            pieces.append(piece.complete_rows if whole else piece.documents)
            before += pieces[-1].nbytes
        assert largest < 30 << 20
    assert pa.Table.from_batches(pieces).equals(table)


NARROW = Columns(document_limit=64_000)
"""The columns of tables of which few columns are decoded at a time."""


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_columns_that_are_decoded_in_turn_keep_types_and_order(codec: str, tmp_path: Path) -> None:
    table = wide_table(3000, 60)
    names = [f"t.{name}" if name in ("c4", "c8") else name for name in table.column_names]
    names[names.index("c9")] = "t"
    table = table.rename_columns(["c7" if name == "c14" else name for name in names])
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=2000, data_page_size=1000, compression=codec)
    found = pq.ParquetFile(kept_file(path, NARROW, tmp_path / "kept")).read()
    expected = pq.ParquetFile(path).read().take(np.flatnonzero(np.arange(3000) % 3 > 0))
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.equals(expected)


@pytest.mark.parametrize("place", [0, 60])
def test_rows_before_damage_are_copied_with_columns_that_are_decoded_in_turn(
    place: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"document {at} of words" for at in range(30_000)]
    numbers = {f"c{at}": np.arange(30_000) for at in range(60)}
    table = pa.table(numbers).add_column(place, "text", [texts])
    plain: dict[str, Any] = {"use_dictionary": False, "compression": "none"}
    pq.write_table(table, path, data_page_size=2000, write_page_checksum=True, **plain)
    data = path.read_bytes()
    assert data.count(b"document 25000 ") == 1
    path.write_bytes(data.replace(b"document 25000 ", b"document 99999 "))
    corpus = FileCorpus.open([str(path)])
    rows = [row for piece in corpus.read_slices(0, NARROW) for row in piece.rows.tolist()]
    assert rows == list(range(len(rows)))
    assert 0 < len(rows) <= 25_000
    (tmp_path / "kept").mkdir()
    write_kept(corpus, NARROW, np.ones(len(rows), bool), tmp_path / "kept")
    assert pq.read_table(tmp_path / "kept" / "a.parquet").equals(table.slice(0, len(rows)))


def test_one_column_that_needs_too_much_memory_is_rejected_whether_read_or_copied(
    tmp_path: Path,
) -> None:
    """A struct is decoded as a whole. Its members would fit one after another."""
    path = tmp_path / "a.parquet"
    members = [{f"m{at}": row for at in range(60)} for row in range(3000)]
    table = pa.table({"text": [f"document {at}" for at in range(3000)], "c": members})
    pq.write_table(table, path)
    for whole in (False, True):
        pieces = list(FileCorpus.open([str(path)]).read_slices(0, NARROW, whole=whole))
        assert [len(piece.rows) for piece in pieces] == [0]
        assert "decoding it takes up to " in pieces[0].rejected[0].reason


def test_long_values_of_many_dictionaries_are_not_decoded_at_once(tmp_path: Path) -> None:
    """Each column alone fits into memory, but not all columns together."""
    path = tmp_path / "a.parquet"
    values = pa.array([f"{at}{'v' * 2000}" for at in range(20)])
    places = pa.array(np.arange(4000, dtype=np.int32) % 20)
    columns = {f"c{at}": pa.DictionaryArray.from_arrays(places, values) for at in range(100)}
    table = pa.table({"text": [f"document {at}" for at in range(4000)], **columns})
    pq.write_table(table, path, store_schema=False)
    before = pa.total_allocated_bytes()
    largest = rows = 0
    for piece in pieces_of(path, Columns(document_limit=16 << 20)):
        largest = max(largest, pa.total_allocated_bytes() - before)
        rows += len(piece.rows)
    assert rows == 4000
    assert largest < 100 << 20


ELEMENTS = {
    "list": pa.list_(pa.string()),
    "large_list": pa.large_list(pa.large_string()),
    "struct": pa.list_(pa.struct({"name": pa.string(), "number": pa.int64()})),
    "map": pa.map_(pa.string(), pa.string()),
    "nested": pa.list_(pa.list_(pa.string())),
}


def rows_of_elements(name: str, rows: int, elements: int) -> list[Any]:
    texts = [f"{at}{'v' * 20_000}" for at in range(4)]
    forms: dict[str, Any] = {
        "list": lambda at: [
            None if at % 5 == 4 else texts[(at + element) % 4] for element in range(elements)
        ],
        "large_list": lambda at: [texts[(at + element) % 4] for element in range(elements)],
        "struct": lambda at: [
            {"name": texts[(at + element) % 4], "number": element} for element in range(elements)
        ],
        "map": lambda at: [
            (f"k{element}", texts[(at + element) % 4]) for element in range(elements)
        ],
        "nested": lambda at: [[texts[(at + element) % 4]] for element in range(elements)],
    }
    return [None if at % 7 == 3 else forms[name](at) for at in range(rows)]


@pytest.mark.parametrize("name", ELEMENTS)
def test_long_texts_that_lists_repeat_are_not_decoded_at_once(name: str, tmp_path: Path) -> None:
    """The elements represent 160 MB. Rows are copied with the types of the input."""
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "text": [f"document {at}" for at in range(800)],
            "c": pa.array(rows_of_elements(name, 800, 10), ELEMENTS[name]),
        }
    )
    pq.write_table(table, path)
    assert path.stat().st_size < 2 << 20
    del table
    expected = pq.read_table(path, columns=["text"])["text"].to_pylist()
    before = pa.total_allocated_bytes()
    largest = 0
    texts = []
    for piece in pieces_of(path, Columns(document_limit=1 << 20, carried_columns=("c",))):
        largest = max(largest, pa.total_allocated_bytes() - before)
        texts += piece.documents["text"].to_pylist()
    assert texts == expected
    assert largest < 60 << 20
    small = pa.table(
        {
            "text": ["a", "b", "c"],
            "c": pa.array(rows_of_elements(name, 800, 10), ELEMENTS[name]).slice(2, 3),
        }
    )
    many = pa.concat_tables([small] * 100)
    pq.write_table(many, tmp_path / "b.parquet")
    kept = pq.read_table(
        kept_file(tmp_path / "b.parquet", Columns(document_limit=1 << 20), tmp_path / "out")
    )
    assert kept.schema.equals(many.schema)
    assert (
        kept.slice(0, 50).to_pylist()
        == many.take(np.flatnonzero(np.arange(300) % 3 > 0)).slice(0, 50).to_pylist()
    )


def test_tokens_that_repeat_long_texts_are_bounded(tmp_path: Path) -> None:
    """A row that is larger than a document can be is rejected, and the others are read."""
    path = tmp_path / "a.parquet"
    long = "v" * 20_000
    rows = [["a", "b"], [long] * 4000, None, [long] * 3, ["a", None]]
    pq.write_table(pa.table({"words": rows}), path)
    columns = Columns(text=None, tokens="words", document_limit=100_000)
    before = pa.total_allocated_bytes()
    largest = 0
    documents, rejected = [], []
    for piece in FileCorpus.open([str(path)]).read_slices(0, columns):
        largest = max(largest, pa.total_allocated_bytes() - before)
        documents += piece.documents["tokens"].to_pylist()
        rejected += piece.rejected
    assert documents == [["a", "b"], [long] * 3]
    assert [rejection[0] for rejection in rejected] == [1, 2, 4]
    assert "words is longer than 100,000 bytes" in rejected[0][1]
    assert largest < 20 << 20


def test_list_that_is_too_large_to_be_copied_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    long = "v" * 20_000
    pq.write_table(pa.table({"text": ["first", "second"], "c": [["a"], [long] * 4000]}), path)
    corpus = FileCorpus.open([str(path)])
    with pytest.raises(
        RunError,
        match=r"a row of column 'c' unfolds into 80,000,000 bytes, more than the 800,000 that",
    ):
        list(corpus.read_slices(0, Columns(document_limit=100_000), whole=True))


@pytest.mark.parametrize("column", ["text", "c1", "c59"])
def test_damage_of_a_copied_column_is_an_error(column: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = wide_table(3000, 60)
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        compression="none",
        data_page_size=2000,
        write_batch_size=100,
        write_page_checksum=True,
    )
    chunks = pq.ParquetFile(path).metadata.row_group(0)
    chunk = next(
        chunks.column(at)
        for at in range(chunks.num_columns)
        if chunks.column(at).path_in_schema.startswith(column)
    )
    data = bytearray(path.read_bytes())
    end = chunk.data_page_offset + chunk.total_compressed_size
    data[end - 10 : end] = b"\xff" * 10
    path.write_bytes(data)
    corpus = FileCorpus.open([str(path)])
    rows = [row for piece in corpus.read_slices(0, LARGE) for row in piece.rows.tolist()]
    if column == "text":
        assert rows == []
        return
    assert len(rows) == 3000
    with pytest.raises(RunError, match="that the run did not read is damaged"):
        list(corpus.read_slices(0, LARGE, whole=True))


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.arrow"])
@pytest.mark.parametrize("role", ["id", "source"])
def test_long_id_or_carried_value_is_rejected_in_every_format(
    name: str, role: str, tmp_path: Path
) -> None:
    table = pa.table({"text": ["a", "b", "c"], "other": ["short", "x" * 2001, "also short"]})
    path = tmp_path / name
    if name == "a.jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    elif name == "a.parquet":
        pq.write_table(table, path, use_dictionary=False)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    columns = Columns(
        id="other" if role == "id" else None,
        carried_columns=("other",) if role == "source" else (),
        document_limit=2000,
    )
    slices = list(FileCorpus.open([str(path)]).read_slices(0, columns))
    assert [row for piece in slices for row in piece.rows.tolist()] == [0, 2]
    assert [(row, reason) for piece in slices for row, reason, *_ in piece.rejected] == [
        (1, "other is longer than 2,000 bytes, the largest size of a document with this `memory`")
    ]


def test_value_with_too_many_levels_is_rejected(tmp_path: Path) -> None:
    """The value can be parsed, but not written as text."""
    path = tmp_path / "a.jsonl"
    deep = [
        f'{{"text": "x", "d": {"[" * levels}1{"]" * levels}}}\n' for levels in (3, 250, 300, 1000)
    ]
    path.write_text("".join(deep))
    slices = list(FileCorpus.open([str(path)]).read_slices(0, Columns(carried_columns=("d",))))
    assert [row for piece in slices for row in piece.rows.tolist()] == [0, 1]
    assert [reason for piece in slices for _, reason, *_ in piece.rejected] == [
        "d has more than 254 levels of lists and objects"
    ] * 2
    assert (
        sum(len(piece.rows) for piece in FileCorpus.open([str(path)]).read_slices(0, Columns()))
        == 4
    )
