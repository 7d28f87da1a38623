"""Arrays as columns of Spark's rows: fixed-width and ragged numbers as binary, unsigned numbers as signed ones."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from nearkin.measures import Measure, Payload

Column: TypeAlias = "pa.Array | pa.ChunkedArray"


def packed(values: np.ndarray) -> pa.Array:
    """binary (n,): each row of an array (n,) or (n, w) as its bytes.

    Examples:
        >>> unpacked(packed(np.array([[1, 2], [3, 4]], np.uint32)), np.uint32, 2).tolist()
        [[1, 2], [3, 4]]
    """
    return ragged(values, np.arange(len(values) + 1))


def ragged(values: np.ndarray, starts: np.ndarray) -> pa.Array:
    """binary (n,): rows starts[i] to starts[i + 1] of an array as bytes."""
    data = np.ascontiguousarray(values)
    width = data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64))
    offsets = (np.asarray(starts, np.int64) * width).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def content(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """All bytes of a binary column without nulls, uint8 (total,), and the length of each row, int64 (n,)."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    data, sizes = [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
    for chunk in chunks:
        kind = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
        offsets = np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
        if len(chunk) and offsets[-1] > offsets[0]:
            data.append(np.frombuffer(chunk.buffers()[2], np.uint8)[offsets[0] : offsets[-1]])
        sizes.append(np.diff(offsets))
    return np.concatenate(data), np.concatenate(sizes)


def unpacked(column: Column, dtype: DTypeLike, width: int | None = None) -> np.ndarray:
    """The array that `packed` was given, (n,), or (n, width)."""
    values = content(column)[0].view(dtype)
    return values if width is None else values.reshape(len(column), width)


def signed(values: np.ndarray) -> pa.Array:
    """int64 of uint64, bit for bit."""
    return pa.array(np.ascontiguousarray(values, np.uint64).view(np.int64))


def unsigned(column: Column) -> np.ndarray:
    """uint64 of int64, bit for bit."""
    return numbers(column).view(np.uint64)


def numbers(column: Column) -> np.ndarray:
    """The numbers of a column without nulls."""
    return np.ascontiguousarray(column.to_numpy())


def payload_columns(payload: Payload) -> list[pa.Array]:
    """A binary column for each of the payload's columns, a row for each document."""
    starts = np.concatenate([[0], np.cumsum(payload.sizes)])
    return [ragged(column, starts) for column in payload.columns]


def payload_of(columns: Iterable[Column], measure: Measure) -> Payload:
    """The payloads that `payload_columns` was given."""
    found, sizes = [], np.empty(0, np.int64)
    for column, (dtype, width) in zip(columns, measure.column_types, strict=True):
        data, lengths = content(column)
        values = data.view(dtype)
        found.append(values if width is None else values.reshape(-1, width))
        sizes = lengths // (np.dtype(dtype).itemsize * (width or 1))
    return Payload(sizes, tuple(found))


def table(schema: str, **columns: Any) -> pa.RecordBatch:
    """A batch of columns in the order of a schema's names; those left out are null."""
    names = [part.split()[0] for part in schema.split(",")]
    n = next(len(column) for column in columns.values() if column is not None)
    given = {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    kinds = dict(part.split() for part in schema.split(","))
    arrays = [given[name].cast(TYPES[kinds[name]]) if name in given else pa.nulls(n, TYPES[kinds[name]]) for name in names]
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
"""Of Spark's names, in Arrow's terms."""
