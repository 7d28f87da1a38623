"""Lance tables, which are read by fragment in a fixed version.

The input file is the manifest of the version. Rows that were deleted in it are not read, and rows
are counted without them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.file_names import format_path
from nearkin.corpus.formats.base import FileSlice, Reading
from nearkin.corpus.formats.record_batches import (
    ColumnarFormat,
    TableWriter,
    check_stored_batches,
    number_batches,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.lance_tables import open_dataset, require_readable_names
from nearkin.corpus.nested_columns import list_roots
from nearkin.errors import UsageError

FRAGMENT_BYTES = 64 << 20
"""The number of bytes of rows that are collected for a fragment of a copy."""
BUFFER_BYTES = 32 << 20
"""The number of stored bytes that are read ahead."""

SAMPLE_ROWS = 8
"""The number of rows of a fragment whose size is measured before it is read."""
SMALL_BATCHES = 16
"""The number of batches below a quarter of BATCH_BYTES after which batches get more rows."""


class Lance(ColumnarFormat):
    """The format of Lance tables. Rows from a damaged one on are rejected."""

    def schema(self, file: InputFile) -> pa.Schema:
        """Returns the schema of a table, in which blobs are bytes."""
        return _read_schema(open_dataset(file.path))

    def count_rows(self, file: InputFile) -> int:
        """Returns the number of rows of a table."""
        return int(open_dataset(file.path).count_rows())

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a table in slices, as described in `Format`."""
        dataset = open_dataset(file.path)
        names = None
        if not reading.whole:
            names = list_roots(reading.columns, dataset.schema.names)
        first = 0
        for fragment in dataset.get_fragments():
            end = first + fragment.count_rows()
            if reading.needs(first, end):
                numbered = number_batches(_read_fragment(fragment, names))
                batches = ((first + row, batch) for row, batch in numbered)
                yield from check_stored_batches(batches, reading, has_all_columns=False)
            first = end

    def writer(self, file: InputFile, columns: Columns, target: str) -> TableWriter:
        """Returns a writer of a table with one version."""
        dataset = open_dataset(file.path)
        storage = str(dataset.data_storage_version)
        return TableWriter(
            _read_schema(dataset),
            lambda schema: _LanceWriter(target, storage, schema, _list_blob_fields(dataset)),
        )


def _list_blob_fields(dataset: Any) -> list[pa.Field]:
    """Returns the fields of blobs that are written as structs of bytes or URIs."""
    from lance.blob import BlobType

    return [field for field in dataset.schema if isinstance(field.type, BlobType)]


def _contains_blobs(kind: pa.DataType) -> bool:
    from lance.blob import BlobType

    if isinstance(kind, BlobType):
        return True
    return any(_contains_blobs(kind.field(number).type) for number in range(kind.num_fields))


def _read_schema(dataset: Any) -> pa.Schema:
    """Returns the schema of the rows as they are read, in which blobs are bytes."""
    from lance.blob import BlobType

    require_readable_names(dataset)
    schema = dataset.schema
    for field in schema:
        if _contains_blobs(field.type) and not isinstance(field.type, BlobType):
            raise UsageError(
                f"cannot read the Lance table {format_path(dataset.uri)}: the nested column "
                f"{field.name!r} has blobs; give the other columns to the library, with "
                "nk.dedup(lance.dataset(PATH).to_table(columns=[…]))"
            )
    for field in _list_blob_fields(dataset):
        position = schema.get_field_index(field.name)
        schema = schema.set(position, pa.field(field.name, pa.large_binary(), field.nullable))
    return schema


def _encode_blobs(values: pa.Array, field: pa.Field) -> pa.Array:
    """Returns bytes, large_binary (n,), as an array of blobs.

    The struct of the field of the blobs has the bytes and further members, which are null.
    """
    members = [
        values if member.name == "data" else pa.nulls(len(values), member.type)
        for member in field.type.storage_type
    ]
    storage = pa.StructArray.from_arrays(
        members, fields=list(field.type.storage_type), mask=values.is_null()
    )
    return pa.ExtensionArray.from_storage(field.type, storage)


