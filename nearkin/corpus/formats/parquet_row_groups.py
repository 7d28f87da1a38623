"""The rows of a row group of a parquet file, decoded within the memory bound."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.encoded_columns import measure_decoded_rows
from nearkin.corpus.formats.base import ItemsBeforeDamage
from nearkin.corpus.formats.column_sets import decode_in_turn, divide_columns
from nearkin.corpus.formats.parquet_chunks import ColumnChunks
from nearkin.corpus.formats.parquet_pages import (
    READ_BUFFER,
    PageSizes,
    estimate_pages,
    find_longest_value,
    measure_pages,
)
from nearkin.corpus.nested_columns import find_root, list_roots
from nearkin.corpus.places import RowGroup
from nearkin.runtime.arrow_types import is_list
from nearkin.runtime.setting_names import name_setting

LONG_VALUE = 1 << 19
"""The number of bytes of a value from which its column stays encoded until its rows are known.
Shorter values make batches smaller."""
LONG_ELEMENT = 1 << 10
"""The number of bytes of an element of a list from which its column stays encoded."""
UNFOLDED_BATCH = 4 * BATCH_BYTES
"""The maximum size of a batch in bytes, if each row had the longest value of each dictionary."""
DECODER_SHARE = 16
"""Decoding a row group may take this many times the document limit, half of the memory bound. A
page may have half of that, because it is in memory decompressed and decoded."""
LIST_SHARE = 8
"""A row of a column that is only copied may decode to this many times the document limit."""


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
        self, source: Any, metadata: pq.FileMetaData, columns: Columns, *, whole: bool
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._column_chunks = ColumnChunks(metadata)
        self._schema = metadata.schema.to_arrow_schema()
        self._schema_names = dict.fromkeys(self._schema.names)
        roots = list_roots(columns, self._schema.names)
        self._copied = set(self._schema.names) - set(roots)
        self._names = None if whole else roots
        self._list_limit = LIST_SHARE * columns.document_limit
        self._decoder_limit = DECODER_SHARE * columns.document_limit

    def batches(
        self, group: RowGroup, ahead: int
    ) -> tuple[Iterable[pa.RecordBatch], ItemsBeforeDamage[pa.RecordBatch]]:
        """Returns the batches of a row group, whose first `ahead` bytes are decoded already."""
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
        # before a dictionary is decompressed in search of its longest value
        self._require_memory(sizes)
        longest = self._find_longest_values(group, sizes)
        sizes = self._add_encoded_bytes(group, sizes, longest)
        self._require_memory(sizes)
        size, in_dictionaries = self._batch_size(group, longest)
        rows = 0
        for batch in self._decode_columns(group, sizes, size, in_dictionaries):
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

    def _decode_columns(
        self, group: RowGroup, sizes: dict[str, PageSizes], size: int, in_dictionaries: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches of a number of rows. Columns that do not fit together follow in turn."""

        def decode(names: list[str] | None) -> Iterator[pa.RecordBatch]:
            # Each group has its own reader, so that several groups can be decoded at a time.
            reader = pq.ParquetFile(
                self._source,
                metadata=self._metadata,
                buffer_size=READ_BUFFER,
                read_dictionary=in_dictionaries,
                page_checksum_verification=True,
            )
            yield from reader.iter_batches(size, [group.number], names, use_threads=False)

        needed = self._column_bytes(sizes)
        names = needed if self._names is None else self._names
        decoded = {name: needed[name] for name in needed if name in names}
        sets = divide_columns(decoded, self._decoder_limit)
        if len(sets) <= 1:
            return decode(self._names)
        in_order = [name for name in self._schema.names if name in decoded]
        return decode_in_turn([decode(columns) for columns in sets], in_order)

    def _column_bytes(self, sizes: dict[str, PageSizes]) -> dict[str, int]:
        """Returns the number of bytes that decoding each column takes, with all its parts."""
        needed = dict.fromkeys(self._schema_names, 0)
        for path, size in sizes.items():
            needed[self._root(path)] += size.decoder_bytes
        return needed

    def _root(self, path: str) -> str:
        """Returns the column of the schema that has a part."""
        return find_root(path, self._schema_names) or path

    def _chunks(self, group: RowGroup) -> list[pq.ColumnChunkMetaData]:
        return self._column_chunks.of_group(group.number)

    def _page_sizes(self, group: RowGroup) -> dict[str, PageSizes]:
        """Returns the sizes of the pages of each column, by its path."""
        # The sizes in a remote footer are trusted: reading each header would fetch the file twice.
        if isinstance(self._source, pa.PythonFile):
            return {chunk.path_in_schema: estimate_pages(chunk) for chunk in self._chunks(group)}
        return {
            chunk.path_in_schema: measure_pages(self._source, chunk)
            for chunk in self._chunks(group)
        }

    def _is_decoded(self, path: str) -> bool:
        return self._names is None or path in self._names or path.split(".")[0] in self._names

    def _require_memory(self, sizes: dict[str, PageSizes]) -> None:
        """Raises ValueError if decoding a column would take too much memory.

        It may be one that is not decoded here. So the rows of a group with huge pages are documents
        neither when they are read nor when they are copied.
        """
        limit = self._decoder_limit
        column, needed = max(self._column_bytes(sizes).items(), key=itemgetter(1), default=("", 0))
        if needed > limit:
            parts = [path for path in sizes if self._root(path) == column]
            largest = max(parts, key=lambda path: sizes[path].decoder_bytes)
            raise ValueError(
                f"decoding it takes up to {needed:,} bytes, of which column {largest!r} takes "
                f"{sizes[largest].decoder_bytes:,}, and {name_setting('memory')} leaves room for "
                f"{limit:,}; write the file with smaller pages, or run with more "
                f"{name_setting('memory')}"
            )

    def _require_bounded_lists(self, batch: pa.RecordBatch, in_dictionaries: Sequence[str]) -> None:
        """Raises ValueError if a row of a column that is only copied holds too much text."""
        for name in {path.split(".")[0] for path in in_dictionaries if "." in path} & self._copied:
            sizes = measure_decoded_rows(batch[name])
            largest = 0 if sizes is None else int(np.max(sizes, initial=0))
            if largest > self._list_limit:
                raise ValueError(
                    f"a row of column {name!r} unfolds into {largest:,} bytes, "
                    f"more than the {self._list_limit:,} that "
                    f"{name_setting('memory')} leaves room for; write the file with smaller "
                    f"lists, or run with more {name_setting('memory')}"
                )

    @staticmethod
    def _most_rows(group: RowGroup) -> int:
        """Returns the number of rows of a batch whose values are no longer than others."""
        return max(1, min(BATCH_ROWS, group.rows * BATCH_BYTES // max(group.bytes, 1)))

    def _is_flat(self, at: int) -> bool:
        column = self._metadata.schema.column(at)
        return column.max_repetition_level == 0 and "." not in column.path

    def _find_longest_values(self, group: RowGroup, sizes: dict[str, PageSizes]) -> dict[str, int]:
        """Returns the size of the longest value of each dictionary of texts that is large, by path.

        Its values could make a batch too large. A column that is not decoded here counts if its
        dictionary could take too much memory.
        """
        longest = {}
        encoded = {
            path: size._replace(decoder_bytes=size.decoder_bytes + size.encoded_bytes)
            for path, size in sizes.items()
        }
        column_bytes = self._column_bytes(encoded)
        for at, chunk in enumerate(self._chunks(group)):
            path = chunk.path_in_schema
            is_text = self._metadata.schema.column(at).physical_type == "BYTE_ARRAY"
            if not chunk.has_dictionary_page or not is_text:
                continue
            # One row may hold all elements of a row group.
            most_values = self._most_rows(group) if self._is_flat(at) else chunk.num_values
            may_be_large = column_bytes[self._root(path)] > self._decoder_limit
            counts = self._is_decoded(path) or may_be_large
            if counts and sizes[path].dictionary * most_values > UNFOLDED_BATCH:
                longest[path] = find_longest_value(self._source, self._metadata, group.number, at)
        return longest

    def _is_long(self, at: int, longest: int) -> bool:
        """Returns True if values of a column are too long to be repeated."""
        return longest > (LONG_VALUE if self._is_flat(at) else LONG_ELEMENT)

    def _add_encoded_bytes(
        self, group: RowGroup, sizes: dict[str, PageSizes], longest: dict[str, int]
    ) -> dict[str, PageSizes]:
        """Returns the sizes with what columns with long values take besides."""
        added = dict(sizes)
        for at, chunk in enumerate(self._chunks(group)):
            path = chunk.path_in_schema
            if self._is_long(at, longest.get(path, 0)):
                needed = sizes[path].decoder_bytes + sizes[path].encoded_bytes
                added[path] = sizes[path]._replace(decoder_bytes=needed)
        return added

    def _batch_size(self, group: RowGroup, longest: dict[str, int]) -> tuple[int, list[str]]:
        """Returns the number of rows of a batch, and the columns that stay encoded.

        Their values are too long to be repeated.
        """
        together = 0
        in_dictionaries = []
        for at, chunk in enumerate(self._chunks(group)):
            path = chunk.path_in_schema
            if not self._is_decoded(path):
                continue
            size = longest.get(path, 0)
            if self._is_long(at, size) and self._supports_dictionaries(chunk):
                in_dictionaries.append(path)
            else:
                values = 1 if self._is_flat(at) else chunk.num_values // max(group.rows, 1) + 1
                together += max(self._metadata.schema.column(at).length, size * values)
        most = self._most_rows(group)
        return max(1, min(most, UNFOLDED_BATCH // max(together, 1))), in_dictionaries

    def _supports_dictionaries(self, chunk: pq.ColumnChunkMetaData) -> bool:
        # Writers of Java and Rust may go on with pages of differences, which pyarrow cannot add to
        # a dictionary.
        if any(encoding.startswith("DELTA") for encoding in chunk.encodings):
            return False
        places = self._schema.get_all_field_indices(chunk.path_in_schema.split(".")[0])
        return len(places) == 1 and _supports_dictionaries(self._schema.field(places[0]).type)


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
