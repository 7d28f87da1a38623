"""Packed entries in growing arrays, for the memory store.

A dictionary from ids to numbers keeps two objects of Python for each document, and a dictionary
from numbers to entries a third one. Among millions of small objects that stay, those of each batch
are scattered over the whole memory, so that batches became slower as the index grew. Here, numbers
are in a sorted array, and ids in a hash table of their hashes.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from nearkin.index.entry import REF_SHIFT
from nearkin.index.stores.bucket_table import BucketTable
from nearkin.index.stores.packing import unpack_names

ROW_BYTES = 80
"""The largest memory of a row beside the packed entry, in bytes.

It consists of the rest of the bytes object, of its number and of its place in a list. Both arrays
are at most an eighth longer than needed.
"""
UNLIMITED = 1 << 40
"""A number of ids with the same hash that is never reached."""
LEAST_DELETED = 1024
"""The number of empty rows from which rows are closed up if half of them are empty."""


class EntryTable:
    """A table of packed entries, by number and by id. It is not safe for concurrent use.

    Numbers nearly always ascend. A deleted entry leaves an empty row; when half of the rows are
    empty, they are closed up.

    Examples:
        >>> from nearkin.index.entry import Entry
        >>> from nearkin.index.stores.packing import pack_entry
        >>> entry = Entry("a", "x", 7, bytes(16), "x", "x", 1.0, 3, 1.0, 2.0, True, b"", "t", b"")
        >>> table = EntryTable()
        >>> table.add([7], "a", ["x"], [pack_entry(entry)])
        >>> table.find("a", ["x", "y"]), table.get(7) == pack_entry(entry), len(table)
        ([7, 0], True, 1)
    """

    def __init__(self) -> None:
        self._numbers = array("q")
        self._rows: list[bytes | None] = []
        self._ids = BucketTable(UNLIMITED)
        self._deleted = 0
        self._packed_bytes = 0
        self._inserted_at: int | None = None
        """The place of an insertion between others, while it is under way."""

    def __len__(self) -> int:
        return len(self._rows) - self._deleted

    @property
    def nbytes(self) -> int:
        """An upper limit of the memory of the table, in bytes."""
        return self._packed_bytes + ROW_BYTES * len(self._rows) + self._ids.nbytes

    def added_bytes(self, rows: int, packed_bytes: int) -> int:
        """Returns the largest memory that the table takes for further entries, in bytes.

        Args:
            packed_bytes: Size of these entries, in bytes.
        """
        return packed_bytes + ROW_BYTES * rows + self._ids.peak_bytes(rows) - self._ids.nbytes

    def numbers(self) -> "array[int]":
        """Returns the numbers of all entries, ascending."""
        if not self._deleted:
            return self._numbers[:]
        rows = zip(self._numbers, self._rows, strict=True)
        return array("q", [number for number, row in rows if row is not None])

    def get(self, number: int) -> bytes | None:
        """Returns the packed entry with a number, or None if there is none."""
        place = bisect_left(self._numbers, number)
        if place == len(self._numbers) or self._numbers[place] != number:
            return None
        return self._rows[place]

    def find(self, scope: str, ids: Sequence[str]) -> list[int]:
        """Returns the numbers of documents, 0 for those that do not exist."""
        candidates = self._ids.look_up(_hash_ids(scope, ids))
        numbers = [0] * len(ids)
        if not len(candidates.words):
            return numbers
        offsets = candidates.offsets.tolist()
        refs = (candidates.words >> REF_SHIFT).tolist()
        for i, id in enumerate(ids):
            for ref in refs[offsets[i] : offsets[i + 1]]:
                row = self.get(ref)
                # other ids may have the same hash
                if row is not None and unpack_names(row) == (scope, id):
                    numbers[i] = ref
        return numbers

    def add(
        self, numbers: Sequence[int], scope: str, ids: Sequence[str], rows: Sequence[bytes]
    ) -> None:
        """Adds entries, whose numbers and ids are new.

        Args:
            numbers: Numbers of the n documents, ascending.
        """
        if self._numbers and self._numbers[-1] >= numbers[0]:
            for number, row in zip(numbers, rows, strict=True):
                self._insert(number, row)
        else:
            self._numbers.extend(numbers)
            self._rows.extend(rows)
        self._packed_bytes += sum(map(len, rows))
        words = np.array(numbers, np.int64) << REF_SHIFT
        self._ids.append_all(_hash_ids(scope, ids), words)

    def _insert(self, number: int, row: bytes) -> None:
        """Inserts an entry with any number that is new."""
        place = bisect_left(self._numbers, number)
        if place < len(self._numbers) and self._numbers[place] == number:
            self._deleted -= self._rows[place] is None
            self._rows[place] = row
            return
        self._inserted_at = place
        self._numbers.insert(place, number)
        self._rows.insert(place, row)
        self._inserted_at = None

    def repair(self) -> None:
        """Makes the table consistent after an exception has interrupted a change of it.

        The entries of that change exist or not.
        """
        if len(self._numbers) > len(self._rows):
            start = len(self._rows) if self._inserted_at is None else self._inserted_at
            del self._numbers[start : start + len(self._numbers) - len(self._rows)]
        elif len(self._numbers) < len(self._rows):
            # the numbers of empty rows are deleted before the rows
            self._rows = [row for row in self._rows if row is not None]
        self._inserted_at = None
        self._deleted = self._rows.count(None)
        self._packed_bytes = sum(len(row) for row in self._rows if row is not None)

    def discard(self, number: int, scope: str, id: str) -> None:
        """Deletes an entry if it exists."""
        self._ids.remove(_hash_ids(scope, [id]), number)
        place = bisect_left(self._numbers, number)
        if place == len(self._numbers) or self._numbers[place] != number:
            return
        row = self._rows[place]
        if row is None:
            return
        self._rows[place] = None
        self._deleted += 1
        self._packed_bytes -= len(row)
        if self._deleted >= LEAST_DELETED and 2 * self._deleted > len(self._rows):
            self._close_up()

    def _close_up(self) -> None:
        """Deletes the empty rows."""
        self._numbers = self.numbers()
        self._rows = [row for row in self._rows if row is not None]
        self._deleted = 0


def _hash_ids(scope: str, ids: Sequence[str]) -> np.ndarray:
    """Returns hashes of the ids of a scope, uint64 (n,). They depend on a seed of the process."""
    hashes = [hash((scope, id)) for id in ids]
    return np.array(hashes, np.int64).view(np.uint64)
