"""Files of rows of numbers, which are divided by the first bits of the hash in each row."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nearkin.engine.work_folder import map_file

PARTITION_BITS = 8
PARTITIONS = 1 << PARTITION_BITS
PENDING_BYTES = 32 << 20
"""The number of bytes of rows that wait until they are written to their partitions."""


class PartitionWriter:
    """A writer of rows whose first number is a hash of `hash_bits` bits, uint64 (m, columns)."""

    def __init__(self, folder: Path, name: str, hash_bits: int = 64) -> None:
        self._folder = folder
        self._name = name
        self._shift = np.uint64(hash_bits - PARTITION_BITS)
        self._pending: list[np.ndarray] = []
        self._pending_bytes = 0
        self.written = 0

    def add(self, rows: np.ndarray) -> None:
        """Adds rows, uint64 (m, columns)."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self.written += len(rows)
        if self._pending_bytes > PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that wait."""
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        self._pending = []
        self._pending_bytes = 0
        partitions = (rows[:, 0] >> self._shift).astype(np.uint8)
        rows = rows[np.argsort(partitions, kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(partitions, minlength=PARTITIONS))])
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            with _path(self._folder, self._name, number).open("ab") as file:
                file.write(rows[bounds[number] : bounds[number + 1]].data)


def read_partitions(folder: Path, name: str, columns: int) -> Iterator[np.ndarray]:
    """Yields the rows of each partition that has some, mapped from disk."""
    for number in range(PARTITIONS):
        path = _path(folder, name, number)
        if path.exists():
            yield map_file(path, np.uint64, columns)


def _path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}-{number:03d}"