def _read_fragment(fragment: Any, names: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a fragment that were not deleted.

    Lance decodes the rows of a batch at once, even with a bound of its bytes. So the number of rows
    of a batch follows the size of the previous ones.
    """
    rows = fragment.count_rows()
    batch_rows = _choose_batch_rows(fragment, names, rows)
    first = 0
    while first < rows:
        small_batches = 0
        for batch in _scan(fragment, names, first, batch_rows):
            yield batch
            first += len(batch)
            small_batches = small_batches + 1 if batch.nbytes < BATCH_BYTES // 4 else 0
            if batch.nbytes > 2 * BATCH_BYTES and batch_rows > 1:
                batch_rows = max(batch_rows * BATCH_BYTES // batch.nbytes, 1)
                break
            if small_batches == SMALL_BATCHES and batch_rows < BATCH_ROWS:
                batch_rows = min(2 * batch_rows, BATCH_ROWS)
                break
        else:
            if first < rows:
                raise ValueError(f"{first:,} of {rows:,} rows of a fragment are found")


def _scan(
    fragment: Any,
    names: list[str] | None,
    first: int,
    batch_rows: int,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a fragment from one row on, in batches of at most so many rows."""
    scanner = fragment.scanner(
        columns=names,
        offset=first,
        limit=limit,
        batch_size=batch_rows,
        batch_readahead=2,
        io_buffer_size=BUFFER_BYTES,
        blob_handling="all_binary",
    )
    yield from scanner.to_batches()


def _choose_batch_rows(fragment: Any, names: list[str] | None, rows: int) -> int:
    """Returns the number of rows of the first batch, whose estimated size is that of a batch.

    The estimate is the mean of single rows from all parts of the fragment, which are read one by
    one, or that of the stored bytes if it is larger. Other columns count among the stored bytes.
    """
    sample = np.unique(np.linspace(0, rows - 1, SAMPLE_ROWS).astype(int)).tolist() if rows else []
    sampled_bytes = sum(
        batch.nbytes for row in sample for batch in _scan(fragment, names, row, 1, limit=1)
    )
    stored_bytes = sum(file.file_size_bytes or 0 for file in fragment.data_files())
    row_bytes = max(
        sampled_bytes // max(len(sample), 1), stored_bytes // max(fragment.physical_rows, 1)
    )
    return min(max(BATCH_BYTES // max(row_bytes, 1), 1), BATCH_ROWS)


class _LanceWriter:
    """A writer of record batches, which become fragments of one version.

    Args:
        blob_fields: The fields of the columns of bytes that are written as blobs.
    """

    def __init__(
        self, target: str, storage: str, schema: pa.Schema, blob_fields: list[pa.Field]
    ) -> None:
        # A repeated task of Spark writes the same copy again.
        if Path(target).exists():
            shutil.rmtree(target)
        self._target = target
        self._storage = storage
        for field in blob_fields:
            schema = schema.set(schema.get_field_index(field.name), field)
        self._schema = schema
        self._blob_fields = blob_fields
        self._fragments: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        for field in self._blob_fields:
            position = batch.schema.get_field_index(field.name)
            batch = batch.set_column(position, field, _encode_blobs(batch[position], field))
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= FRAGMENT_BYTES:
            self._write_fragment()

    def close(self) -> None:
        from lance import LanceDataset, LanceOperation

        self._write_fragment()
        for number, fragment in enumerate(self._fragments):
            fragment.id = number
        LanceDataset.commit(self._target, LanceOperation.Overwrite(self._schema, self._fragments))

    def _write_fragment(self) -> None:
        from lance.fragment import write_fragments

        rows = pa.Table.from_batches(self._batches, self._schema)
        self._batches = []
        self._bytes = 0
        if len(rows):
            # Lance warns about a missing table if data is appended before the first version.
            self._fragments += write_fragments(
                rows, self._target, mode="create", data_storage_version=self._storage
            )
