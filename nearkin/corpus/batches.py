"""Batches of documents in corpus order, and the rows that are rejected."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns

RAW_PREFIX = 200
WHOLE_FILE = -1
"""Row of a rejection that concerns what could not be read of a file."""


class Rejection(NamedTuple):
    """A row that is no document."""

    file: int
    row: int
    """Its position in the file from 0, or WHOLE_FILE."""
    reason: str
    raw: str = ""
    """What stood there, its first characters."""


class Batch(NamedTuple):
    """Some documents in corpus order."""

    first: int
    """Ordinal of the first one."""
    files: np.ndarray
    """int32 (n,): number of each document's file."""
    rows: np.ndarray
    """int64 (n,): row in that file."""
    documents: pa.RecordBatch
    """The documents: `text` (large_string), `tokens` (large_list of large_string) or `vector` (fixed_size_list of float).
    Further columns are `id` (large_string) if the inputs have ids, and the carried columns (large_string) under the names
    that `carried_column_name` returns."""
    rejected: tuple[Rejection, ...]
    next: tuple[int, int]
    """(file, row) where reading goes on after this batch."""


class Corpus(Protocol):
    """Documents that can be read again and again, always the same."""

    @property
    def names(self) -> Sequence[str]:
        """Of the files, relative to the inputs' common folder."""

    def check(self, columns: Columns) -> None:
        """Raises UsageError where a column is missing."""

    def batches(self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0) -> Iterator[Batch]:
        """Documents from a position (file, row) on, the first one having the ordinal `first`."""
