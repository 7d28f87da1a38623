"""Parquet and Arrow IPC: batches of columns."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from nearkin.corpus.accept import check_rows
from nearkin.corpus.batches import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.files import InputFile
from nearkin.corpus.formats import Piece, fresh_name
from nearkin.corpus.values import unfolded_sizes
from nearkin.threads import ordered_map

LONG = 64
DECODERS = 2
AHEAD = 128 << 20
READ_BUFFER = 1 << 20
"""Bytes of a column that are read at a time; without it, a column of a row group is read whole before it is decoded."""


def pieces(batches: Iterator[tuple[int, pa.RecordBatch]], columns: Columns, whole: bool) -> Iterator[Piece]:
    """Pieces of (first row, batch)."""
    for first, batch in batches:
        checked = check_rows(batch, columns)
        rejected = [(first + at, reason, raw) for at, reason, raw in checked.rejected]
        complete = None
        if whole:
            complete = rows_of(batch, checked.mask)
        yield Piece(checked.kept + first, checked.documents, rejected, first + len(batch), complete)


def rows_of(batch: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    """Returns the rows at which the mask is true, of columns of any type."""
    if mask.all():
        return batch
    return pa.record_batch([_filtered(column, mask) for column in batch.columns], schema=batch.schema)


def _filtered(column: pa.Array, mask: np.ndarray) -> pa.Array:
    try:
        return column.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:
        # views, on their own and inside of lists and dictionaries: what can be sliced can be joined again
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
        runs = [column.slice(start, end - start) for start, end in edges.reshape(-1, 2).tolist()]
        return pa.concat_arrays(runs) if runs else column.slice(0, 0)


def split(first: int, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of a size that a thread works on at a time; one that is nearly so stays whole."""
    unfolded = [sizes for column in batch.columns if (sizes := unfolded_sizes(column)) is not None]
    if unfolded:
        yield from _split_by_size(first, batch, np.sum(unfolded, axis=0))
        return
    if len(batch) <= BATCH_ROWS and batch.nbytes <= 2 * BATCH_BYTES:
        yield first, batch
        return
    rows = max(1, min(BATCH_ROWS, int(len(batch) * BATCH_BYTES / max(batch.nbytes, 1))))
    for start in range(0, len(batch), rows):
        yield first + start, batch.slice(start, rows)


def _split_by_size(first: int, batch: pa.RecordBatch, sizes: np.ndarray) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of rows whose encoded values stand for about BATCH_BYTES."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(batch):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        end = min(max(end, start + 1), start + BATCH_ROWS, len(batch))
        yield first + start, batch.slice(start, end - start)
        start = end


class TableWriter:
    """Writes record batches through a writer that is made when the first one tells the schema."""

    def __init__(self, schema: pa.Schema, open_writer: Any) -> None:
        self._schema = schema
        self._open = open_writer
        self._writer: Any = None

    def select(self, whole: pa.RecordBatch, keep: np.ndarray, added: pa.RecordBatch | None) -> pa.RecordBatch:
        batch = rows_of(whole, keep)
        if added is not None:
            taken = set(batch.schema.names)
            for name in added.schema.names:
                batch = batch.append_column(fresh_name(name, taken), added[name])
        return batch

    def write(self, rows: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = self._open(rows.schema.with_metadata(self._schema.metadata))
        self._writer.write(rows)

    def close(self) -> None:
        if self._writer is None:
            self._writer = self._open(self._schema)
        self._writer.close()


class _RowGroups:
    """Collects batches to row groups of a size worth compressing."""

    ROWS = 1 << 17
    BYTES = 64 << 20

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch.cast(self._schema) if batch.schema != self._schema else batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= self.ROWS or self._bytes >= self.BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema), row_group_size=self._rows)
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


class RowGroup(NamedTuple):
    """Where a row group begins, and its size uncompressed."""

    number: int
    first: int
    rows: int
    bytes: int


def row_groups(metadata: pq.FileMetaData, start: int) -> Iterator[RowGroup]:
    """Those that hold rows from `start` on."""
    first = 0
    for number in range(metadata.num_row_groups):
        facts = metadata.row_group(number)
        if first + facts.num_rows > start:
            yield RowGroup(number, first, facts.num_rows, facts.total_byte_size)
        first += facts.num_rows


