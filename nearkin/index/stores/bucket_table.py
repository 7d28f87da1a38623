"""Buckets in arrays, for the memory store, and for the SQLite store beside its file."""

from collections.abc import Iterable

import numpy as np

from nearkin.index.entry import Entry, PostingPortion, Postings
from nearkin.index.stores import kernels

LEAST_SLOTS = 1 << 12
LEAST_NODES = 1 << 12


class BucketTable:
    """A table of postings by band key. It is not safe for concurrent use.

    Args:
        most: Maximum number of postings of a bucket. Older postings are evicted.

    Examples:
        >>> table = BucketTable(2)
        >>> for word in (10, 20, 30):
        ...     table.append(np.array([7, word], np.uint64), word)
        >>> table.look_up(np.array([7, 10, 99], np.uint64)).words.tolist(), table.evicted
        ([20, 30, 10], 1)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._slots = np.zeros((LEAST_SLOTS, 4), np.int64)
        self._nodes = np.empty((LEAST_NODES, 2), np.int64)
        self._state = np.array([0, 1, kernels.END, 0, 0], np.int64)

    @property
    def evicted(self) -> int:
        """The number of postings that were evicted from full buckets."""
        return int(self._state[kernels.EVICTED])

    @property
    def postings(self) -> int:
        """The number of postings."""
        return int(self._state[kernels.HELD])

    @property
    def nbytes(self) -> int:
        """The size of all arrays, in bytes."""
        return self._slots.nbytes + self._nodes.nbytes

    def sizes(self) -> np.ndarray:
        """Returns the sizes of the buckets that are not empty, int64 of shape (n,)."""
        sizes = self._slots[:, kernels.SIZE]
        return sizes[sizes > 0]

    def look_up(self, keys: np.ndarray) -> Postings:
        """Returns the buckets of band keys, uint64 of shape (m,), oldest postings first."""
        offsets, places = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int64)
        kernels.bucket_sizes(keys, self._slots, offsets, places)
        words = np.empty(offsets[-1], np.int64)
        if len(words):
            kernels.fill_postings(places, self._slots, self._nodes, offsets, words)
        return Postings(words, offsets)

    def portion(self, place: int, slots: int) -> PostingPortion:
        """Returns the postings of some slots.

        Args:
            place: The first slot. After the table has grown, its keys are in other slots.
            slots: The number of slots.
        """
        rows = self._slots[place : place + slots]
        keys = rows[rows[:, kernels.SIZE] > 0, kernels.KEY].view(np.uint64)
        postings = self.look_up(keys)
        end = place + slots
        return PostingPortion(
            np.repeat(keys, np.diff(postings.offsets)),
            postings.words,
            end if end < len(self._slots) else None,
        )

    def append(self, keys: np.ndarray, word: int) -> None:
        """Appends one posting to the bucket of each key, uint64 of shape (b,)."""
        self.append_all(keys[None], np.array([word], np.int64))

    def append_all(self, keys: np.ndarray, words: np.ndarray) -> None:
        """Appends postings.

        Args:
            keys: Band keys of each document, uint64 of shape (m, b).
            words: The posting of each document, int64 of shape (m,).
        """
        self._reserve(keys.size)
        kernels.append_postings(
            keys, words, np.int64(self.most), self._slots, self._nodes, self._state
        )

    def remove(self, keys: np.ndarray, ref: int) -> int:
        """Deletes the postings of a document.

        Args:
            keys: Band keys of the document, uint64 of shape (b,).
            ref: Number of the document.

        Returns:
            The number of deleted postings.
        """
        return int(
            kernels.remove_postings(keys, np.int64(ref), self._slots, self._nodes, self._state)
        )

    def peak_bytes(self, more: int) -> int:
        """Returns the memory while postings are appended, in bytes.

        Arrays that are too small are copied to larger ones, so both exist for a moment.

        Args:
            more: Number of keys and postings to append.
        """
        slots = self._slots_with_room(more)
        copied_slots = 0 if slots == len(self._slots) else slots * self._slots[0].nbytes
        nodes = self._nodes_with_room(more)
        copied_nodes = 0 if nodes == len(self._nodes) else nodes * self._nodes[0].nbytes
        return self.nbytes + copied_slots + copied_nodes

    def _slots_with_room(self, more: int) -> int:
        size = len(self._slots)
        if 2 * (self._state[kernels.TAKEN] + more) > size:
            alive = int((self._slots[:, kernels.FIRST] > 0).sum())
            while 2 * (alive + more) > size or 4 * alive > size:
                size *= 2
        return size

    def _nodes_with_room(self, more: int) -> int:
        size = len(self._nodes)
        return size if int(self._state[kernels.NODES]) + more <= size else 2 * size + more

    def _reserve(self, more: int) -> None:
        """Makes room for `more` keys and postings."""
        if 2 * (self._state[kernels.TAKEN] + more) > len(self._slots):
            larger = np.zeros((self._slots_with_room(more), 4), np.int64)
            self._state[kernels.TAKEN] = kernels.rehash(self._slots, larger)
            self._slots = larger
        used = int(self._state[kernels.NODES])
        size = self._nodes_with_room(more)
        if size > len(self._nodes):
            grown = np.empty((size, 2), np.int64)
            grown[:used] = self._nodes[:used]
            self._nodes = grown


def enter(table: BucketTable, documents: Iterable[tuple[Entry, np.ndarray | None]]) -> None:
    """Appends the postings of all documents that have band keys."""
    posted = [(entry.posting, keys) for entry, keys in documents if keys is not None]
    if posted:
        words = np.array([word for word, _ in posted], np.int64)
        # documents of an index of texts and vectors have different numbers of keys
        counts = [len(keys) for _, keys in posted]
        all_keys = np.concatenate([keys for _, keys in posted])
        table.append_all(all_keys[:, None], np.repeat(words, counts))
