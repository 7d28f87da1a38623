"""What callers hold (lists, Arrow, pandas, polars, datasets) as Arrow, without Python strings where it is Arrow already."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_types import replace_views_in_type
from nearkin.corpus.validation import CheckedColumn, check_texts, check_vectors
from nearkin.errors import UsageError


def to_table(data: Any) -> pa.Table:
    """A table of a table, record batch, data frame (pandas, polars), `datasets.Dataset`, mapping of columns, list of texts,
    or matrix (n, d) of vectors.

    Examples:
        >>> to_table(["one", "two"]).column_names
        ['text']
    """
    return replace_views(_to_table(data))


def replace_views(table: pa.Table) -> pa.Table:
    """Returns a table in which views of text are plain text, nested ones too: polars has them, and Arrow cannot filter them."""
    fields = [field.with_type(replace_views_in_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _to_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "with_format") and hasattr(data, "column_names"):
        return pa.table(data.with_format("arrow")[:])
    if isinstance(data, Mapping):
        return pa.table({name: to_chunked(values) for name, values in data.items()})
    if hasattr(data, "__arrow_c_stream__") and not _is_array(data):
        try:
            return pa.table(data)
        except pa.ArrowException as error:
            raise UsageError(f"the table has a column of a type that Arrow does not have ({error}); cast or drop it") from error
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False)
    return pa.table({"vector" if _is_matrix(data) else "text": to_chunked(data)})


def _is_matrix(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.ndim == 2


def _is_array(data: Any) -> bool:
    """Whether it is one column: both columns and tables may have the stream interface."""
    return isinstance(data, pa.Array | pa.ChunkedArray) or not (hasattr(data, "columns") or hasattr(data, "column_names"))


def to_chunked(values: Any) -> pa.ChunkedArray:
    """A column of an Arrow array, a pandas or polars series, a `datasets` column, a numpy array or a sequence."""
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if hasattr(values, "source") and hasattr(values, "column_name"):
        return to_table(values.source)[values.column_name]
    if isinstance(values, str | bytes) or (not isinstance(values, Sequence | np.ndarray) and not hasattr(values, "__len__")):
        raise UsageError(
            f"{type(values).__name__} is not a column of texts; give a list, an Arrow array, a series or a dataset's column"
        )
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if _is_matrix(values):
        return pa.chunked_array([pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])])
    try:
        found = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise UsageError(f"the values are not of one Arrow type: {error}") from error
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def to_vectors(values: Any, dimensions: int) -> list[pa.Array]:
    """fixed_size_list<float> arrays of a column or a matrix (n, d).

    Raises:
        UsageError: At what is no finite, non-zero vector of that many numbers.
    """
    return _checked(values, lambda chunk: check_vectors(chunk, "vector", dimensions))


def to_texts(values: Any) -> list[pa.Array]:
    """large_string arrays of a column; a null or invalid text is an error, for its signature would mean nothing.

    Raises:
        UsageError: At a null, invalid UTF-8 or a column that is no text.
    """
    return _checked(values, lambda chunk: check_texts(chunk, "text"))


def _checked(values: Any, check: Callable[[pa.Array], CheckedColumn]) -> list[pa.Array]:
    out = []
    first = 0
    for chunk in to_chunked(values).chunks:
        if len(chunk) == 0:
            continue
        checked = check(chunk)
        for at, reason in sorted(checked.reasons.items()):
            raise UsageError(f"row {first + at}: {reason}; filter such rows out first")
        out.append(checked.values)
        first += len(chunk)
    return out
