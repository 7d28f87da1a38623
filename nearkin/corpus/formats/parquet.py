"""Parquet files, which are read and written by row group."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus.columns import Columns
from nearkin.corpus.foreign_errors import DamageError
from nearkin.corpus.formats.base import FileSlice, Reading, make_damaged_slice
from nearkin.corpus.formats.parquet_chunks import ColumnChunks
from nearkin.corpus.formats.parquet_row_groups import RowGroupReader, list_row_groups
from nearkin.corpus.formats.record_batches import (
    AHEAD,
    ColumnarFormat,
    TableWriter,
    check_batches,
    split_batches,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.places import RowGroup
from nearkin.runtime.threads import ordered_map

LONG = 64
"""The average size in bytes from which values are written without a dictionary."""
CODECS = ("snappy", "zstd", "lz4", "none")
"""The codecs in which files can be written, by their names in Arrow."""
DECODERS = 2
"""The number of row groups that are decoded at the same time."""


class _RowGroupWriter:
    """Collects batches into row groups that are large enough to compress well."""

    ROWS = 1 << 17
    BYTES = 64 << 20
    COLUMN_BYTES = 512
    """The number of bytes that a column of a batch takes besides its values."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch.cast(self._schema) if batch.schema != self._schema else batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes + batch.num_columns * self.COLUMN_BYTES
        if self._rows >= self.ROWS or self._bytes >= self.BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(
                pa.Table.from_batches(self._held, self._schema), row_group_size=self._rows
            )
        self._held = []
        self._rows = 0
        self._bytes = 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _reject_rest_of_group(
    group: RowGroup, row: int, damage: DamageError, file_bytes: int, columns: Columns
) -> FileSlice:
    end = group.first + group.rows
    reason = (
        f"the file cannot be read: rows {row} to {end - 1} (row group {group.number}): {damage}"
    )
    # A footer may claim any number of rows.
    return make_damaged_slice(reason, row, end, columns, are_counted=group.rows <= file_bytes)


class Parquet(ColumnarFormat):
    """The parquet format. A damaged row group costs its own rows, from the damage on.

    Attributes:
        ahead: The number of bytes up to which a row group is decoded ahead, two at a time.
        codec: The codec of files that are written, or None for that of each input.
    """

    def __init__(self, ahead: int = AHEAD) -> None:
        self.ahead = ahead
        self.codec: str | None = None

    def schema(self, file: InputFile) -> pa.Schema:
        """Returns the stored schema of a file."""
        with file.open() as source:
            return pq.read_schema(source)

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`."""
        with file.open() as source, pq.ParquetFile(source) as parquet:
            groups = [
                group
                for group in list_row_groups(parquet.metadata, reading.start)
                if reading.needs(group.first, group.first + group.rows)
            ]
            columns, start, whole, rows, _ = reading
            reader = RowGroupReader(source, parquet.metadata, columns, whole=whole)
            # A single row group would be decoded completely before its first rows are used. Copies
            # are limited by the thread that encodes them. Consecutive rows are the part of a
            # worker, beside which others decode their own parts.
            is_part = rows is not None and len(rows) == rows[-1] - rows[0] + 1
            in_threads = (
                not whole
                and not is_part
                and len(groups) > 1
                and all(group.bytes <= self.ahead for group in groups)
            )
            if in_threads:
                decoded = ordered_map(
                    lambda group: reader.batches(group, self.ahead), groups, DECODERS, 0
                )
            else:
                decoded = (reader.batches(group, 0) for group in groups)
            for group, (batches, until) in zip(groups, decoded, strict=True):
                row = max(group.first, start)
                for file_slice in check_batches(
                    split_batches(batches, group.first, start), columns, whole=whole
                ):
                    row = file_slice.next_row
                    yield file_slice
                if until.damage is not None:
                    yield _reject_rest_of_group(group, row, until.damage, source.size(), columns)

    def row_groups(self, file: InputFile, start: int) -> list[RowGroup] | None:
        """Returns the row groups with rows from `start` on, or None if one is too large to be held.

        It is None as well if the footer states more rows than the file has bytes: a footer may
        claim any number, and each row of a part takes memory and a place in the work files.
        """
        with file.open() as source, pq.ParquetFile(source) as parquet:
            groups = list(list_row_groups(parquet.metadata, start))
            are_counted = sum(group.rows for group in groups) <= source.size()
        are_held = all(group.bytes <= self.ahead for group in groups)
        return groups if are_counted and are_held else None

    def writer(self, file: InputFile, columns: Columns, target: str) -> TableWriter:
        """Returns a writer with the schema of the input, and its compression or the chosen one."""
        with file.open() as source, pq.ParquetFile(source) as parquet:
            schema = parquet.schema_arrow
            codec = self.codec or self._codec(parquet)
            texts = self._long_columns(parquet)

        def open_writer(schema: pa.Schema) -> _RowGroupWriter:
            # Looking for repeats among long texts costs more than writing them.
            short = [name for name in schema.names if name not in texts]
            return _RowGroupWriter(
                pq.ParquetWriter(target, schema, compression=codec, use_dictionary=short or False),
                schema,
            )

        return TableWriter(schema, open_writer)

    @staticmethod
    def _long_columns(parquet: pq.ParquetFile) -> set[str]:
        rows, chunks = ColumnChunks(parquet.metadata).of_first_group()
        return {
            chunk.path_in_schema
            for chunk in chunks
            if chunk.total_uncompressed_size > LONG * max(rows, 1)
        }

    @staticmethod
    def _codec(parquet: pq.ParquetFile) -> str:
        _, chunks = ColumnChunks(parquet.metadata).of_first_group()
        if not chunks:
            return "snappy"
        codec = str(chunks[0].compression).lower()
        return "none" if codec == "uncompressed" else codec
