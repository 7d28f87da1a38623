"""A hash table of the rows of an index of signatures in memory."""

import numpy as np

from nearkin.index.signatures import kernels


class ChainTable:
    """A hash table of n rows with m keys each, whose chains are arrays.

    Args:
        capacity: Number of rows for which arrays are made.
        heads_per_posting: Minimum number of beginnings of chains for each key of a row. More of
            them make chains shorter.
    """

    def __init__(self, keys_per_row: int, capacity: int, *, heads_per_posting: int) -> None:
        self._heads_per_posting = heads_per_posting
        self.keys = np.empty((capacity, keys_per_row), np.uint64)
        self._following = np.empty(capacity * keys_per_row, np.uint32)
        self._heads = np.zeros(1, np.uint32)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        return self.keys.nbytes + self._following.nbytes + self._heads.nbytes

    def reserve(self, capacity: int) -> None:
        """Makes the arrays large enough for so many rows."""
        self.keys = enlarge(self.keys, capacity)
        self._following = enlarge(self._following, capacity * self.keys.shape[1])

    def append(self, keys: np.ndarray, alive: np.ndarray) -> None:
        """Adds rows at the end.

        Args:
            keys: Keys of the rows, uint64 (new, m).
            alive: Whether a row is stored, for all rows, bool (n,).
        """
        size = len(alive)
        first = size - len(keys)
        self.keys[first:size] = keys
        postings = size * keys.shape[1]
        if postings > len(self._heads):
            heads = 1 << (self._heads_per_posting * postings - 1).bit_length()
            self._heads = np.zeros(heads, np.uint32)
            first = 0
        kernels.link_postings(self.keys[:size], alive, first, self._heads, self._following)

    def find(
        self, keys: np.ndarray, alive: np.ndarray, queried: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the stored rows that share a key with each query.

        Args:
            keys: Keys of the queries, uint64 (q, m).
            alive: Whether a row is stored, bool (n,).
            queried: Whether a query has keys, bool (q,). By default each one has.

        Returns:
            The place of the first row of each query, and the end, int64 (q + 1,), and the rows,
            uint32.
        """
        if queried is None:
            queried = np.ones(len(keys), bool)
        counts = np.zeros(len(keys), np.int64)
        starts = np.zeros(len(keys) + 1, np.int64)
        rows = np.empty(0, np.uint32)
        table = (self.keys[: len(alive)], alive, self._heads, self._following)
        # the first round counts the rows
        for _ in range(2):
            np.cumsum(counts, out=starts[1:])
            rows = np.empty(starts[-1], np.uint32)
            # new zeros: the operating system clears only the pages that are touched
            seen = np.zeros(len(alive), np.uint32)
            kernels.collect_candidates(keys, queried, *table, seen, starts, rows, counts)
        return starts, rows


def enlarge(array: np.ndarray, capacity: int) -> np.ndarray:
    """Returns a longer copy of an array. New items are 0."""
    larger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