def decoded_batches(
    source: Any, metadata: pq.FileMetaData, group: RowGroup, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """A row group in batches; through a reader of its own, so that several may be decoded at a time."""
    size = max(1, min(BATCH_ROWS, group.rows * BATCH_BYTES // max(group.bytes, 1)))
    reader = pq.ParquetFile(source, metadata=metadata, buffer_size=READ_BUFFER)
    yield from reader.iter_batches(size, [group.number], columns, use_threads=False)


def _numbered(
    groups: list[RowGroup], decoded: Iterator[Iterable[pa.RecordBatch]], start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    for group, batches in zip(groups, decoded, strict=True):
        first = group.first
        for batch in batches:
            skipped = min(max(start - first, 0), len(batch))
            yield from split(first + skipped, batch.slice(skipped))
            first += len(batch)


class Parquet:
    """Columnar files, read by row group.

    Args:
        ahead: Bytes up to which a row group is decoded as a whole, two at a time; larger ones are streamed.
    """

    def __init__(self, ahead: int = AHEAD) -> None:
        self._ahead = ahead

    def columns(self, file: InputFile) -> list[str]:
        with file.open() as source:
            return list(pq.read_schema(source).names)

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[Piece]:
        with file.open() as source, pq.ParquetFile(source) as parquet:
            groups = list(row_groups(parquet.metadata, start))
            names = None if whole else list(columns.all)

            def decode(group: RowGroup) -> list[pa.RecordBatch]:
                return list(decoded_batches(source, parquet.metadata, group, names))

            if any(group.bytes > self._ahead for group in groups):
                done: Iterator[Iterable[pa.RecordBatch]] = (
                    decoded_batches(source, parquet.metadata, group, names) for group in groups
                )
            else:
                done = ordered_map(decode, groups, DECODERS, 0)
            yield from pieces(_numbered(groups, done, start), columns, whole)

    def writer(self, file: InputFile, target: str) -> TableWriter:
        with file.open() as source, pq.ParquetFile(source) as parquet:
            schema, codec, texts = parquet.schema_arrow, self._codec(parquet), self._long_columns(parquet)

        def open_writer(schema: pa.Schema) -> _RowGroups:
            # Looking for repeats among long texts costs more than writing them.
            short = [name for name in schema.names if name not in texts]
            return _RowGroups(pq.ParquetWriter(target, schema, compression=codec, use_dictionary=short or False), schema)

        return TableWriter(schema, open_writer)

    @staticmethod
    def _long_columns(parquet: pq.ParquetFile) -> set[str]:
        """Columns whose values take more than LONG bytes on average."""
        facts = parquet.metadata
        if not facts.num_row_groups:
            return set()
        group = facts.row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        return {c.path_in_schema for c in columns if c.total_uncompressed_size > LONG * max(group.num_rows, 1)}

    @staticmethod
    def _codec(parquet: pq.ParquetFile) -> str:
        facts = parquet.metadata
        if not facts.num_row_groups or not facts.num_columns:
            return "snappy"
        codec = str(facts.row_group(0).column(0).compression).lower()
        return "none" if codec == "uncompressed" else codec


class ArrowIpc:
    """Arrow IPC files and streams (Feather v2 too)."""

    def columns(self, file: InputFile) -> list[str]:
        with file.open_decompressed() as source:
            return list(self._open(source).schema.names)

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[Piece]:
        with file.open_decompressed() as source:
            reader = self._open(source)
            yield from pieces(self._batches(self._each(reader), start, None if whole else list(columns.all)), columns, whole)

    @staticmethod
    def _open(source: Any) -> Any:
        """A file has its index at the end and starts with a magic word; a stream has neither."""
        if not source.seekable():
            return pa.ipc.open_stream(source)
        magic = source.read(6)
        source.seek(0)
        return pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)

    @staticmethod
    def _each(reader: Any) -> Iterator[pa.RecordBatch]:
        if hasattr(reader, "num_record_batches"):
            return (reader.get_batch(i) for i in range(reader.num_record_batches))
        return iter(reader)

    @staticmethod
    def _batches(
        batches: Iterator[pa.RecordBatch], start: int, columns: list[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        for batch in batches:
            skipped = min(max(start - first, 0), len(batch))
            part = batch if columns is None else batch.select(columns)
            yield from split(first + skipped, part.slice(skipped))
            first += len(batch)

    def writer(self, file: InputFile, target: str) -> TableWriter:
        with file.open_decompressed() as source:
            reader = self._open(source)
            schema, is_file = reader.schema, hasattr(reader, "num_record_batches")
        sink = pa.OSFile(target, "wb") if file.compression is None else pa.CompressedOutputStream(target, file.compression)
        open_writer = pa.ipc.new_file if is_file else pa.ipc.new_stream

        class _Closing:
            def __init__(self, schema: pa.Schema) -> None:
                self._writer = open_writer(sink, schema)

            def write(self, batch: pa.RecordBatch) -> None:
                self._writer.write(batch)

            def close(self) -> None:
                self._writer.close()
                sink.close()

        return TableWriter(schema, _Closing)
