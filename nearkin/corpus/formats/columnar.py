"""Parquet and Arrow IPC: batches of columns."""

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from nearkin.corpus.batches import BATCH_BYTES, BATCH_ROWS, WHOLE_FILE, Columns
from nearkin.corpus.column_values import in_type, is_binary, is_list, is_text, unfolded_sizes
from nearkin.corpus.formats.base import Piece, UntilDamage, fresh_name, one_line
from nearkin.corpus.formats.ipc_messages import MAGIC, MAGIC_BYTES, unfolded_messages
from nearkin.corpus.formats.ipc_slices import sliced_batches
from nearkin.corpus.formats.parquet_pages import (
    READ_BUFFER,
    PageSizes,
    dictionary_bytes,
    longest_stored_value,
    page_sizes,
    stated_sizes,
)
from nearkin.corpus.formats.parquet_values import ByteColumn, longest_dictionary_value
from nearkin.corpus.formats.scratch import Scratch
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import check_rows, no_documents
from nearkin.errors import RunError
from nearkin.runtime.threads import ordered_map

LONG = 64
DECODERS = 2
AHEAD = 128 << 20
LONG_VALUE = 1 << 19
"""Bytes of a value from which a column stays a dictionary until its rows are known; shorter ones only make batches smaller."""
LONG_ELEMENT = 1 << 10
"""Bytes of an element of a list from which its column stays a dictionary until its rows are known."""
UNFOLDED_BATCH = 4 * BATCH_BYTES
"""Bytes that a batch may take if each of its rows had the longest value of each dictionary."""
DECODER_SHARE = 4
"""The columns of a row group are decoded at once if that takes up to so many times the bytes of a document: an eighth of the
memory bound. More of them are decoded in portions."""
BATCH_SHARE = 16
"""A record batch, which is read whole, may unfold into so many times the bytes of a document: half of the memory bound."""
PAGE_SHARE = 8
"""A page that pyarrow decodes may unfold into so many times the bytes of a document."""
LARGE_PAGE_SHARE = 16
"""A page of texts that is larger than that is decoded value by value, in memory up to so many times the bytes of a document."""


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
        yield from _split_by_size(first, batch, np.sum(unfolded, axis=0) + batch.nbytes // max(len(batch), 1))
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


def _in_types_of(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch without the dictionaries that only reading made."""
    if batch.schema.types == schema.types:
        return batch
    columns = [in_type(column, kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
    return pa.record_batch(columns, schema=schema)


class TableWriter:
    """Writes record batches through a writer that is made when the first one tells the schema."""

    def __init__(self, schema: pa.Schema, open_writer: Any) -> None:
        self._schema = schema
        self._open = open_writer
        self._writer: Any = None

    def select(self, whole: pa.RecordBatch, keep: np.ndarray, added: pa.RecordBatch | None) -> pa.RecordBatch:
        batch = _in_types_of(self._schema, rows_of(whole, keep))
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
    COLUMN_BYTES = 512
    """What a column of a batch takes beside its values."""

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


def _damaged(group: RowGroup, row: int, damage: Exception, columns: Columns) -> Piece:
    """Returns the rejection of the rows of a row group that cannot be read."""
    end = group.first + group.rows
    reason = f"unreadable: rows {row} to {end - 1} (row group {group.number}): {one_line(damage)}"
    return Piece(np.empty(0, np.int64), no_documents(columns), [(WHOLE_FILE, reason, "")], end)


class _GroupReader:
    """Decodes the row groups of a file in bounded batches.

    Args:
        source: The open file.
        metadata: Its footer.
        columns: What the run reads.
        whole: Whether all columns are decoded.
        scratch: Makes files for columns that cannot be decoded at once.
    """

    def __init__(self, source: Any, metadata: pq.FileMetaData, columns: Columns, whole: bool, scratch: Scratch) -> None:
        self._source = source
        self._scratch = scratch
        self._metadata = metadata
        self._schema = metadata.schema.to_arrow_schema()
        self._read = set(columns.all)
        self._names = None if whole else list(columns.all)
        self._document_limit = columns.document_limit
        self._page_limit = PAGE_SHARE * columns.document_limit
        self._decoder_limit = DECODER_SHARE * columns.document_limit

    def batches(self, group: RowGroup, ahead: int) -> tuple[Iterable[pa.RecordBatch], UntilDamage[pa.RecordBatch]]:
        """Returns a row group's batches, the first `ahead` bytes of them decoded already, and the error of a damage."""
        until = UntilDamage(self._decoded(group))
        batches = iter(until)
        taken: list[pa.RecordBatch] = []
        size = 0
        while size < ahead and (batch := next(batches, None)) is not None:
            taken.append(batch)
            size += batch.nbytes
        return itertools.chain(taken, batches), until

    def _decoded(self, group: RowGroup) -> Iterator[pa.RecordBatch]:
        sizes = self._page_sizes(group)
        large = self._large_columns(group, sizes)
        size, in_dictionaries = self._batch_size(group, large)
        portions = self._portions(group, sizes, large)
        if len(portions) > 1:
            # portions wait in a file, which would be as large as all values if each row had its own
            in_dictionaries = list(dict.fromkeys([*in_dictionaries, *self._flat_dictionaries(group, large)]))
        # a reader of its own, so that several groups may be decoded at a time
        reader = pq.ParquetFile(
            self._source,
            metadata=self._metadata,
            buffer_size=READ_BUFFER,
            read_dictionary=in_dictionaries,
            page_checksum_verification=True,
        )
        if large:
            batches = self._with_large(reader, group, size, large, portions)
        else:
            batches = self._plain(reader, group, size, portions)
        rows = 0
        for batch in batches:
            rows += len(batch)
            if rows > group.rows:
                break
            self._require_bounded_lists(batch, in_dictionaries)
            yield batch
        if rows != group.rows:
            raise ValueError(f"the footer says that it has {group.rows} rows, and it has {'more' if rows else 'none'}")

    def _require_bounded_lists(self, batch: pa.RecordBatch, in_dictionaries: Collection[str]) -> None:
        """Raises ValueError if a row of a column that is only copied holds too much text to be decoded."""
        for name in {path.split(".")[0] for path in in_dictionaries if "." in path} - self._read:
            sizes = unfolded_sizes(batch[name])
            largest = 0 if sizes is None else int(np.max(sizes, initial=0))
            if largest > self._page_limit:
                raise ValueError(
                    f"a row of column {name!r} unfolds into {largest:,} bytes, more than the {self._page_limit:,} that "
                    "--memory leaves room for; write the file with smaller lists, or run with more --memory"
                )

    def _flat_dictionaries(self, group: RowGroup, large: Collection[str]) -> list[str]:
        """Returns the names of the text columns that have a dictionary and that pyarrow decodes."""
        facts = self._metadata.row_group(group.number)
        chunks = [facts.column(at) for at in range(facts.num_columns)]
        return [
            chunk.path_in_schema
            for at, chunk in enumerate(chunks)
            if chunk.has_dictionary_page
            and chunk.path_in_schema not in large
            and _is_flat_text(self._metadata.schema.column(at))
            and _is_text_or_bytes(self._schema.field(chunk.path_in_schema).type)
        ]

    def _plain(
        self, reader: pq.ParquetFile, group: RowGroup, size: int, portions: Sequence[list[str]]
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches of columns that pyarrow decodes: all at once, or in portions if that would take too much memory."""
        if len(portions) == 1:
            names = None if self._names is None and len(portions[0]) == len(set(self._schema.names)) else portions[0]
            return iter(reader.iter_batches(size, [group.number], names, use_threads=False))
        schema = reader.schema_arrow
        kept = {name for portion in portions for name in portion}
        ordered = pa.schema([field for field in schema if field.name in kept], schema.metadata)
        decoded = [reader.iter_batches(size, [group.number], portion, use_threads=False) for portion in portions]
        return self._scratch.batches(decoded, ordered)

    def _portions(self, group: RowGroup, sizes: dict[str, PageSizes], large: Collection[str]) -> list[list[str]]:
        """Returns the names of the columns that pyarrow decodes, in portions that fit into memory."""
        names = dict.fromkeys(self._names or self._schema.names)
        needed: dict[str, int] = {}
        facts = self._metadata.row_group(group.number)
        for at in range(facts.num_columns):
            path = facts.column(at).path_in_schema
            if path not in large:
                name = path if path in names else path.split(".")[0]
                needed[name] = needed.get(name, 0) + sizes[path].decoder_bytes
        portions: list[list[str]] = [[]]
        total = 0
        for name in names:
            if name in large:
                continue
            size = needed.get(name, 0)
            # columns with the same name cannot be read one by one
            if portions[-1] and total + size > self._decoder_limit and len(names) == len(self._names or self._schema.names):
                portions.append([])
                total = 0
            portions[-1].append(name)
            total += size
        return portions

    def _with_large(
        self,
        reader: pq.ParquetFile,
        group: RowGroup,
        size: int,
        large: dict[str, ByteColumn],
        portions: Sequence[list[str]],
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches in which some columns are read value by value."""
        schema = reader.schema_arrow
        if self._names is not None:
            schema = pa.schema([schema.field(name) for name in self._names])
        batches = self._plain(reader, group, size, portions) if any(portions) else _only_rows(group.rows, size)
        for batch in batches:
            yield from _with_large_columns(batch, large, schema)

    def _page_sizes(self, group: RowGroup) -> dict[str, PageSizes]:
        """Returns the sizes of the pages of each column, by its path.

        Raises:
            ValueError: If the header of a page cannot be read.
        """
        facts = self._metadata.row_group(group.number)
        chunks = [facts.column(at) for at in range(facts.num_columns)]
        # what a remote footer says of sizes is believed: to look at each page would be to fetch the file twice
        if isinstance(self._source, pa.PythonFile):
            return {chunk.path_in_schema: stated_sizes(chunk) for chunk in chunks}
        return {chunk.path_in_schema: page_sizes(self._source, chunk) for chunk in chunks}

    def _large_columns(self, group: RowGroup, sizes: dict[str, PageSizes]) -> dict[str, ByteColumn]:
        """Returns readers of the columns whose pages pyarrow would need too much memory for, by name.

        Raises:
            ValueError: If a page is too large to be decompressed.
        """
        if isinstance(self._source, pa.PythonFile):
            return {}
        found = {}
        facts = self._metadata.row_group(group.number)
        for at in range(facts.num_columns):
            chunk, column = facts.column(at), self._metadata.schema.column(at)
            name = chunk.path_in_schema
            largest = sizes[name].largest
            if largest <= self._page_limit:
                continue
            # a footer that lies is not believed: groups that seem small are decoded two at a time
            honest = chunk.total_uncompressed_size >= largest
            is_text_column = _is_flat_text(column) and _is_text_or_bytes(self._schema.field(name).type)
            limit, scratch = self._page_limit, None
            # the rows of a column that is only copied are documents, and too large to be copied
            if honest and is_text_column and name in self._read:
                limit, scratch = LARGE_PAGE_SHARE * self._document_limit, self._scratch
            optional = column.max_definition_level > 0
            found[name] = ByteColumn(self._source, chunk, optional, self._document_limit, limit, scratch)
        return found

    def _batch_size(self, group: RowGroup, large: Collection[str]) -> tuple[int, list[str]]:
        """Returns the rows of a batch, and the columns that stay dictionaries, for their values are too long to repeat."""
        size = max(1, min(BATCH_ROWS, group.rows * BATCH_BYTES // max(group.bytes, 1)))
        together = 0
        facts = self._metadata.row_group(group.number)
        in_dictionaries = []
        for at in range(facts.num_columns):
            chunk, column = facts.column(at), self._metadata.schema.column(at)
            if self._names is not None and chunk.path_in_schema.split(".")[0] not in self._names:
                continue
            if chunk.path_in_schema in large:
                continue
            values = 1 if _is_flat_text(column) else chunk.num_values // max(group.rows, 1) + 1
            longest = self._longest_value(group, chunk, column, size)
            limit = LONG_VALUE if _is_flat_text(column) else LONG_ELEMENT
            if longest > limit and self._is_decodable_later(chunk.path_in_schema):
                in_dictionaries.append(chunk.path_in_schema)
            else:
                together += max(column.length, longest * values)
        return max(1, min(size, UNFOLDED_BATCH // max(together, 1))), in_dictionaries

    def _is_decodable_later(self, path: str) -> bool:
        places = self._schema.get_all_field_indices(path.split(".")[0])
        return len(places) == 1 and _is_decodable_later(self._schema.field(places[0]).type)

    def _longest_value(self, group: RowGroup, chunk: pq.ColumnChunkMetaData, column: Any, size: int) -> int:
        """Returns the bytes of the longest value that a dictionary may repeat; 0 if no batch of this size can grow by it."""
        if not chunk.has_dictionary_page or column.physical_type != "BYTE_ARRAY":
            return 0
        # all elements of a row group may be in one row
        values = size if _is_flat_text(column) else chunk.num_values
        local = not isinstance(self._source, pa.PythonFile)
        most = dictionary_bytes(self._source, chunk) if local else chunk.total_uncompressed_size
        if most * values <= UNFOLDED_BATCH:
            return 0
        if local and (longest := longest_dictionary_value(self._source, chunk)) is not None:
            return longest
        return longest_stored_value(self._source, self._metadata, group.number, chunk.path_in_schema)


def _is_flat_text(column: Any) -> bool:
    return column.physical_type == "BYTE_ARRAY" and column.max_repetition_level == 0 and "." not in column.path


def _is_decodable_later(kind: pa.DataType) -> bool:
    """Returns whether text inside a type can be read as dictionaries and cast to the type again."""
    if is_list(kind):
        return _is_decodable_later(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_decodable_later(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _is_decodable_later(kind.key_type) and _is_decodable_later(kind.item_type)
    return not (pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or isinstance(kind, pa.BaseExtensionType))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_text(kind) or is_binary(kind)


def _only_rows(rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yields batches without values, if each column is read otherwise."""
    for start in range(0, rows, size):
        yield pa.record_batch([pa.nulls(min(size, rows - start))], [""])


def _with_large_columns(batch: pa.RecordBatch, large: dict[str, ByteColumn], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch with the columns that are read value by value, in portions that fit into memory."""
    first = 0
    while first < len(batch):
        values: dict[str, list[bytes | None]] = {name: [] for name in large}
        size = 0
        last = first
        while last < len(batch) and size < BATCH_BYTES:
            for name, column in large.items():
                value = next(column)
                values[name].append(value)
                size += len(value or b"")
            last += 1
        columns = []
        for field in schema:
            if field.name in large:
                content = pa.array(values[field.name], pa.large_binary())
                kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
                columns.append(content.view(pa.large_string()) if is_text(kind) else content)
            else:
                columns.append(batch[field.name].slice(first, last - first))
        yield pa.record_batch(columns, schema.names)
        first = last


def _rows_of_group(group: RowGroup, batches: Iterable[pa.RecordBatch], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    first = group.first
    for batch in batches:
        skipped = min(max(start - first, 0), len(batch))
        yield from split(first + skipped, batch.slice(skipped))
        first += len(batch)


class Parquet:
    """Columnar files, read by row group. One that is damaged costs its own rows, from the damage on.

    Args:
        ahead: Bytes up to which a row group is decoded ahead, two at a time.

    Attributes:
        scratch_folder: The folder for what a row group needs beside the memory; None for the system's.
    """

    def __init__(self, ahead: int = AHEAD) -> None:
        self._ahead = ahead
        self.scratch_folder: Path | None = None

    def columns(self, file: InputFile) -> list[str]:
        with file.open() as source:
            return list(pq.read_schema(source).names)

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[Piece]:
        with file.open() as source, pq.ParquetFile(source) as parquet:
            groups = list(row_groups(parquet.metadata, start))
            reader = _GroupReader(source, parquet.metadata, columns, whole, Scratch(self.scratch_folder))
            in_threads = all(group.bytes <= self._ahead for group in groups)
            decoded = (
                ordered_map(lambda group: reader.batches(group, self._ahead), groups, DECODERS, 0)
                if in_threads
                else (reader.batches(group, 0) for group in groups)
            )
            for group, (batches, until) in zip(groups, decoded, strict=True):
                row = max(group.first, start)
                for piece in pieces(_rows_of_group(group, batches, start), columns, whole):
                    row = piece.next_row
                    yield piece
                if until.damage is not None:
                    if whole:
                        self._require_no_documents(file, parquet.metadata, columns, group, row, until.damage)
                    yield _damaged(group, row, until.damage, columns)

    def _require_no_documents(
        self, file: InputFile, metadata: pq.FileMetaData, columns: Columns, group: RowGroup, row: int, damage: Exception
    ) -> None:
        """A row that is a document must be copied. It cannot be if another column than those of the run is damaged.

        Raises:
            RunError: If the run's columns of the rows that cannot be copied can be read.
        """
        with file.open() as source:
            reader = _GroupReader(source, metadata, columns, False, Scratch(self.scratch_folder))
            batches, _ = reader.batches(group, 0)
            readable = group.first + sum(map(len, batches))
        if readable > row:
            raise RunError(
                f"cannot copy rows {row} to {readable - 1} of {file.path}: a column that the run did not read is damaged "
                f"({one_line(damage)}); drop that column from the file, or leave the file out"
            )

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


def _from_row(batches: Iterator[tuple[int, pa.RecordBatch]], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows from `start` on."""
    for first, batch in batches:
        skipped = min(max(start - first, 0), len(batch))
        if skipped < len(batch):
            yield first + skipped, batch.slice(skipped)


class ArrowIpc:
    """Arrow IPC files and streams (Feather v2 too)."""

    def columns(self, file: InputFile) -> list[str]:
        with file.open_decompressed() as source:
            return list(self._open(source).schema.names)

    def read(self, file: InputFile, columns: Columns, start: int, whole: bool) -> Iterator[Piece]:
        names = None if whole else list(columns.all)
        if (sliced := self._large(file, names)) is not None:
            yield from pieces(_from_row(sliced, start), columns, whole)
            return
        with file.open_decompressed() as source:
            fitting, fault = self._fitting(source, BATCH_SHARE * columns.document_limit)
            batches = self._each(self._open(source), fitting)
            yield from pieces(self._batches(batches, start, names), columns, whole)
            if fault is not None:
                raise ValueError(fault)

    @staticmethod
    def _fitting(source: Any, limit: int) -> tuple[int | None, str | None]:
        """Returns how many record batches come before one that is too large to be read, None for all, and why it is."""
        if not isinstance(source, pa.OSFile):
            return None, None
        batches = 0
        for message in unfolded_messages(source):
            if message.size > limit:
                return batches, (
                    f"a record batch unfolds into {message.size:,} bytes, more than the {limit:,} that --memory leaves room "
                    "for; write the file in smaller batches"
                )
            batches += message.is_batch
        return None, None

    @staticmethod
    def _large(file: InputFile, columns: list[str] | None) -> Iterator[tuple[int, pa.RecordBatch]] | None:
        """Slices of a file whose batches may be large; None of another one."""
        if file.remote or file.compression or file.status().size <= AHEAD:
            return None
        try:
            return sliced_batches(os.fsencode(file.path), columns)
        except pa.ArrowInvalid:
            return None  # the end is missing

    @staticmethod
    def _open(source: Any) -> Any:
        """A file has its index at the end and starts with a magic word; a stream has neither."""
        if not source.seekable():
            return pa.ipc.open_stream(source)
        # Arrow wants a seek after reading at a place
        source.seek(0)
        magic = source.read(len(MAGIC))
        source.seek(0)
        if magic != MAGIC:
            return pa.ipc.open_stream(source)
        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            # the end is missing, and the index with it: what is there is read as the stream that a file contains
            source.seek(MAGIC_BYTES)
            return pa.ipc.open_stream(source)

    @staticmethod
    def _each(reader: Any, most: int | None) -> Iterator[pa.RecordBatch]:
        if hasattr(reader, "num_record_batches"):
            return (reader.get_batch(i) for i in range(reader.num_record_batches if most is None else most))
        return itertools.islice(reader, most)

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
