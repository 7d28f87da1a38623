"""Record batches, which parquet and Arrow files consist of: checking, splitting and writing."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus.batches import Rejection
from nearkin.corpus.checked_column import null_reason
from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.encoded_columns import (
    cast_to_stored_type,
    measure_decoded_rows,
    without_dictionary,
)
from nearkin.corpus.formats.base import (
    FileSlice,
    Format,
    Reading,
    ValueReader,
    make_damaged_slice,
    make_rejected_slice,
    make_unused_name,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import find_root, list_roots
from nearkin.corpus.stored_values import replace_stored, to_plain
from nearkin.corpus.untrusted_batches import examine_batch, find_invalid_text
from nearkin.corpus.validation import NO_FAULTS, check_rows

AHEAD = 128 << 20
"""The number of bytes up to which parts of a file are decoded ahead."""
LONG_RUN = 1024
"""The number of consecutive nulls in place of documents from which they are one rejection."""


class ColumnarFormat(Format):
    """A format whose files have a schema of Arrow and consist of record batches."""

    @abstractmethod
    def schema(self, file: InputFile) -> pa.Schema:
        """Returns the stored schema of a file."""

    def columns(self, file: InputFile, requested: Columns) -> list[str]:
        """Returns the names of the columns."""
        return list(self.schema(file).names)

    def value_reader(self, file: InputFile, columns: Columns, names: Sequence[str]) -> ValueReader:
        """Returns a function that returns columns of rows in their types, without encodings."""
        return lambda rows: pa.record_batch([to_plain(rows[name]) for name in names], list(names))


def check_stored_batches(
    stored: Iterable[tuple[int, pa.RecordBatch]],
    reading: Reading,
    *,
    has_all_columns: bool = True,
) -> Iterator[FileSlice]:
    """Yields the documents and rejected rows of batches as they are stored.

    A batch is rejected as a whole if a column is damaged, also one that is only copied. So the same
    rows are documents whether they are copied or not.
    """
    columns, start, whole, rows, _ = reading
    for first, batch in stored:
        end = first + len(batch)
        begin = max(first, start)
        if begin >= end or not reading.needs(begin, end):
            continue
        examined = examine_batch(batch if whole or rows is None else _select(batch, columns))
        if examined.damage is not None:
            yield _reject_batch(examined.damage, begin, end, columns)
            continue
        needed = batch if whole else _select(batch, columns)
        for at, part in split_batch(begin, needed.slice(begin - first)):
            faults = NO_FAULTS
            if examined.has_invalid_values and has_all_columns:
                roots = list_roots(columns, batch.schema.names)
                faults = find_invalid_text(batch.slice(at - first, len(part)), roots)
            complete = part if whole else None
            yield _check_batch(at, _select(part, columns), complete, columns, faults)


def _reject_batch(reason: str, begin: int, end: int, columns: Columns) -> FileSlice:
    reason = f"the file cannot be read: rows {begin} to {end - 1}: {reason}"
    return make_damaged_slice(reason, begin, end, columns)


def _select(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    roots = list_roots(columns, batch.schema.names)
    for name in roots:
        if name not in batch.schema.names:
            raise ValueError(f"the column {name!r} is missing")
    return batch.select(roots)


def check_batches(
    batches: Iterator[tuple[int, pa.RecordBatch]], columns: Columns, *, whole: bool
) -> Iterator[FileSlice]:
    """Yields the documents and rejected rows of batches."""
    for first, batch in batches:
        yield _check_batch(first, batch, batch if whole else None, columns)


def _check_batch(
    first: int,
    batch: pa.RecordBatch,
    complete: pa.RecordBatch | None,
    columns: Columns,
    faults: Mapping[int, str] = NO_FAULTS,
) -> FileSlice:
    end = first + len(batch)
    if len(batch) >= LONG_RUN and _has_only_nulls(batch, columns):
        # A few bytes of a file can stand for any number of nulls.
        run = Rejection(first, null_reason(columns.source), "", rows=len(batch))
        return make_rejected_slice(run, end, columns)
    checked = check_rows(batch, columns, faults)
    rejected = [Rejection(first + at, reason, raw) for at, reason, raw in checked.rejected]
    if complete is not None:
        complete = select_rows(complete, checked.mask)
    return FileSlice(checked.kept + first, checked.documents, rejected, end, complete)


def _has_only_nulls(batch: pa.RecordBatch, columns: Columns) -> bool:
    if columns.fields or columns.joined or columns.source not in columns.stored:
        return False
    root = find_root(columns.source, batch.schema.names)
    return root is not None and batch[root].null_count == len(batch)


def select_rows(batch: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    """Returns the rows at which the mask, bool (n,), is true, of columns of any type."""
    if mask.all():
        return batch
    return pa.record_batch(
        [filter_column(column, mask) for column in batch.columns], schema=batch.schema
    )


def filter_column(
    column: "pa.Array | pa.ChunkedArray", mask: np.ndarray
) -> "pa.Array | pa.ChunkedArray":
    """Returns the values at which the mask, bool (n,), is true, as a column of the same type."""
    try:
        return column.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:
        # Arrow cannot filter views and runs, but it can slice and concatenate them.
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
        runs = [column.slice(start, end - start) for start, end in edges.reshape(-1, 2).tolist()]
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([chunk for run in runs for chunk in run.chunks], column.type)
        return pa.concat_arrays(runs) if runs else column.slice(0, 0)


def number_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the batches of a file, each with the number of its first row."""
    first = 0
    for batch in batches:
        yield first, batch
        first += len(batch)


