"""Temporary files without a name, for data that a reader must not keep in memory."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.formats.base import ItemsBeforeDamage
from nearkin.errors import RunError
from nearkin.runtime.files import reserve_blocks
from nearkin.runtime.setting_names import name_setting


class ScratchFiles:
    """Makes files that no other process can open.

    They are deleted when they are closed, also if the process is killed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def file(self) -> IO[bytes]:
        """Opens an empty file."""
        try:
            return tempfile.TemporaryFile(dir=self._folder)
        except OSError as error:
            raise self._fault(error) from error

    def mapped(self, size: int) -> np.ndarray:
        """Returns zeros that are mapped from a file, uint8 (size,).

        The system may write them to the disk when it needs the memory.

        Args:
            size: The number of bytes.
        """
        if not size:
            return np.zeros(0, np.uint8)
        with self.file() as file:
            try:
                # Without reserved blocks, a full disk would end the process by SIGBUS.
                reserve_blocks(file, size)
                return np.memmap(file, np.uint8, "r+", shape=(size,))
            except OSError as error:
                raise self._fault(error) from error

    def _fault(self, error: OSError) -> RunError:
        folder = self._folder or tempfile.gettempdir()
        return RunError(
            f"cannot write a temporary file in {folder}: "
            f"{error.strerror or error}; make room there, or run with more {name_setting('memory')}"
        )

    def batches(
        self, portions: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches of all columns, which are decoded in portions of the columns.

        Dictionaries keep only the values that a batch uses, because all values of all
        dictionaries may not fit into memory.
        """
        files = []
        damage: Exception | None = None
        try:
            for portion in portions:
                files.append(self.file())
                damage = self._store(portion, files[-1]) or damage
            readers = [pa.ipc.open_stream(pa.PythonFile(file, "r")) for file in files]
            for parts in zip(*readers, strict=damage is None):
                if len({len(part) for part in parts}) > 1:
                    raise ValueError("its columns have different numbers of rows")
                columns = {name: part[name] for part in parts for name in part.schema.names}
                yield pa.record_batch([columns[field.name] for field in schema], schema=schema)
            if damage is not None:
                raise damage
        finally:
            for file in files:
                # Closing writes the rest of the buffer, which fails again on a full disk.
                with suppress(OSError):
                    file.close()

    def _store(self, batches: Iterator[pa.RecordBatch], file: IO[bytes]) -> Exception | None:
        """Writes batches to a file. Returns the error that ended them, or None."""
        writer: Any = None
        until = ItemsBeforeDamage(batches)
        for batch in until:
            compact = _compact_dictionaries(batch)
            try:
                writer = writer or pa.ipc.new_stream(pa.PythonFile(file, "w"), compact.schema)
                writer.write_batch(compact)
            except OSError as error:
                raise self._fault(error) from error
        if writer is None:
            raise until.damage or ValueError("it has no rows")
        try:
            writer.close()
            file.seek(0)
        except OSError as error:
            raise self._fault(error) from error
        return until.damage


def _compact_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch whose dictionaries hold only the values of its rows, in the same order."""
    columns = [
        _compact_dictionary(column) if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)


def _compact_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = column.indices.drop_null().to_numpy(zero_copy_only=False)
    used = np.unique(indices)
    places = pa.array(
        np.searchsorted(used, column.indices.fill_null(0).to_numpy()).astype(indices.dtype)
    )
    if column.null_count:
        places = pc.if_else(column.is_valid(), places, None)
    return pa.DictionaryArray.from_arrays(
        places, column.dictionary.take(pa.array(used)), ordered=column.type.ordered
    )
