"""Buckets in arrays: what the memory store looks postings up in, and the sqlite store beside its file."""

import numpy as np

from nearkin.index import kernels
from nearkin.index.entry import Postings

LEAST_SLOTS, LEAST_NODES = 1 << 12, 1 << 12
TAKEN, NODES, FREE, EVICTED = range(4)


class BucketTable:
    """Postings by key; not safe for concurrent use by itself.

    Args:
        most: Postings of a bucket, beyond which its oldest go.

    Examples:
        >>> table = BucketTable(2)
        >>> for word in (10, 20, 30):
        ...     table.append(np.array([7, word], np.uint64), word)
        >>> table.look_up(np.array([7, 10, 99], np.uint64)).words.tolist(), table.evicted
        ([20, 30, 10], 1)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._make(LEAST_SLOTS)
        self._nexts, self._words = np.empty(LEAST_NODES, np.int64), np.empty(LEAST_NODES, np.int64)
        self._state = np.array([0, 0, kernels.END, 0], np.int64)

    def _make(self, slots: int) -> None:
        self._keys, self._heads = np.zeros(slots, np.uint64), np.full(slots, kernels.UNUSED, np.int64)
        self._tails, self._lengths = np.zeros(slots, np.int64), np.zeros(slots, np.int64)

    @property
    def evicted(self) -> int:
        """Postings that went because their bucket was full."""
        return int(self._state[EVICTED])

    @property
    def postings(self) -> int:
        """Postings that are there."""
        return int(self._lengths.sum())

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        arrays = (self._keys, self._heads, self._tails, self._lengths, self._nexts, self._words)
        return sum(array.nbytes for array in arrays)

    def sizes(self) -> np.ndarray:
        """Of the buckets that are not empty, int64."""
        return self._lengths[self._lengths > 0]

    def look_up(self, keys: np.ndarray) -> Postings:
        """The buckets of keys, uint64 (m,)."""
        offsets = np.empty(len(keys) + 1, np.int64)
        kernels.bucket_sizes(keys, self._keys, self._heads, self._lengths, offsets)
        words = np.empty(offsets[-1], np.int64)
        if len(words):
            kernels.fill_postings(keys, self._keys, self._heads, self._nexts, self._words, offsets, words)
        return Postings(words, offsets)

    def append(self, keys: np.ndarray, word: int) -> None:
        """One posting into the bucket of each key."""
        self._reserve(len(keys))
        places = (self._keys, self._heads, self._tails, self._lengths, self._nexts, self._words, self._state)
        kernels.append_postings(keys, np.int64(word), np.int64(self.most), *places)

    def remove(self, keys: np.ndarray, ref: int) -> int:
        """Takes a document out; returns how many postings went."""
        places = (self._keys, self._heads, self._tails, self._lengths, self._nexts, self._words, self._state)
        return int(kernels.remove_postings(keys, np.int64(ref), *places))

    def _reserve(self, more: int) -> None:
        """Room for so many keys and postings more."""
        if 2 * (self._state[TAKEN] + more) > len(self._keys):
            old = (self._keys, self._heads, self._tails, self._lengths)
            self._make(2 * len(self._keys) if 4 * self._alive(old[1]) > len(self._keys) else len(self._keys))
            self._state[TAKEN] = kernels.rehash(*old, self._keys, self._heads, self._tails, self._lengths)
        if self._state[NODES] + more > len(self._words):
            size = 2 * len(self._words) + more
            grown = (np.concatenate([array, np.empty(size - len(array), np.int64)]) for array in (self._nexts, self._words))
            self._nexts, self._words = grown

    @staticmethod
    def _alive(heads: np.ndarray) -> int:
        return int((heads >= 0).sum())
