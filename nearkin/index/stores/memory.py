"""`memory://`: for libraries and tests; entries as bytes, postings in arrays.

Dictionaries of texts, numbers and bytes are not walked by Python's garbage collector. With a million tuples in their place a
collection took a third of the time of all upserts.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import count, islice
from threading import RLock
from typing import Any

import numpy as np

from nearkin.errors import MovedError, RacedError
from nearkin.index.entry import Changes, Entry, Event, Postings
from nearkin.index.move import Move, News
from nearkin.index.stores.packing import pack_entry, unpack_entry
from nearkin.index.table import BucketTable, enter

ENTRY_BYTES = 300
"""What Python keeps of an entry beside its bytes: two dictionaries' shares, key, number."""
POSTING_BYTES = 48
"""Of a posting, its share of a table that is half full included."""


class MemoryStore:
    """Everything in this process; gone with it.

    Args:
        most: Postings of a bucket.
    """

    url = "memory://"

    def __init__(self, most: int) -> None:
        self.table = BucketTable(most)
        self._rows: dict[int, bytes] = {}
        self._refs: dict[str, int] = {}
        self._members: dict[str, array[int]] = {}
        self._header: dict[str, Any] | None = None
        self._events: list[Event] = []
        self._numbers = count(1)
        self._lock = RLock()
        self._bytes, self._leaders = 0, 0
        self._move, self._generation = Move(), 0
        self._protected = False

    def claim(self, header: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._header = self._header or header
            return self._header

    def protect(self) -> None:
        self._protected = True

    def is_protected(self) -> bool:
        return self._protected

    def news(self) -> News:
        with self._lock:
            return News(self._move, self._generation)

    def redirect(self, move: Move) -> None:
        with self._lock:
            if move.epoch <= self._move.epoch:
                raise RacedError(f"the index is in epoch {self._move.epoch} already")
            self._move = move

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        # a step takes an entry out before it puts the changed one in
        with self._lock:
            return [self._get(self._refs.get(_key(scope, name), 0)) for name in ids]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        with self._lock:
            return [self._get(ref) for ref in refs]

    def _get(self, ref: int) -> Entry | None:
        row = self._rows.get(ref)
        return None if row is None else unpack_entry(ref, row)

    def postings(self, keys: np.ndarray) -> Postings:
        with self._lock:
            return self.table.look_up(keys)

    def reserve(self, count: int) -> list[int]:
        with self._lock:
            return list(islice(self._numbers, count))

    def apply(self, changes: Changes) -> list[int]:
        with self._lock:
            self._check(changes)
            for entry, keys in (*changes.dropped, *changes.unposted):
                if keys is not None:
                    self.table.remove(keys, entry.ref)
            for ref, gone in changes.leaving:
                self.table.remove(gone, ref)
            for word, come in changes.entering:
                self.table.append(come, word)
            for entry, _ in changes.dropped:
                self._take(entry.ref)
            for entry in changes.changed:
                self._take(entry.ref)
                self._put(entry)
            stored = [self._add(entry) for entry, _ in changes.new]
            enter(self.table, zip(stored, (keys for _, keys in changes.new), strict=True))
            for entry, keys in changes.posted:
                if keys is not None:
                    self.table.remove(keys, entry.ref)
                    self.table.append(keys, entry.word)
            self._events += changes.events
            self._generation += changes.resolves
            return [entry.ref for entry in stored]

    def _add(self, entry: Entry) -> Entry:
        stored = entry if entry.ref else entry._replace(ref=next(self._numbers))
        self._put(stored)
        return stored

    def _check(self, changes: Changes) -> None:
        """Every condition first, so that nothing is half done."""
        if changes.epoch not in (None, self._move.epoch):
            raise MovedError("the index is being moved")
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        for entry, _ in changes.new:
            if _key(entry.scope, entry.id) in self._refs and (entry.scope, entry.id) not in going:
                raise RacedError("a document is there already")
        for entry in changes.present:
            held = self._get(entry.ref)
            if held is None or held.id != entry.id:
                raise RacedError("a document is not there any more")
        for entry in changes.needs:
            held = self._get(entry.ref)
            if held is None or not held.is_leader:
                raise RacedError("a representative is not there any more")
        for standing in changes.stood:
            gone = standing.entry
            held = self._get(gone.ref)
            standing.hold(held and held.leader, self._members.get(_key(gone.scope, gone.id), ()))

    def _put(self, entry: Entry) -> None:
        packed = pack_entry(entry)
        self._bytes += len(packed)
        self._leaders += entry.is_leader
        self._rows[entry.ref] = packed
        self._refs[_key(entry.scope, entry.id)] = entry.ref
        if not entry.is_leader:
            self._members.setdefault(_key(entry.scope, entry.leader), array("q")).append(entry.ref)

    def _unlink(self, entry: Entry) -> None:
        key = _key(entry.scope, entry.leader)
        if not entry.is_leader and (held := self._members.get(key)) is not None and entry.ref in held:
            held.remove(entry.ref)
            if not held:
                del self._members[key]

    def _take(self, ref: int) -> None:
        """Everything that leads to an entry goes, and it."""
        packed = self._rows.pop(ref)
        held = unpack_entry(ref, packed)
        self._unlink(held)
        del self._refs[_key(held.scope, held.id)]
        self._bytes -= len(packed)
        self._leaders -= held.is_leader

    @property
    def nbytes(self) -> int:
        """About what is held: postings as they are used, entries reckoned."""
        return self.table.postings * POSTING_BYTES + self._bytes + len(self._rows) * ENTRY_BYTES

    def members(self, scope: str, leader: str) -> list[Entry]:
        with self._lock:
            return [unpack_entry(ref, self._rows[ref]) for ref in sorted(self._members.get(_key(scope, leader), ()))]

    def scan(self, scope: str | None = None) -> Iterator[Entry]:
        for ref in sorted(self._rows):
            entry = self._get(ref)
            if entry is not None and scope in (None, entry.scope):
                yield entry

    def _all(self) -> Iterator[Entry]:
        return (unpack_entry(ref, row) for ref, row in self._rows.items())

    def due(self, before: float, posted: bool) -> Iterator[Entry]:
        with self._lock:
            found = [entry for entry in self._all() if entry.seen < before and (entry.posted or not posted)]
        yield from sorted(found, key=lambda entry: (entry.seen, entry.ref))

    def times(self) -> list[float]:
        return []

    def median_seen(self) -> float | None:
        # it begins with its process, so what is in it was seen by the same clock
        return None

    def events(self) -> Iterator[Event]:
        yield from list(self._events)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {
                "records": len(self._rows),
                "leaders": self._leaders,
                "postings": self.table.postings,
                "evicted": self.table.evicted,
                "bytes": self.nbytes,
            }

    @property
    def durability(self) -> str:
        return "kept in this process's memory: lost when the process ends"

    def close(self) -> None:
        """Nothing to give back."""


def _key(scope: str, name: str) -> str:
    """Neither has a NUL."""
    return f"{scope}\0{name}"
