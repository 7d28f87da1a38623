"""The selection of rows of a table, which stays a table of the library that it came from.

Rows are found again by their ids, or by their numbers if both readings are of data in memory. A
lazy frame, a query or a stream is executed for each reading, and may return other rows with the
same numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.arrow_conversion import (
    is_in_memory,
    is_lazy_frame,
    is_pandas,
    is_polars,
    replace_views,
    to_chunked,
    to_table,
    type_name,
)
from nearkin.corpus.batches import Corpus
from nearkin.corpus.corpus import TableCorpus
from nearkin.corpus.formats.record_batches import filter_column, select_rows
from nearkin.corpus.validation import check_ids
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting

T = TypeVar("T")


@dataclass(frozen=True)
class ReadRows:
    """The rows that a run has read, by which they are found in data that is given later.

    Attributes:
        id: The column of ids, or None.
        executed: The type of the data if another reading may have other rows or another order,
            because it is executed for each of them. None for data in memory and for files.
        source: The data that was given, or None for files.
        table: The rows of the data as they were read if another reading may differ, otherwise None.
    """

    id: str | None = None
    executed: str | None = None
    source: Any = None
    table: pa.Table | None = None

    @classmethod
    def of(cls, corpus: Corpus, id: str | None) -> "ReadRows":
        """Returns the rows of a corpus."""
        if not isinstance(corpus, TableCorpus) or corpus.source is None:
            return cls(id)
        if is_in_memory(corpus.source):
            return cls(id, source=corpus.source)
        return cls(id, type_name(corpus.source), corpus.source, corpus.table)

    def forget(self) -> "ReadRows":
        """Returns these rows without the data."""
        return replace(self, source=None, table=None)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "source": None, "table": None}

    def select(self, data: T, rows: np.ndarray, ids: pa.ChunkedArray, documents: np.ndarray) -> T:
        """Returns some of the rows of data, as data of the same type.

        The rows of the object that the run has read are those of its reading. Other data are
        matched by the column of ids, if they have it and ids are not repeated. Without ids, both
        the object and the data must be in memory, and have the same rows in the same order.
        """
        if self.table is not None and data is self.source:
            return cast(T, _like(data, select_kept_rows(self.table, rows)))
        if isinstance(data, Iterator) and not isinstance(data, pa.RecordBatchReader):
            raise UsageError(
                f"{type_name(data)} can be read only once; pass the rows as a list, or use `kept` "
                "of the result"
            )
        executed = self.executed if is_in_memory(data) else type_name(data)
        table = _read(data)
        row_ids = None if self.id is None else _ids_of(table, self.id)
        if row_ids is not None:
            _require_rows(len(row_ids), len(rows))
            rows = _match(row_ids, ids, documents, str(self.id))
        elif executed is not None:
            raise self._unmatched(executed)
        return cast(T, _like(data, select_kept_rows(table, rows)))

    def _unmatched(self, executed: str) -> UsageError:
        remedy = (
            f"run with {name_setting('id')}, or on rows in memory, such as frame.collect() or "
            "pyarrow.table(data), and pass the same object"
        )
        if self.id is not None:
            remedy = f"pass rows with the column {self.id!r} and without repeated ids"
        return UsageError(
            f"{executed} is executed each time it is read, and may return its rows in another "
            f"order, so they cannot be matched by their numbers; {remedy}"
        )


def _read(data: Any) -> Any:
    """Returns data in memory as it is, and other data as a frame of Polars or a table of Arrow."""
    if is_lazy_frame(data):
        return data.collect()
    if is_in_memory(data):
        return data
    return to_table(data)


def _like(data: Any, rows: Any) -> Any:
    """Returns selected rows as the type of data that is not in memory."""
    if is_lazy_frame(data):
        import polars

        frame = rows if isinstance(rows, polars.DataFrame) else polars.from_arrow(rows)
        schema = data.collect_schema()
        changed = {name: kind for name, kind in schema.items() if frame.schema[name] != kind}
        return frame.cast(changed).lazy()
    if isinstance(data, pa.RecordBatchReader):
        return rows.to_reader()
    return rows


def _ids_of(table: Any, name: str) -> pa.ChunkedArray | None:
    """Returns the ids of the rows of a table in memory, large_string (n,).

    They are None if the table has no such column, or repeats an id.
    """
    column = _find_column(table, name)
    if column is None:
        return None
    chunks = [check_ids(chunk, name).values for chunk in to_chunked(column).chunks]
    ids = pa.chunked_array(chunks, pa.large_string())
    known = ids.drop_null()
    return ids if len(pc.unique(known)) == len(known) else None


def _find_column(table: Any, name: str) -> Any:
    if isinstance(table, list | tuple):
        is_there = bool(table) and all(isinstance(row, Mapping) and name in row for row in table)
        return [row[name] for row in table] if is_there else None
    names: Any = getattr(table, "column_names", None) or getattr(table, "columns", ())
    if isinstance(table, Mapping):
        names = table
    if name not in list(names):
        return None
    if hasattr(table, "select_columns"):
        return to_table(table.select_columns([name]))[name]
    return table[name]


def _match(
    row_ids: pa.ChunkedArray, ids: pa.ChunkedArray, documents: np.ndarray, name: str
) -> np.ndarray:
    """Returns which rows are those of selected documents, bool (n,)."""
    places = pc.index_in(row_ids, value_set=ids.combine_chunks())
    is_document = places.is_valid().to_numpy()
    if np.count_nonzero(is_document) < len(ids):
        missing = pc.index_in(ids, value_set=row_ids.combine_chunks()).is_null()
        first = ids.filter(missing)[0].as_py()
        raise UsageError(
            f"column {name!r} has not all ids of the documents, for example not {first!r}; pass "
            "the rows that were read, in any order"
        )
    rows = np.zeros(len(row_ids), bool)
    rows[is_document] = documents[places.drop_null().to_numpy()]
    return rows


def select_kept_rows(data: T, kept: np.ndarray) -> T:
    """Returns the kept rows of a table or column in memory, as an object of the same type.

    A table of another library with the Arrow interface becomes an Arrow table.

    Examples:
        >>> select_kept_rows(("one", "two", "three"), np.array([True, False, True]))
        ('one', 'three')
    """
    return cast(T, _select(data, kept))


def _select(data: Any, kept: np.ndarray) -> Any:
    if isinstance(data, Mapping):
        return {name: _select(column, kept) for name, column in data.items()}
    _require_rows(len(data), len(kept))
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


def _require_rows(given: int, read: int) -> None:
    if given != read:
        raise UsageError(
            f"the table has {given} rows, but the result has {read}; filter the table that was "
            "deduplicated"
        )
