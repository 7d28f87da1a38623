"""The sources of the documents of a fit, of which only different ones are compared."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.engine.document_facts import NULL_VALUE, value_hashes


class DocumentSources(NamedTuple):
    """The sources of documents, by a column of the corpus."""

    column: str
    """The column of sources."""
    hashes: np.ndarray
    """The source of each document, uint64 (n,)."""
    sizes: np.ndarray
    """The number of documents of the corpus with the source of each document, int64 (n,)."""
    without_value: int
    """The number of documents of the corpus without a value in the column."""

    def select(self, rows: np.ndarray) -> "DocumentSources":
        """Returns the sources of some documents."""
        return self._replace(hashes=self.hashes[rows], sizes=self.sizes[rows])

    def are_equal(self, pairs: np.ndarray) -> np.ndarray:
        """Returns which pairs of positions, int64 (m, 2), are of one source, bool (m,)."""
        return np.asarray(self.hashes[pairs[:, 0]] == self.hashes[pairs[:, 1]])

    def count_equal(self, members: np.ndarray) -> np.ndarray:
        """Returns how many members, bool (n,), have the source of each document, int64 (n,)."""
        _, codes = np.unique(self.hashes, return_inverse=True)
        return np.bincount(codes[members], minlength=int(codes.max(initial=-1)) + 1)[codes]


class SourceCounter:
    """Counts the documents of each source of a corpus."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._counts: dict[int, int] = {}

    def add(self, values: pa.Array) -> None:
        """Counts documents."""
        hashes, counts = np.unique(value_hashes(values), return_counts=True)
        for source, count in zip(hashes.tolist(), counts.tolist(), strict=True):
            self._counts[source] = self._counts.get(source, 0) + count

    def sources_of(self, values: pa.Array) -> DocumentSources:
        """Returns the sources of some documents that were counted."""
        hashes = value_hashes(values)
        sizes = np.array([self._counts[source] for source in hashes.tolist()], np.int64)
        return DocumentSources(self.column, hashes, sizes, self._counts.get(NULL_VALUE, 0))
