"""Conversion of tables and columns of other libraries to Arrow.

Lists, Arrow, pandas, polars, datasets and numpy are supported. Values that are in Arrow already
do not become Python strings.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_types import replace_views_in_type
from nearkin.corpus.validation import CheckedColumn, check_texts, check_vectors
from nearkin.errors import UsageError


def to_table(data: Any) -> pa.Table:
    """Returns an Arrow table.

    Args:
        data: A table, a record batch, a data frame (pandas, polars), a `datasets.Dataset`, a
            mapping of columns, a list of texts, or a matrix (n, d) of vectors.

    Raises:
        UsageError: If a column has a type that Arrow does not have, or is not a column.

    Examples:
        >>> to_table(["one", "two"]).column_names
        ['text']
    """
    return replace_views(_to_table(data))


def replace_views(table: pa.Table) -> pa.Table:
    """Returns a table with plain text in place of views of text, also inside lists and structs.

    polars produces views, and Arrow cannot filter them.
    """
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
            raise UsageError(
                "the table has a column of a type that Arrow does not have "
                f"({error}); cast or drop it"
            ) from error
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False)
    return pa.table({"vector" if _is_matrix(data) else "text": to_chunked(data)})


def _is_matrix(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.ndim == 2


def _is_array(data: Any) -> bool:
    """Returns True for a single column. Columns and tables may both have the stream interface."""
    return isinstance(data, pa.Array | pa.ChunkedArray) or not (
        hasattr(data, "columns") or hasattr(data, "column_names")
    )


def to_chunked(values: Any) -> pa.ChunkedArray:
    """Returns a column as an Arrow array in chunks.

    Args:
        values: An Arrow array, a pandas or polars series, a `datasets` column, a numpy array or
            a sequence.

    Raises:
        UsageError: If the value is not a column, or its values have no common Arrow type.
    """
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if hasattr(values, "source") and hasattr(values, "column_name"):
        return to_table(values.source)[values.column_name]
    if isinstance(values, str | bytes) or (
        not isinstance(values, Sequence | np.ndarray) and not hasattr(values, "__len__")
    ):
        raise UsageError(
            f"{type(values).__name__} is not a column of texts; give a list, an "
            "Arrow array, a series or a dataset's column"
        )
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if _is_matrix(values):
        return pa.chunked_array(
            [pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])]
        )
    try:
        found = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise UsageError(f"the values are not of one Arrow type: {error}") from error
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def to_vectors(values: Any, dimensions: int) -> list[pa.Array]:
    """Returns the vectors of a column, in chunks of type fixed_size_list<float>.

    Args:
        values: A column of lists of numbers, or a matrix (n, d).
        dimensions: The number of dimensions of each vector.

    Raises:
        UsageError: If a value is not a finite vector of that length, or is zero. The message
            names the row.
    """
    return _checked(values, lambda chunk: check_vectors(chunk, "vector", dimensions))


def to_texts(values: Any) -> list[pa.Array]:
    """Returns the texts of a column, in chunks of type large_string.

    Raises:
        UsageError: If a text is null or not valid UTF-8, or the column is not text. The message
            names the row.
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
            raise UsageError(f"row {first + at}: {reason}; remove such rows first")
        out.append(checked.values)
        first += len(chunk)
    return out
