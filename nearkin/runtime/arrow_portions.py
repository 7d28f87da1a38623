"""Portions of Arrow columns. A column that is mapped from a large file needs little memory so."""

from collections.abc import Iterator

import pyarrow as pa

PORTION_BYTES = 8 << 20
"""The number of bytes of a column that are processed at once, approximately."""


def iterate_portions(column: pa.ChunkedArray | pa.Array) -> Iterator[pa.Array]:
    """Yields slices of a column of about PORTION_BYTES each."""
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        rows = max(1, len(chunk) * PORTION_BYTES // max(chunk.nbytes, 1))
        for start in range(0, len(chunk), rows):
            yield chunk.slice(start, rows)
