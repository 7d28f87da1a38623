"""Conversions between numpy arrays and the columns of Spark's rows.

Rows of numbers become binary values. Unsigned numbers become signed ones, bit for bit.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from nearkin.errors import RunError
from nearkin.runtime.number_format import format_count
from nearkin.stages.measures import Measure, Payload

Column: TypeAlias = "pa.Array | pa.ChunkedArray"

MOST_BINARY_BYTES = (1 << 31) - 1
"""The largest size of a binary column of a batch, in bytes. Spark counts them with 32 bits."""


def to_binary_rows(values: np.ndarray) -> pa.Array:
    """Returns the bytes of each row of an array (n,) or (n, width), binary (n,).

    Examples:
        >>> rows = to_binary_rows(np.array([[1, 2], [3, 4]], np.uint32))
        >>> from_binary_rows(rows, np.uint32, 2).tolist()
        [[1, 2], [3, 4]]
    """
    return to_binary_slices(values, np.arange(len(values) + 1))


def to_binary_slices(values: np.ndarray, starts: np.ndarray) -> pa.Array:
    """Returns the bytes of the rows starts[i] to starts[i + 1] of an array, binary (n,)."""
    data = np.ascontiguousarray(values)
    width = data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64))
    offsets = np.asarray(starts, np.int64) * width
    if offsets[-1] > MOST_BINARY_BYTES:
        raise RunError(
            f"a batch of {format_count(len(starts) - 1, 'document')} is compared by "
            f"{int(offsets[-1]):,} bytes, and Spark takes at most {MOST_BINARY_BYTES:,}; lower "
            "spark.sql.execution.arrow.maxRecordsPerBatch, or leave out the longest documents"
        )
    return pa.Array.from_buffers(
        pa.binary(),
        len(starts) - 1,
        [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)],
    )


def read_binary_column(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Returns all bytes of a binary column, uint8, and the size of each value, int64 (n,).

    The column has no nulls.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    data = [np.empty(0, np.uint8)]
    sizes = [np.empty(0, np.int64)]
    for chunk in chunks:
        kind = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
        offsets = np.frombuffer(chunk.buffers()[1], kind)[
            chunk.offset : chunk.offset + len(chunk) + 1
        ].astype(np.int64)
        if len(chunk) and offsets[-1] > offsets[0]:
            data.append(np.frombuffer(chunk.buffers()[2], np.uint8)[offsets[0] : offsets[-1]])
        sizes.append(np.diff(offsets))
    return np.concatenate(data), np.concatenate(sizes)


def from_binary_rows(column: Column, dtype: DTypeLike, width: int | None = None) -> np.ndarray:
    """Returns the array that `to_binary_rows` converted.

    Args:
        dtype: Type of the numbers.
        width: Width of a row, or None for an array (n,).
    """
    values = read_binary_column(column)[0].view(dtype)
    return values if width is None else values.reshape(len(column), width)


def to_signed(values: np.ndarray) -> pa.Array:
    """Converts uint64 to int64, bit for bit."""
    return pa.array(np.ascontiguousarray(values, np.uint64).view(np.int64))


def to_unsigned(column: Column) -> np.ndarray:
    """Converts int64 to uint64, bit for bit."""
    return to_numbers(column).view(np.uint64)


def to_numbers(column: Column) -> np.ndarray:
    """Returns the numbers of a column without nulls."""
    return np.ascontiguousarray(column.to_numpy())


def payload_columns(payload: Payload) -> list[pa.Array]:
    """Returns a binary column for each column of a payload, with a value for each document."""
    starts = np.concatenate([[0], np.cumsum(payload.sizes)])
    return [to_binary_slices(column, starts) for column in payload.columns]


def payload_of(columns: Iterable[Column], measure: Measure) -> Payload:
    """Returns the payload that `payload_columns` converted."""
    unpacked_columns = []
    sizes = np.empty(0, np.int64)
    for column, (dtype, width) in zip(columns, measure.column_types, strict=True):
        data, lengths = read_binary_column(column)
        values = data.view(dtype)
        unpacked_columns.append(values if width is None else values.reshape(-1, width))
        sizes = lengths // (np.dtype(dtype).itemsize * (width or 1))
    return Payload(sizes, tuple(unpacked_columns))


def make_batch(schema: str, **columns: Any) -> pa.RecordBatch:
    """Returns a batch with the columns of a schema. Columns that are not given are null."""
    names = [part.split()[0] for part in schema.split(",")]
    rows = next(len(column) for column in columns.values() if column is not None)
    given = {
        name: column if isinstance(column, pa.Array) else pa.array(column)
        for name, column in columns.items()
    }
    kinds = dict(part.split() for part in schema.split(","))
    arrays = [
        given[name].cast(TYPES[kinds[name]])
        if name in given
        else pa.nulls(rows, TYPES[kinds[name]])
        for name in names
    ]
    return pa.record_batch(arrays, names)


TYPES = {
    "byte": pa.int8(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
}
"""The Arrow types of Spark's type names."""
