"""Buckets in arrays, for the memory store, and for the SQLite store beside its file."""

import math
import os
import sys
from collections.abc import Sequence

import numpy as np

from nearkin.index.changes import KeyedEntry
from nearkin.index.entry import PostingPortion, Postings, posting_of
from nearkin.index.stores import kernels

GROWTH = 8
"""An array that is full grows by one part in this number. That bounds the memory that is unused."""
LEAST_ROWS = 256
"""The number of lists and of nodes of an empty table, by which they grow at least."""

_NO_WORDS = np.empty(0, np.int64)


def grown_rows(rows: int, needed: int, least: int) -> int:
    """Returns the number of rows to which an array grows.

    Examples:
        >>> grown_rows(4096, 4000, 4096), grown_rows(4096, 5000, 4096), grown_rows(800, 900, 1)
        (4096, 8192, 900)
    """
    while rows < needed:
        rows += max(least, rows // GROWTH)
    return rows


class BucketTable:
    """A table of postings by band key. It is not safe for concurrent use.

    The table grows by a segment of 4,096 slots at a time, see `kernels`. Its arrays are resized in
    place: the C library moves large ones to other addresses without copying them.

    Examples:
        >>> table = BucketTable(2)
        >>> for word in (10, 20, 30):
        ...     table.append(np.array([7, word], np.uint64), word)
        >>> table.look_up(np.array([7, 10, 99], np.uint64)).words.tolist(), table.evicted
        ([10, 20, 10], 1)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._seed = np.uint64(int.from_bytes(os.urandom(8), "little"))
        self._slots = np.zeros((kernels.SEGMENT, 2), np.int64)
        self._lists = np.zeros((LEAST_ROWS, 3), np.int64)
        self._nodes = np.zeros((LEAST_ROWS, 2), np.int64)
        self._state = np.zeros(kernels.STATE_SIZE, np.int64)
        self._state[kernels.SEGMENTS] = 1
        self._state[kernels.ROUND] = 1

    @property
    def evicted(self) -> int:
        """The number of postings beyond the capacity of their buckets."""
        return int(self._state[kernels.EVICTED])

    @property
    def postings(self) -> int:
        """The number of postings that can be read."""
        return int(self._state[kernels.HELD]) - self.evicted

    @property
    def moved_slots(self) -> int:
        """The number of slots that were moved while the table grew."""
        return int(self._state[kernels.MOVED])

    @property
    def nbytes(self) -> int:
        """The size of all arrays, in bytes."""
        return self._slots.nbytes + self._lists.nbytes + self._nodes.nbytes

    def sizes(self) -> np.ndarray:
        """Returns the sizes of the buckets that are not empty, int64 of shape (n,)."""
        places = self._slots[:, kernels.PLACE]
        places = places[places != kernels.UNUSED]
        sizes = np.where(places < 0, 1, self._lists[np.maximum(places, 0), kernels.SIZE])
        return np.minimum(sizes, self.most)

    def look_up(self, keys: np.ndarray, most: int | None = None) -> Postings:
        """Returns the buckets of band keys, oldest postings first.

        Args:
            keys: Band keys, uint64 of shape (m,).
        """
        offsets, places = self._find(keys, self.most if most is None else most)
        if not offsets[-1]:
            return Postings(_NO_WORDS, offsets)
        words = np.empty(offsets[-1], np.int64)
        kernels.fill_postings(places, self._lists, self._nodes, offsets, words)
        return Postings(words, offsets)

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        """Returns whether each bucket has more postings than are read, bool of shape (m,).

        Args:
            keys: Band keys, uint64 of shape (m,).
        """
        return np.asarray(np.diff(self._find(keys, self.most + 1)[0]) > self.most)

    def _find(self, keys: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the offsets of the postings of buckets, int64 (m + 1,), and their places.

        Args:
            keys: Band keys, uint64 of shape (m,).
        """
        offsets = np.empty(len(keys) + 1, np.int64)
        places = np.empty(len(keys), np.int64)
        kernels.bucket_sizes(
            keys,
            self._seed,
            self._slots,
            self._lists,
            self._state,
            np.int64(most),
            offsets,
            places,
        )
        return offsets, places

    def portion(self, place: int, slots: int) -> PostingPortion:
        """Returns the postings of some slots, also those beyond the capacity of their buckets."""
        rows = self._slots[place : place + slots]
        keys = rows[rows[:, kernels.PLACE] != kernels.UNUSED, kernels.KEY].view(np.uint64)
        postings = self.look_up(keys, sys.maxsize)
        end = place + slots
        return PostingPortion(
            np.repeat(keys, np.diff(postings.offsets)),
            postings.words,
            end if end < len(self._slots) else None,
        )

    def append(self, keys: np.ndarray, word: int) -> None:
        """Inserts one posting into the bucket of each key, uint64 of shape (b,)."""
        self.append_all(keys, np.full(len(keys), word, np.int64))

    def append_all(self, keys: np.ndarray, words: np.ndarray) -> None:
        """Inserts postings, behind smaller ones of the same bucket.

        Args:
            keys: Band keys, uint64 of shape (m,).
            words: The posting of each key, int64 of shape (m,).
        """
        appended = np.int64(0)
        while appended < len(keys):
            appended = kernels.insert_postings(
                keys,
                words,
                appended,
                np.int64(self.most),
                self._seed,
                self._slots,
                self._lists,
                self._nodes,
                self._state,
            )
            if appended < len(keys):
                self._grow()

    def remove(self, keys: np.ndarray, ref: int) -> int:
        """Deletes the postings of a document.

        Args:
            keys: Band keys of the document, uint64 of shape (b,).
        """
        return int(
            kernels.remove_postings(
                keys,
                np.int64(ref),
                np.int64(self.most),
                self._seed,
                self._slots,
                self._lists,
                self._nodes,
                self._state,
            )
        )

    def peak_bytes(self, more: int) -> int:
        """Returns the largest memory of the table after postings are appended, in bytes."""
        sizes = zip(self._arrays(), self._rows_with_room(more), strict=True)
        return sum(rows * array[0].nbytes for array, rows in sizes)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._slots, self._lists, self._nodes

    def _rows_with_room(self, more: int) -> tuple[int, int, int]:
        """Returns the rows of slots, lists and nodes with room for `more` keys and postings."""
        state = self._state
        segments = math.ceil((state[kernels.KEYS] + more) / (kernels.MAX_LOAD * kernels.SEGMENT))
        return (
            grown_rows(len(self._slots), segments * kernels.SEGMENT, kernels.SEGMENT),
            # row 0 is not used
            grown_rows(len(self._lists), int(state[kernels.LISTS]) + 1 + more, LEAST_ROWS),
            grown_rows(len(self._nodes), int(state[kernels.NODES]) + 1 + 2 * more, LEAST_ROWS),
        )

    def _grow(self) -> None:
        """Makes room for one more key and posting in each array."""
        for array, rows in zip(self._arrays(), self._rows_with_room(1), strict=True):
            if rows > len(array):
                # no view of an array outlives a method
                array.resize((rows, array.shape[1]), refcheck=False)


def enter_new(table: BucketTable, new: Sequence[KeyedEntry], numbers: Sequence[int]) -> None:
    """Appends the postings of new documents."""
    words: list[int] = []
    # documents of an index of texts and vectors have different numbers of keys
    keys_of_words: list[np.ndarray] = []
    for (entry, keys), number in zip(new, numbers, strict=True):
        if keys is not None:
            words.append(posting_of(number, entry.size, leads=entry.is_leader))
            keys_of_words.append(keys)
    if len(words) == 1:
        table.append(keys_of_words[0], words[0])
    elif words:
        repeated = np.array(words, np.int64).repeat(list(map(len, keys_of_words)))
        table.append_all(np.concatenate(keys_of_words), repeated)
