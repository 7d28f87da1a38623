"""Rows of large record batches in uncompressed Arrow IPC files, read one slice at a time.

Arrow reads a record batch as a whole, or maps the file. If another process truncated a mapped
file, this process would end by SIGBUS. The map serves only to find the positions of the buffers
of a batch here; their bytes are read.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS
from nearkin.corpus.formats.record_batches import DamagedRows

ALIGNED = 8
"""Slices begin at a multiple of this row, so that bitmaps begin at a whole byte."""


def read_sliced_batches(path: bytes) -> Iterator[tuple[int, pa.RecordBatch | DamagedRows]] | None:
    """Returns slices of the batches of a file, or None if the file cannot be read in slices."""
    with pa.memory_map(path) as mapped:
        if mapped.read(6) != b"ARROW1":
            return None
        mapped.seek(0)
        base = mapped.read_buffer(1).address
        reader = pa.ipc.open_file(mapped)
        kinds = reader.schema.types
        if not reader.num_record_batches or not all(map(_is_sliceable, kinds)):
            return None
        sample = reader.get_batch(0)
        buffers = [
            buffer
            for column in sample.columns
            for buffer in column.buffers()
            if buffer is not None and buffer.size
        ]
        if not all(base <= buffer.address < base + mapped.size() for buffer in buffers):
            # The buffers are compressed, so a batch is decompressed as a whole in any case.
            return None
    return _read_slices(path)


def _read_slices(path: bytes) -> Iterator[tuple[int, pa.RecordBatch | DamagedRows]]:
    first = 0
    with pa.memory_map(path) as mapped, open(path, "rb") as file:  # noqa: PTH123 (a path in bytes)
        base = mapped.read_buffer(1).address
        reader = pa.ipc.open_file(mapped)
        for number in range(reader.num_record_batches):
            if os.fstat(file.fileno()).st_size < mapped.size():
                # After this, only the few bytes that describe a batch are read through the map.
                raise OSError("the file has become shorter")
            batch = reader.get_batch(number)
            source = _BufferSlicer(file.fileno(), base, mapped.size())
            size = max(batch.get_total_buffer_size(), 1)
            rows = int(min(BATCH_ROWS, len(batch) * BATCH_BYTES / size))
            rows = max(ALIGNED, rows - rows % ALIGNED)
            for start in range(0, len(batch), rows):
                count = min(rows, len(batch) - start)
                try:
                    arrays = [source.rows(column, start, count) for column in batch.columns]
                except _WrongOffsetsError as error:
                    yield first + start, DamagedRows(len(batch) - start, str(error))
                    break
                yield first + start, pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
            first += len(batch)


def _is_sliceable(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_is_sliceable(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_sliceable(kind.value_type)
    return _has_offsets(kind) or (
        pa.types.is_primitive(kind) and not isinstance(kind, pa.BaseExtensionType)
    )


def _has_offsets(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


class _WrongOffsetsError(Exception):
    """An error: offsets of a record batch are not valid."""


class _BufferSlicer:
    """Reads parts of arrays whose buffers are mapped from a file.

    Args:
        size: The size of the map in bytes.
    """

    def __init__(self, handle: int, base: int, size: int) -> None:
        self._handle = handle
        self._base = base
        self._size = size

    def rows(self, array: pa.Array, start: int, count: int) -> pa.Array:
        """Returns some rows of an array, in memory of their own."""
        if count == 0:
            return pa.array([], array.type)
        begin = start - start % ALIGNED
        return self._aligned(array, begin, count + start - begin).slice(start - begin)

    def _aligned(self, array: pa.Array, start: int, count: int) -> pa.Array:
        kind, buffers = array.type, array.buffers()
        validity = None
        if buffers[0] is not None:
            validity = self._read(buffers[0], start // 8, -(-(start + count) // 8))
        if pa.types.is_struct(kind):
            children = [self.rows(array.field(i), start, count) for i in range(kind.num_fields)]
            return pa.Array.from_buffers(kind, count, [validity], children=children)
        if pa.types.is_fixed_size_list(kind):
            values = self.rows(array.values, start * kind.list_size, count * kind.list_size)
            return pa.Array.from_buffers(kind, count, [validity], children=[values])
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            offsets = self._offsets(
                buffers[1], start, count, np.int64 if pa.types.is_large_list(kind) else np.int32
            )
            values = self.rows(array.values, int(offsets[0]), int(offsets[-1] - offsets[0]))
            return pa.Array.from_buffers(
                kind, count, [validity, pa.py_buffer(offsets - offsets[0])], children=[values]
            )
        if _has_offsets(kind):
            large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
            offsets = self._offsets(buffers[1], start, count, np.int64 if large else np.int32)
            data = self._read(buffers[2], int(offsets[0]), int(offsets[-1]))
            return pa.Array.from_buffers(
                kind, count, [validity, pa.py_buffer(offsets - offsets[0]), data]
            )
        data = self._read(
            buffers[1], start * kind.bit_width // 8, -(-(start + count) * kind.bit_width // 8)
        )
        return pa.Array.from_buffers(kind, count, [validity, data])

    def _offsets(
        self, buffer: pa.Buffer, start: int, count: int, dtype: type[np.integer[Any]]
    ) -> np.ndarray:
        width = np.dtype(dtype).itemsize
        offsets = np.frombuffer(
            self._read(buffer, start * width, (start + count + 1) * width), dtype
        )
        if (np.diff(offsets) < 0).any():
            raise _WrongOffsetsError("the offsets decrease")
        return offsets

    def _read(self, buffer: pa.Buffer | None, start: int, stop: int) -> pa.Buffer:
        if buffer is None or stop <= start:
            return pa.py_buffer(b"")
        if stop > buffer.size:
            raise _WrongOffsetsError("an offset is beyond the values")
        place = buffer.address - self._base
        if not 0 <= place < self._size:
            # Arrow had to decompress this buffer, so it is in memory.
            return buffer.slice(start, stop - start)
        data = bytearray(stop - start)
        done = 0
        while done < len(data):
            more = os.preadv(self._handle, [memoryview(data)[done:]], place + start + done)
            if more == 0:
                raise OSError("the file ends inside a record batch")
            done += more
        return pa.py_buffer(data)
