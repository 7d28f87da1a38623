"""Batches of documents in corpus order, and the rows that are rejected."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from nearkin.corpus.columns import Columns
from nearkin.corpus.places import places_of
from nearkin.stages.packed_pairs import isin_sorted

RAW_PREFIX = 200
"""The maximum number of characters of a rejected row that the quarantine quotes."""
WHOLE_FILE = -1
"""The row number of a rejection that concerns a part of a file instead of one row."""


class Rejection(NamedTuple):
    """A row that cannot be a document, or a part of a file that cannot be read."""

    row: int
    """The position of the row in the file, counted from 0, or `WHOLE_FILE`."""
    reason: str
    """The reason, in words."""
    raw: str = ""
    """The first characters of the row."""
    line: int | None = None
    """The line at which the row begins, counted from 1 as editors do. None if the format has no
    lines."""
    rows: int = 1
    """The number of rows from this one on that are rejected as a whole."""
    is_damage: bool = False
    """True if the rows cannot be decoded. Other rejected rows can be, and are not documents."""
    changed_rows: int = 0
    """The number of rows, from the first one of the file on, that were read and may be changed."""
    file: int = 0
    """The number of the file in the corpus."""


class Batch(NamedTuple):
    """Consecutive documents of a corpus."""

    first: int
    """The ordinal of the first document."""
    files: np.ndarray
    """The number of the file of each document, int32 (n,)."""
    rows: np.ndarray
    """The row of each document in its file, int64 (n,)."""
    documents: pa.RecordBatch
    """The documents: `text` (large_string), `tokens` (large_list of large_string), `fingerprint`
    (fixed_size_binary) or `vector`
    (fixed_size_list of float). Further columns are `id` (large_string) if the inputs have ids,
    and the carried columns (large_string) under the names that `carried_column_name` returns."""
    rejected: tuple[Rejection, ...]
    """The rejected rows between these documents."""
    next: tuple[int, int]
    """The file and the row at which reading continues after this batch."""

    @property
    def rejected_rows(self) -> int:
        """The number of rejected rows. A part of a file whose rows are not known counts as one."""
        return sum(entry.rows for entry in self.rejected)

    def select(self, places: np.ndarray) -> "Batch":
        """Returns the batch with the rows at some places, ascending, uint64 (n,)."""
        is_selected = isin_sorted(places_of(self.files, self.rows), places)
        # A rejection that concerns a part of a file has no place.
        in_rows = [entry for entry in self.rejected if entry.row != WHOLE_FILE]
        files = np.array([entry.file for entry in in_rows], np.int64)
        rows = np.array([entry.row for entry in in_rows], np.int64)
        rejected = compress(in_rows, isin_sorted(places_of(files, rows), places))
        return self._replace(
            files=self.files[is_selected],
            rows=self.rows[is_selected],
            documents=self.documents.filter(pa.array(is_selected)),
            rejected=tuple(rejected),
        )


class Corpus(Protocol):
    """A source of documents that yields the same documents in the same order each time."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the files, relative to the common folder of the inputs."""

    def check(self, columns: Columns) -> None:
        """Checks that the columns exist."""

    def list_columns(self, columns: Columns) -> set[str]:
        """Returns the columns whose values are lists, as far as types say so, with paths.

        Of files, the first one that can be read is looked at. Of JSON, its first objects are.
        """

    def batches(
        self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents in batches."""

    def batches_at(
        self, columns: Columns, places: np.ndarray, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents at some places in batches.

        `places` are those of `nearkin.corpus.places.places_of`, ascending, uint64 (n,). Files, and
        parts of them where the format permits, are not read if they have no such place. Only
        rejected rows at these places are in the batches.
        """


def read_content(corpus: Corpus, columns: Columns, places: np.ndarray) -> Iterator[Batch]:
    """Yields the contents of the documents at some places, ascending, and no other column."""
    yield from corpus.batches_at(replace(columns, id=None, carried_columns=()), places)
