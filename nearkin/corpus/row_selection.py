"""The selection of rows of a table, which stays a table of the library that it came from."""

from collections.abc import Iterator, Mapping
from itertools import compress
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_conversion import (
    is_lazy_frame,
    is_pandas,
    is_polars,
    replace_views,
    to_table,
    type_name,
)
from nearkin.corpus.formats.record_batches import filter_column, select_rows
from nearkin.errors import UsageError

T = TypeVar("T")


def select_kept_rows(data: T, kept: np.ndarray) -> T:
    """Returns the kept rows of a table or column, as an object of the same type.

    A lazy frame is collected, because rows have numbers only then, and is lazy again afterwards.
    Any other table with the Arrow interface becomes an Arrow table.

    Args:
        data: A table or a column, as `to_table` accepts it.
        kept: Whether each row is kept, bool (n,).

    Raises:
        UsageError: If the number of rows differs, or the data is an iterator.

    Examples:
        >>> select_kept_rows(("one", "two", "three"), np.array([True, False, True]))
        ('one', 'three')
    """
    return cast(T, _select(data, kept))


def _select(data: Any, kept: np.ndarray) -> Any:
    if isinstance(data, pa.RecordBatchReader):
        table = data.read_all()
        return _select(table, kept).to_reader()
    if isinstance(data, Iterator):
        raise UsageError(
            f"{type_name(data)} can be read only once; pass the rows as a list, or use `kept` of "
            "the result"
        )
    if is_lazy_frame(data):
        return _select(data.collect(), kept).lazy()
    if isinstance(data, Mapping):
        return {name: _select(column, kept) for name, column in data.items()}
    if not hasattr(data, "__len__"):
        # A stream can often be read only once.
        data = to_table(data)
    _require_rows(data, kept)
    if isinstance(data, list):
        return list(compress(data, kept))
    if isinstance(data, tuple):
        return tuple(compress(data, kept))
    if is_pandas(data) or isinstance(data, np.ndarray):
        return data[kept]
    if is_polars(data):
        import polars

        return data.filter(polars.Series(kept))
    if hasattr(data, "with_format") and hasattr(data, "select"):
        return data.select(np.flatnonzero(kept))
    if isinstance(data, pa.Table):
        return _filter_table(replace_views(data), kept)
    if isinstance(data, pa.RecordBatch):
        return select_rows(data, kept)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return filter_column(data, kept)
    return _filter_table(to_table(data), kept)


def _filter_table(table: pa.Table, kept: np.ndarray) -> pa.Table:
    columns = [filter_column(column, kept) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _require_rows(data: Any, kept: np.ndarray) -> None:
    if len(data) != len(kept):
        raise UsageError(
            f"the table has {len(data)} rows, but the result has {len(kept)}; filter the table "
            "that was deduplicated"
        )
