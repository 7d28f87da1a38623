"""Tests of columns whose values are encoded as dictionaries or runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.encoded_columns import (
    cast_to_stored_type,
    measure_decoded_rows,
    replace_list_views,
)
from nearkin.corpus.formats.record_batches import split_batch
from tests.corpus.samples import LIMIT


@pytest.mark.parametrize("form", ["parquet", "arrow", "table"])
@pytest.mark.parametrize("role", ["text", "id", "source"])
def test_dictionary_is_not_decoded_beyond_the_limit(form: str, role: str, tmp_path: Path) -> None:
    """Rows with more bytes than a document can have are rejected, and the others are read."""
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 2], pa.int32()), pa.array(["fine", "x" * (LIMIT + 1), "also"])
    )
    plain = pa.array(["a", "b", "c", "d"])
    table = pa.table(
        {"text": values if role == "text" else plain, "other": plain if role == "text" else values}
    )
    columns = Columns(
        id="other" if role == "id" else None,
        carried_columns=("other",) if role == "source" else (),
        document_limit=LIMIT,
    )
    if form == "table":
        corpus: Any = TableCorpus(table)
    else:
        path = tmp_path / f"a.{form}"
        if form == "parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        corpus = FileCorpus.open([str(path)])
    batches = list(corpus.batches(columns))
    assert [row for batch in batches for row in batch.rows.tolist()] == [0, 2, 3]
    rejected = [entry for batch in batches for entry in batch.rejected]
    assert [entry.row for entry in rejected] == [1]
    assert "longer than 100,000 bytes" in rejected[0].reason


@pytest.mark.parametrize("encode", [pa.Array.dictionary_encode, pc.run_end_encode])
def test_encoded_column_of_more_than_two_gigabytes_is_read(encode: Any) -> None:
    """Only some megabytes of the 2.4 GB that the rows represent are decoded at a time."""
    values = encode(pa.array(["x" * 1_000_000] * 2))
    places = np.zeros(2400, np.int32)
    if pa.types.is_dictionary(values.type):
        column = pa.DictionaryArray.from_arrays(places, values.dictionary)
    else:
        column = pa.RunEndEncodedArray.from_arrays(
            pa.array([2400], pa.int32()), values.values.slice(0, 1)
        )
    rows = 0
    for batch in TableCorpus(pa.table({"text": column})).batches(Columns()):
        assert batch.documents.nbytes <= 32 << 20
        rows += len(batch.rows)
    assert rows == 2400


LISTS = st.lists(st.none() | st.lists(st.sampled_from(["a", "b", "c"]), max_size=3), max_size=6)


@given(LISTS, st.integers(0, 6), st.booleans())
def test_list_views_become_the_same_lists(
    lists: list[list[str] | None], first: int, is_large: bool
) -> None:
    make = pa.large_list_view if is_large else pa.list_view
    views = pa.array(lists, make(pa.string())).slice(first)
    assert replace_list_views(views).to_pylist() == lists[first:]
    stored = cast_to_stored_type(views, pa.large_list(pa.large_string()))
    assert stored.to_pylist() == lists[first:]


def test_list_views_that_overlap_and_are_out_of_order_become_the_same_lists() -> None:
    views = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 4, 1], pa.int32()),
        pa.array([2, 2, 0, 3], pa.int32()),
        pa.array([1, 2, 3, 4]),
    )
    assert replace_list_views(views).to_pylist() == [[3, 4], [1, 2], [], [2, 3, 4]]


def test_documents_of_list_views_are_those_of_lists() -> None:
    lists = [["1", "2", "3"], ["1", "2", "3"], ["4", "5"], [], ["6"]]
    kinds = ["kept", "exact", "unique", "empty", "unique"]
    for kind in (pa.list_view(pa.string()), pa.large_list_view(pa.large_string())):
        run = nk.dedup({"tokens": pa.array(lists, kind)}, tokens="tokens")
        assert run.clusters["kind"].to_pylist() == kinds
    numbers = pa.array([[1, 2], [1, 2], [], [6]], pa.list_view(pa.int64()))
    assert (nk.sketch(numbers) == nk.sketch([["1", "2"], ["1", "2"], [], ["6"]])).all()
    vectors = pa.array(
        [[9.0, 9.0], [1.0, 2.0], [1.0, 2.0], [3.0, -1.0]], pa.list_view(pa.float32())
    )
    run = nk.dedup({"vector": vectors.slice(1)}, vector="vector", threshold=0.9)
    assert run.clusters["kind"].to_pylist() == ["kept", "exact", "unique"]


def make_views(count: int) -> dict[str, pa.Array]:
    """Returns columns whose rows all share one text of 100 kB, by their layout."""
    text = "x" * 100_000
    view = pa.array([text, "short"], pa.string_view())
    views = np.frombuffer(view.buffers()[1], np.int32).reshape(-1, 4)
    repeated = pa.py_buffer(np.tile(views[:1], (count, 1)))
    zeros = pa.array(np.zeros(count, np.int32))
    ones = pa.array(np.ones(count, np.int32))
    lists = pa.array([[text]])
    return {
        "view": pa.Array.from_buffers(view.type, count, [None, repeated, *view.buffers()[2:]]),
        "list view": pa.ListViewArray.from_arrays(zeros, ones, pa.array([text])),
        "dictionary of lists": pa.DictionaryArray.from_arrays(zeros, lists),
        "runs of lists": pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), lists),
    }


@pytest.mark.parametrize("name", make_views(1))
def test_rows_that_share_a_value_are_decoded_in_parts(name: str) -> None:
    """16 bytes of a row stand for 100 kB, so 2,000 rows would take 200 MB at once."""
    batch = pa.record_batch([make_views(2000)[name]], ["text"])
    sizes = measure_decoded_rows(batch["text"])
    assert sizes is not None
    assert sizes.tolist() == [100_000] * 2000
    parts = list(split_batch(5, batch))
    assert [first for first, _ in parts[:2]] == [5, 5 + len(parts[0][1])]
    assert sum(len(part) for _, part in parts) == 2000
    assert max(len(part) for _, part in parts) < 100


@pytest.mark.parametrize("name", ["view", "list view"])
def test_view_of_a_long_text_is_rejected(name: str, tmp_path: Path) -> None:
    long = make_views(2)[name]
    plain = pa.array(["short", "short"] if name == "view" else [["short"]] * 2, long.type)
    table = pa.table({"text": pa.chunked_array([long, plain])})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    columns = Columns(
        text="text" if name == "view" else None,
        tokens=None if name == "view" else "text",
        document_limit=LIMIT - 1,
    )
    (batch,) = FileCorpus.open([str(tmp_path)]).batches(columns)
    assert batch.rows.tolist() == [2, 3]
    assert ["longer than 99,999 bytes" in entry.reason for entry in batch.rejected] == [True] * 2
