"""Tests of the selection of rows, which keeps the type of the table or column."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nearkin.corpus.row_selection import select_kept_rows
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", COLUMNS)
def test_kept_rows_of_every_arrow_type_are_selected(name: str, form: str) -> None:
    column = COLUMNS[name]
    for mask in MASKS.values():
        data = FORMS[form](column)
        selected = select_kept_rows(data, np.array(mask))
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
    selected = select_kept_rows(data, kept)
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


def test_iterator_is_refused_with_what_to_pass_instead() -> None:
    with pytest.raises(UsageError, match="can be read only once; pass the rows as a list"):
        select_kept_rows(iter(VALUES), np.ones(5, bool))


class ReadOnce:
    """A stream without a length that can be read only once."""

    def __init__(self, table: pa.Table) -> None:
        self._reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


def test_a_stream_is_read_once() -> None:
    table = pa.table({"text": VALUES})
    kept = np.array(MASKS["some"])
    selected: Any = select_kept_rows(ReadOnce(table), kept)
    assert selected.equals(table.filter(pa.array(kept)))
    with pytest.raises(UsageError, match="the table has 5 rows, but the result has 2"):
        select_kept_rows(ReadOnce(table), kept[:2])
