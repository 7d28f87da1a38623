"""The rows of a row group of a parquet file, decoded within the memory bound."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.encoded_columns import measure_decoded_rows
from nearkin.corpus.formats.base import ItemsBeforeDamage
from nearkin.corpus.formats.parquet_byte_columns import ByteColumnReader, parse_longest_value
from nearkin.corpus.formats.parquet_pages import (
    READ_BUFFER,
    PageSizes,
    decode_longest_value,
    estimate_pages,
    measure_dictionary,
    measure_pages,
)
from nearkin.corpus.formats.scratch_files import ScratchFiles
from nearkin.corpus.nested_columns import list_roots
from nearkin.runtime.arrow_types import is_binary, is_list, is_text
from nearkin.runtime.setting_names import name_setting

LONG_VALUE = 1 << 19
"""The number of bytes of a value from which its column stays encoded until its rows are known.
Shorter values make batches smaller."""
LONG_ELEMENT = 1 << 10
"""The number of bytes of an element of a list from which its column stays encoded."""
UNFOLDED_BATCH = 4 * BATCH_BYTES
"""The maximum size of a batch in bytes, if each row had the longest value of each dictionary."""
DECODER_SHARE = 4
"""All columns of a row group are decoded at once if that takes at most this many times the document
limit, an eighth of the memory bound. Otherwise they are decoded in portions."""
PAGE_SHARE = 8
"""A page that pyarrow decodes may unfold into this many times the document limit."""
LARGE_PAGE_SHARE = 16
"""A larger page of texts is decoded value by value. In memory it may have this many times the
document limit."""


class RowGroup(NamedTuple):
    """The position and the size of a row group."""

    number: int
    first: int
    """The number of its first row in the file."""
    rows: int
    bytes: int
    """The uncompressed size in bytes that the footer states."""


def list_row_groups(metadata: pq.FileMetaData, start: int) -> Iterator[RowGroup]:
    """Yields the row groups that hold rows from `start` on."""
    first = 0
    for number in range(metadata.num_row_groups):
        facts = metadata.row_group(number)
        if facts.num_rows < 0:
            raise ValueError(f"the footer states {facts.num_rows} rows of row group {number}")
        if first + facts.num_rows > start:
            yield RowGroup(number, first, facts.num_rows, facts.total_byte_size)
        first += facts.num_rows


class RowGroupReader:
    """Decodes the row groups of a file in batches of bounded size."""

    def __init__(
        self,
        source: Any,
        metadata: pq.FileMetaData,
        columns: Columns,
        scratch: ScratchFiles,
        *,
        whole: bool,
    ) -> None:
        self._source = source
        self._scratch = scratch
        self._metadata = metadata
        self._schema = metadata.schema.to_arrow_schema()
        roots = list_roots(columns, self._schema.names)
        self._read = set(roots)
        self._names = None if whole else roots
        self._document_limit = columns.document_limit
        self._page_limit = PAGE_SHARE * columns.document_limit
        self._decoder_limit = DECODER_SHARE * columns.document_limit

    def batches(
        self, group: RowGroup, ahead: int
    ) -> tuple[Iterable[pa.RecordBatch], ItemsBeforeDamage[pa.RecordBatch]]:
        """Returns the batches of a row group, of which the first `ahead` bytes are already decoded.

        Args:
            ahead: The number of bytes to decode ahead.
        """
        until = ItemsBeforeDamage(self._decode(group))
        batches = iter(until)
        taken: list[pa.RecordBatch] = []
        size = 0
        while size < ahead and (batch := next(batches, None)) is not None:
            taken.append(batch)
            size += batch.nbytes
        return itertools.chain(taken, batches), until

    def _decode(self, group: RowGroup) -> Iterator[pa.RecordBatch]:
        sizes = self._page_sizes(group)
        large = self._large_columns(group, sizes)
        size, in_dictionaries = self._batch_size(group, large)
        portions = self._portions(group, sizes, large)
        if len(portions) > 1:
            # Portions wait in a file. Without dictionaries it would hold every repeated value.
            in_dictionaries = list(
                dict.fromkeys([*in_dictionaries, *self._list_flat_dictionaries(group, large)])
            )
        # Each group has its own reader, so that several groups can be decoded at a time.
        reader = pq.ParquetFile(
            self._source,
            metadata=self._metadata,
            buffer_size=READ_BUFFER,
            read_dictionary=in_dictionaries,
            page_checksum_verification=True,
        )
        if large:
            batches = self._decode_with_large_columns(reader, group, size, large, portions)
        else:
            batches = self._decode_columns(reader, group, size, portions)
        rows = 0
        for batch in batches:
            rows += len(batch)
            if rows > group.rows:
                break
            self._require_bounded_lists(batch, in_dictionaries)
            yield batch
        if rows != group.rows:
            raise ValueError(
                f"the footer states {group.rows} rows, but the row group has "
                f"{'more' if rows else 'none'}"
            )

    def _require_bounded_lists(
        self, batch: pa.RecordBatch, in_dictionaries: Collection[str]
    ) -> None:
        """Raises ValueError if a row of a column that is only copied holds too much text."""
        for name in {path.split(".")[0] for path in in_dictionaries if "." in path} - self._read:
            sizes = measure_decoded_rows(batch[name])
            largest = 0 if sizes is None else int(np.max(sizes, initial=0))
            if largest > self._page_limit:
                raise ValueError(
                    f"a row of column {name!r} unfolds into {largest:,} bytes, "
                    f"more than the {self._page_limit:,} that "
                    f"{name_setting('memory')} leaves room for; write the file with smaller "
                    f"lists, or run with more {name_setting('memory')}"
                )

    def _list_flat_dictionaries(self, group: RowGroup, large: Collection[str]) -> list[str]:
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

    def _decode_columns(
        self, reader: pq.ParquetFile, group: RowGroup, size: int, portions: Sequence[list[str]]
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches of the columns that pyarrow decodes, at once or in portions."""
        if len(portions) == 1:
            is_whole = self._names is None and len(portions[0]) == len(set(self._schema.names))
            names = None if is_whole else portions[0]
            return iter(reader.iter_batches(size, [group.number], names, use_threads=False))
        schema = reader.schema_arrow
        kept = {name for portion in portions for name in portion}
        ordered = pa.schema([field for field in schema if field.name in kept], schema.metadata)
        decoded = [
            reader.iter_batches(size, [group.number], portion, use_threads=False)
            for portion in portions
        ]
        return self._scratch.batches(decoded, ordered)

    def _portions(
        self, group: RowGroup, sizes: dict[str, PageSizes], large: Collection[str]
    ) -> list[list[str]]:
        """Returns the columns that pyarrow decodes, in portions that fit into memory."""
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
            # Columns with the same name cannot be read one by one.
            if (
                portions[-1]
                and total + size > self._decoder_limit
                and len(names) == len(self._names or self._schema.names)
            ):
                portions.append([])
                total = 0
            portions[-1].append(name)
            total += size
        return portions

    def _decode_with_large_columns(
        self,
        reader: pq.ParquetFile,
        group: RowGroup,
        size: int,
        large: dict[str, ByteColumnReader],
        portions: Sequence[list[str]],
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches in which some columns are read value by value."""
        schema = reader.schema_arrow
        if self._names is not None:
            schema = pa.schema([schema.field(name) for name in self._names])
        if any(portions):
            batches = self._decode_columns(reader, group, size, portions)
        else:
            batches = _make_batches_without_columns(group.rows, size)
        for batch in batches:
            yield from _insert_large_columns(batch, large, schema)

    def _page_sizes(self, group: RowGroup) -> dict[str, PageSizes]:
        """Returns the sizes of the pages of each column, by its path."""
        facts = self._metadata.row_group(group.number)
        chunks = [facts.column(at) for at in range(facts.num_columns)]
        # The sizes in a remote footer are trusted: reading each header would fetch the file twice.
        if isinstance(self._source, pa.PythonFile):
            return {chunk.path_in_schema: estimate_pages(chunk) for chunk in chunks}
        return {chunk.path_in_schema: measure_pages(self._source, chunk) for chunk in chunks}

    def _large_columns(
        self, group: RowGroup, sizes: dict[str, PageSizes]
    ) -> dict[str, ByteColumnReader]:
        """Returns readers of the columns whose pages need too much memory in pyarrow, by name."""
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
            # A footer that understates sizes is refused: small groups are decoded two at a time.
            honest = chunk.total_uncompressed_size >= largest
            is_text_column = _is_flat_text(column) and _is_text_or_bytes(
                self._schema.field(name).type
            )
            limit, scratch = self._page_limit, None
            # Rows of a column that is only copied are documents, which must be copied completely.
            if honest and is_text_column and name in self._read:
                limit, scratch = LARGE_PAGE_SHARE * self._document_limit, self._scratch
            optional = column.max_definition_level > 0
            found[name] = ByteColumnReader(
                self._source, chunk, self._document_limit, limit, scratch, optional=optional
            )
        return found

    def _batch_size(self, group: RowGroup, large: Collection[str]) -> tuple[int, list[str]]:
        """Returns the number of rows of a batch, and the columns that stay encoded.

        Their values are too long to be repeated.
        """
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
            if longest > limit and self._supports_dictionaries(chunk.path_in_schema):
                in_dictionaries.append(chunk.path_in_schema)
            else:
                together += max(column.length, longest * values)
        return max(1, min(size, UNFOLDED_BATCH // max(together, 1))), in_dictionaries

    def _supports_dictionaries(self, path: str) -> bool:
        places = self._schema.get_all_field_indices(path.split(".")[0])
        return len(places) == 1 and _supports_dictionaries(self._schema.field(places[0]).type)

    def _longest_value(
        self, group: RowGroup, chunk: pq.ColumnChunkMetaData, column: Any, size: int
    ) -> int:
        """Returns the size of the longest value that a dictionary may repeat.

        It is 0 if no batch of this size can become too large by it.
        """
        if not chunk.has_dictionary_page or column.physical_type != "BYTE_ARRAY":
            return 0
        # One row may hold all elements of a row group.
        values = size if _is_flat_text(column) else chunk.num_values
        local = not isinstance(self._source, pa.PythonFile)
        most = chunk.total_uncompressed_size
        if local:
            most = measure_dictionary(self._source, chunk)
        if most * values <= UNFOLDED_BATCH:
            return 0
        if local and (longest := parse_longest_value(self._source, chunk)) is not None:
            return longest
        return decode_longest_value(
            self._source, self._metadata, group.number, chunk.path_in_schema
        )


def _is_flat_text(column: Any) -> bool:
    return (
        column.physical_type == "BYTE_ARRAY"
        and column.max_repetition_level == 0
        and "." not in column.path
    )


def _supports_dictionaries(kind: pa.DataType) -> bool:
    """Returns True if text inside a type can be read as dictionaries and cast back."""
    if is_list(kind):
        return _supports_dictionaries(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_supports_dictionaries(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _supports_dictionaries(kind.key_type) and _supports_dictionaries(kind.item_type)
    return not (
        pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_text(kind) or is_binary(kind)


def _make_batches_without_columns(rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yields batches without values, for row groups whose columns are all read value by value."""
    for start in range(0, rows, size):
        yield pa.record_batch([pa.nulls(min(size, rows - start))], [""])


def _insert_large_columns(
    batch: pa.RecordBatch, large: dict[str, ByteColumnReader], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch with the columns that are read value by value.

    The rows are divided into portions that fit into memory.
    """
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