def split_batches(
    batches: Iterable[pa.RecordBatch], first: int, start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows from one on, in parts of a size that one thread processes at a time."""
    for batch in batches:
        skipped = min(max(start - first, 0), len(batch))
        if skipped < len(batch):
            yield from split_batch(first + skipped, batch.slice(skipped))
        first += len(batch)


def split_batch(first: int, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields parts of a batch of a size that one thread processes at a time."""
    unfolded = [
        sizes for column in batch.columns if (sizes := measure_decoded_rows(column)) is not None
    ]
    if unfolded:
        yield from _split_by_size(
            first, batch, np.sum(unfolded, axis=0) + batch.nbytes // max(len(batch), 1)
        )
        return
    if len(batch) <= BATCH_ROWS and batch.nbytes <= 2 * BATCH_BYTES:
        yield first, batch
        return
    rows = max(1, min(BATCH_ROWS, int(len(batch) * BATCH_BYTES / max(batch.nbytes, 1))))
    for start in range(0, len(batch), rows):
        yield first + start, batch.slice(start, rows)


def _split_by_size(
    first: int, batch: pa.RecordBatch, sizes: np.ndarray
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields parts of a batch whose decoded rows have about BATCH_BYTES."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(batch):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        end = min(max(end, start + 1), start + BATCH_ROWS, len(batch))
        yield first + start, batch.slice(start, end - start)
        start = end


def _cast_to_schema(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch in the types of a schema, without dictionaries that only reading made."""
    if batch.schema.types == schema.types:
        return batch
    columns = [
        cast_to_stored_type(column, kind)
        for column, kind in zip(batch.columns, schema.types, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


class TableWriter:
    """A writer of record batches, which opens its file when the first rows are written."""

    def __init__(
        self,
        schema: pa.Schema,
        open_writer: Any,
        *,
        has_one_dictionary: bool = False,
    ) -> None:
        self._schema = schema
        self._has_one_dictionary = has_one_dictionary
        self._open = open_writer
        self._writer: Any = None

    def expect_new_values(self, names: Iterable[str]) -> None:
        """Prepares for values that the input does not have, before the first rows are written.

        They are written without a dictionary if it would have to hold the values of all batches.
        """
        for name in names if self._has_one_dictionary else ():
            at = self._schema.get_field_index(name)
            stored = self._schema.field(at)
            self._schema = self._schema.set(at, stored.with_type(without_dictionary(stored.type)))

    def replace_values(
        self, complete_rows: pa.RecordBatch, name: str, values: pa.Array
    ) -> pa.RecordBatch:
        """Returns rows with other values of a column, in the type of the input."""
        at = complete_rows.schema.get_field_index(name)
        stored = complete_rows.schema.field(at)
        replaced = replace_stored(complete_rows[at], values)
        return complete_rows.set_column(at, stored.with_type(replaced.type), replaced)

    def select(
        self, complete_rows: pa.RecordBatch, keep: np.ndarray, added: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        """Returns the kept rows in the types of the input, with added columns."""
        batch = _cast_to_schema(self._schema, select_rows(complete_rows, keep))
        if added is not None:
            taken = set(batch.schema.names)
            for name in added.schema.names:
                batch = batch.append_column(make_unused_name(name, taken), added[name])
        return batch

    def write(self, rows: pa.RecordBatch) -> None:
        """Writes rows that `select` returned."""
        if self._writer is None:
            self._writer = self._open(rows.schema.with_metadata(self._schema.metadata))
        self._writer.write(rows)

    def close(self) -> None:
        """Completes the file."""
        if self._writer is None:
            self._writer = self._open(self._schema)
        self._writer.close()
