"""Tests of the selection of rows, which keeps the type of the table or column."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from datasets import Dataset

import nearkin as nk
from nearkin.corpus import TableCorpus
from nearkin.corpus.arrow_conversion import is_in_memory, to_table
from nearkin.corpus.row_selection import ReadRows, select_kept_rows
from nearkin.errors import UsageError

VALUES = ["one", None, "three", "", "five"]
MASKS = {
    "some": [True, False, True, True, False],
    "one": [False, False, False, False, True],
    "none": [False] * 5,
    "all": [True] * 5,
}
VIEWS = pa.array(VALUES, pa.string_view())
COLUMNS = {
    "text": pa.array(VALUES),
    "views": VIEWS,
    "binary views": pa.array([b"a", None, b"c", b"", b"e"], pa.binary_view()),
    "lists of views": pa.array([["a"], None, [], ["b", "c"], [""]], pa.list_(pa.string_view())),
    "list views": pa.array([["a"], None, [], ["b", "c"], [""]], pa.list_view(pa.string_view())),
    "maps of views": pa.array(
        [[("a", "x")], None, [], [("b", "y")], [("c", "")]],
        pa.map_(pa.string_view(), pa.string_view()),
    ),
    "structs": pa.array([{"x": value} for value in VALUES], pa.struct([("x", pa.string_view())])),
    "dictionary": pa.array(VALUES).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 5], pa.int32()), ["a", None, "b"]),
    "null": pa.nulls(5),
}
FORMS: dict[str, Callable[[pa.Array], Any]] = {
    "array": lambda column: column,
    "chunks": lambda column: pa.chunked_array([column[:2], column[2:2], column[2:]]),
    "batch": lambda column: pa.record_batch({"value": column}),
    "table": lambda column: pa.table({"value": pa.chunked_array([column[:2], column[2:]])}),
    "reader": lambda column: pa.table({"value": column}).to_reader(),
}


def values_of(selected: Any) -> list[Any]:
    """Returns the values of a column, or of the only column of a table."""
    if isinstance(selected, pa.RecordBatchReader):
        selected = selected.read_all()
    if isinstance(selected, (pa.Table, pa.RecordBatch)):
        selected = selected.column(0)
    return selected.to_pylist()  # type: ignore[no-any-return]


NO_IDS = pa.chunked_array([], pa.large_string())


def select(data: Any, kept: np.ndarray) -> Any:
    """Returns the kept rows of data that a run has read."""
    if is_in_memory(data):
        return select_kept_rows(data, kept)
    read = ReadRows.of(TableCorpus(to_table(data), source=data), None)
    return read.select(data, kept, NO_IDS, kept)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COLUMNS)
def test_kept_rows_of_every_arrow_type_are_selected(name: str, form: str) -> None:
    column = COLUMNS[name]
    for mask in MASKS.values():
        data = FORMS[form](column)
        selected = select(data, np.array(mask))
        assert type(selected) is type(data)
        want = [value for value, kept in zip(column.to_pylist(), mask, strict=True) if kept]
        assert values_of(selected) == want
        if form in ("array", "chunks"):
            assert selected.type == column.type
        if form == "batch":
            assert selected.schema == data.schema


def test_table_without_columns_keeps_no_rows() -> None:
    assert select_kept_rows(pa.table({}), np.empty(0, bool)).num_rows == 0


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "data",
    [
        VALUES,
        tuple(VALUES),
        np.array([1, 2, 3, 4, 5]),
        pd.DataFrame({"value": VALUES}, index=[9, 8, 7, 6, 5]),
        pl.DataFrame({"value": VALUES}),
        pl.DataFrame({"value": VALUES}).lazy(),
        {"value": VALUES, "number": np.arange(5)},
    ],
    ids=lambda data: f"{type(data).__module__}.{type(data).__name__}",
)
def test_kept_rows_stay_in_the_library_that_they_came_from(data: Any, mask: str) -> None:
    kept = np.array(MASKS[mask])
    selected = select(data, kept)
    assert type(selected) is type(data)
    want = [value for value, is_kept in zip(VALUES, MASKS[mask], strict=True) if is_kept]
    if isinstance(data, np.ndarray):
        assert selected.tolist() == data[kept].tolist()
    elif isinstance(data, pd.DataFrame):
        assert selected.index.tolist() == data.index[kept].tolist()
        assert selected["value"].tolist() == data["value"][kept].tolist()
    elif isinstance(data, (pl.DataFrame, pl.LazyFrame)):
        assert selected.lazy().collect()["value"].to_list() == want
    elif isinstance(data, dict):
        assert (selected["value"], len(selected["number"])) == (want, len(want))
    else:
        assert list(selected) == want


@pytest.mark.parametrize("data", [VALUES, COLUMNS["text"], {"value": VALUES}], ids=type)
def test_another_number_of_rows_is_refused_with_both_numbers(data: Any) -> None:
    with pytest.raises(UsageError, match="has 5 rows, but the result has 4"):
        select_kept_rows(data, np.ones(4, bool))


def test_another_iterator_is_refused_with_what_to_pass_instead() -> None:
    result = nk.dedup(iter(TEXTS))
    with pytest.raises(UsageError, match="can be read only once; pass the rows as a list"):
        result.filter(iter(TEXTS))


TEXTS = ["a b c d", "e f g h", "a b c d", "i j k l", "e f g h"]
ROWS = pa.table({"key": [30, 9, 7, 10, 1], "text": TEXTS})
KEPT = [1, 7, 10]
"""The smallest key of each text, and its row."""


class Query:
    """A table that returns its rows in another order each time it is executed."""

    def __init__(self) -> None:
        self.executions = 0

    def rows(self) -> pa.Table:
        self.executions += 1
        return ROWS.take([(at + self.executions) % len(ROWS) for at in range(len(ROWS))])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows().__arrow_c_stream__(requested_schema)


def make_lazy_frame() -> pl.LazyFrame:
    query = Query()
    frame = pl.from_arrow(ROWS.slice(0, 0))
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy().map_batches(lambda _: pl.from_arrow(query.rows()))  # type: ignore[arg-type, return-value]


EXECUTED: dict[str, Callable[[], Any]] = {
    "query": Query,
    "lazy frame": make_lazy_frame,
    "reader": lambda: Query().rows().to_reader(),
    "generator": lambda: (row for row in Query().rows().to_pylist()),
}


def keys_of(selected: Any) -> list[int]:
    return sorted(to_table(selected)["key"].to_pylist())


@pytest.mark.parametrize("name", EXECUTED)
def test_rows_of_the_same_object_are_those_of_the_first_reading(name: str) -> None:
    data = EXECUTED[name]()
    result = nk.dedup(data)
    with_ids = nk.dedup(ROWS, id="key")
    texts = to_table(result.filter(data))["text"].to_pylist()
    assert sorted(texts) == sorted(set(TEXTS))
    assert result.to_dataset().num_rows == 3
    data = EXECUTED[name]()
    split = nk.split(data, [0.5, 0.5])
    train, test = (
        set(to_table(split.select(data, name))["text"].to_pylist()) for name in split.names
    )
    assert not train & test
    assert train | test == set(TEXTS)
    if name != "generator":
        assert keys_of(with_ids.filter(EXECUTED[name]())) == KEPT


@pytest.mark.parametrize("name", EXECUTED)
def test_rows_of_another_reading_are_matched_by_ids(name: str) -> None:
    result = nk.dedup(EXECUTED[name](), id="key")
    copied = pickle.loads(pickle.dumps(result))
    given = [ROWS, ROWS.take([4, 3, 2, 1, 0]), ROWS.to_pylist(), ROWS.to_pydict(), Query()]
    given += [make_lazy_frame(), Query().rows().to_reader(), pl.from_arrow(ROWS), ROWS.to_pandas()]
    given += [Dataset(ROWS), ROWS.to_batches()[0]]
    for data in given:
        for found in (result, copied):
            if not isinstance(data, pa.RecordBatchReader) or found is result:
                assert keys_of(found.filter(data)) == KEPT
    split = nk.split(EXECUTED[name](), [0.5, 0.5], id="key")
    parts = [keys_of(split.select(Query(), group)) for group in split.names]
    assert sorted(parts[0] + parts[1]) == sorted(ROWS["key"].to_pylist())
    texts = dict(zip(ROWS["key"].to_pylist(), TEXTS, strict=True))
    assert not {texts[key] for key in parts[0]} & {texts[key] for key in parts[1]}


@pytest.mark.parametrize("name", EXECUTED)
def test_rows_of_another_reading_are_refused_without_ids(name: str) -> None:
    message = "is executed each time it is read, and may return its rows in another order"
    result = nk.dedup(EXECUTED[name]())
    split = nk.split(EXECUTED[name](), [0.5, 0.5])
    in_memory = nk.dedup(ROWS)
    repeated = ROWS.set_column(0, "key", pa.array([1] * 5))
    for other in (Query(), make_lazy_frame(), Query().rows().to_reader()):
        for found in (result, in_memory, pickle.loads(pickle.dumps(result))):
            with pytest.raises(UsageError, match=message):
                found.filter(other)
        with pytest.raises(UsageError, match=message):
            split.select(other, "train")
    for data in (ROWS, TEXTS, ROWS.to_pandas()):
        with pytest.raises(UsageError, match=message):
            result.filter(data)
    with pytest.raises(UsageError, match="pass rows with the column 'key' and without repeated"):
        nk.dedup(EXECUTED[name](), id="key").filter(repeated)


def test_rows_in_memory_are_matched_by_number_without_ids() -> None:
    result = nk.dedup(ROWS.to_pydict(), id="key")
    kept = [30, 9, 7, 10, 1]
    assert result.filter(kept) == [7, 10, 1]
    assert result.filter(np.array(kept)).tolist() == [7, 10, 1]
    assert result.filter({"other": kept}) == {"other": [7, 10, 1]}
    with pytest.raises(UsageError, match=r"'key' has not all ids .* for example not '30'; pass"):
        result.filter(ROWS.set_column(0, "key", pa.array([9, 7, 10, 1, 2])))
    with pytest.raises(UsageError, match="the table has 4 rows, but the result has 5"):
        result.filter(ROWS.slice(1))


def test_rejected_rows_are_not_kept_whatever_their_ids_are() -> None:
    rows = {"key": [3, None, 1, 2], "text": ["a b c", "a b c", None, "d e f"]}
    result = nk.dedup(rows, id="key")
    assert result.filter(rows) == {"key": [3, 2], "text": ["a b c", "d e f"]}
    shuffled = pa.table(rows).take([3, 2, 1, 0])
    assert result.filter(shuffled)["key"].to_pylist() == [2, 3]


def test_columns_that_are_executed_one_by_one_are_refused() -> None:
    columns = {"id": Query(), "text": Query()}
    with pytest.raises(UsageError, match=r"column 'id' is .*Query, which may have its rows"):
        nk.dedup(columns)
