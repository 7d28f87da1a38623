"""Lance tables, which are read by fragment in a fixed version.

The input file is the manifest of the version. Rows that were deleted in it are not read, and rows
are counted without them.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import BATCH_BYTES, BATCH_ROWS, Columns
from nearkin.corpus.formats.base import FileSlice
from nearkin.corpus.formats.record_batches import (
    ColumnarFormat,
    TableWriter,
    check_batches,
    number_batches,
    select_batches,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.lance_tables import open_dataset
from nearkin.corpus.places import has_row_between
from nearkin.corpus.table_versions import RUST_PLACE

FRAGMENT_BYTES = 64 << 20
"""The number of bytes of rows that are collected for a fragment of a copy."""
BUFFER_BYTES = 32 << 20
"""The number of stored bytes that are read ahead."""


class Lance(ColumnarFormat):
    """The format of Lance tables. Damage costs the rows from it on."""

    def schema(self, file: InputFile) -> pa.Schema:
        """Returns the schema of a table."""
        return open_dataset(file.path).schema

    def count_rows(self, file: InputFile) -> int:
        """Returns the number of rows of a table."""
        with _lance_errors():
            return int(open_dataset(file.path).count_rows())

    def read(
        self,
        file: InputFile,
        columns: Columns,
        start: int,
        *,
        whole: bool,
        rows: np.ndarray | None = None,
    ) -> Iterator[FileSlice]:
        """Yields the rows of a table in slices, as described in `Format`.

        Args:
            file: The manifest of a version.
            columns: The columns to read.
            start: The row at which reading starts.
            whole: Whether the slices hold the complete rows.
            rows: The rows that are needed, or None for all. Fragments without one are not read.
        """
        dataset = open_dataset(file.path)
        names = None if whole else list(columns.all)
        first = 0
        for fragment in dataset.get_fragments():
            with _lance_errors():
                end = first + fragment.count_rows()
            if end > start and has_row_between(rows, first, end):
                numbered = number_batches(_read_fragment(fragment, names), start - first)
                batches = ((first + row, batch) for row, batch in numbered)
                yield from check_batches(select_batches(batches, rows), columns, whole=whole)
            first = end

    def writer(self, file: InputFile, columns: Columns, target: str) -> TableWriter:
        """Returns a writer of a table with one version.

        Args:
            file: The manifest of a version.
            columns: The columns that were read.
            target: The path of the folder to write.
        """
        dataset = open_dataset(file.path)
        storage = str(dataset.data_storage_version)
        return TableWriter(
            dataset.schema, lambda schema: _LanceWriter(target, storage, schema), columns.source
        )


def _read_fragment(fragment: Any, names: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a fragment that were not deleted.

    Raises:
        ValueError: If a part is damaged.
    """
    with _lance_errors():
        yield from fragment.scanner(
            columns=names,
            batch_size=BATCH_ROWS,
            batch_size_bytes=BATCH_BYTES,
            batch_readahead=2,
            io_buffer_size=BUFFER_BYTES,
            blob_handling="all_binary",
        ).to_batches()


@contextmanager
def _lance_errors() -> Iterator[None]:
    """Translates errors of damage, which Lance raises as errors of running code."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(RUST_PLACE.sub("", str(error))) from error


class _LanceWriter:
    """A writer of record batches, which become fragments of one version.

    Args:
        target: The folder of the table, which is emptied.
        storage: The version of the format of data files.
        schema: The schema of the rows.
    """

    def __init__(self, target: str, storage: str, schema: pa.Schema) -> None:
        # A repeated task of Spark writes the same copy again.
        if Path(target).exists():
            shutil.rmtree(target)
        self._target = target
        self._storage = storage
        self._schema = schema
        self._fragments: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= FRAGMENT_BYTES:
            self._write_fragment()

    def close(self) -> None:
        """Writes the rest, and the manifest of the version."""
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
            mode = "append" if self._fragments else "create"
            self._fragments += write_fragments(
                rows, self._target, mode=mode, data_storage_version=self._storage
            )
