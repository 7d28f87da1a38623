"""The store behind `memory://`, for libraries and tests: packed entries, and postings in arrays.

Entries are kept as bytes because Python's garbage collector does not visit bytes. With a million
tuples in their place, collections took a third of the time of all upserts.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from threading import RLock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nearkin.errors import MovedError, RacedError
from nearkin.index.changes import (
    Changes,
    Event,
    KeyedEntry,
    LogPortion,
    count_leaders,
    number_documents,
)
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion, Postings
from nearkin.index.migration.state import CLOSING, COPYING, MigrationState, StoreState
from nearkin.index.stores.addresses import MEMORY_URL
from nearkin.index.stores.base import LOG_KEPT, PORTION, SCAN_ROUNDS, Store
from nearkin.index.stores.bucket_table import BucketTable, enter_new
from nearkin.index.stores.entry_table import EntryTable
from nearkin.index.stores.memory_bound import growing_keys, require_room
from nearkin.index.stores.packing import (
    pack_entry,
    unpack_entry,
    unpack_head,
    unpack_sighting,
)

NUMBER_BYTES = 20
"""The largest memory of a document in the lists of its scope and of its representative, in bytes.

Each has its number, and is at most an eighth longer than needed.
"""
LIST_BYTES = 400
"""The largest memory of the list of a scope or of a representative's members, in bytes."""
EVENT_BYTES = 400
"""The memory of a line of the change log, with names of usual length, in bytes."""


_NUMBER = itemgetter(0)
_SCOPE = attrgetter("entry.scope")


class MemoryStore(Store):
    """A store in the memory of this process.

    Args:
        most: Maximum number of postings of a bucket.
        max_memory: Maximum memory of the store in bytes, or None for no limit.
    """

    def __init__(self, most: int, max_memory: int | None = None) -> None:
        self._max_memory = max_memory
        self.table = BucketTable(most)
        self._entries = EntryTable()
        self._members: dict[str, array[int]] = {}
        self._scopes: dict[str, array[int]] = {}
        """The numbers of the documents of each scope, ascending."""
        self._values: dict[str, object] = {}
        """The values that describe the index."""
        self._events: deque[tuple[int, Event]] = deque()
        """The last lines of the change log, with their numbers."""
        self._lines = 0
        """The number of lines that were ever written."""
        self._unfinished: _Step | None = None
        """A step that must be carried out before anything is read."""
        self._last_number = 0
        self._lock = RLock()
        self._leaders = 0
        self._state = StoreState(MigrationState(), 0)

    @property
    def url(self) -> str:
        return MEMORY_URL

    def write_once(self, name: str, value: object) -> Any:
        with self._lock:
            self._finish_step()
            if value is not None:
                self._values.setdefault(name, value)
            return self._values.get(name)

    def state(self) -> StoreState:
        with self._lock:
            self._finish_step()
            return self._state

    def redirect(self, migration: MigrationState) -> None:
        with self._lock:
            self._finish_step()
            if migration.epoch <= self._state.migration.epoch:
                raise RacedError(f"the index is in epoch {self._state.migration.epoch} already")
            self._state = self._state._replace(migration=migration)

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        # A step deletes an entry before it writes the changed one, so readers take the lock.
        with self._lock:
            self._finish_step()
            refs = self._entries.find(scope, ids)
            return [self._get(ref) if ref else None for ref in refs]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        with self._lock:
            self._finish_step()
            return [self._get(ref) for ref in refs]

    def _get(self, ref: int) -> Entry | None:
        row = self._entries.get(ref)
        return None if row is None else unpack_entry(ref, row)

    def _row(self, ref: int) -> bytes:
        """Returns the packed entry of a document that exists."""
        row = self._entries.get(ref)
        assert row is not None
        return row

    def _locked_row(self, ref: int) -> bytes | None:
        """Returns the packed entry of a document, or None, under the lock."""
        with self._lock:
            self._finish_step()
            return self._entries.get(ref)

    def postings(self, keys: np.ndarray) -> Postings:
        with self._lock:
            self._finish_step()
            return self.table.look_up(keys)

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        with self._lock:
            self._finish_step()
            return self.table.overflowed(keys)

    def reserve(self, count: int) -> list[int]:
        with self._lock:
            self._finish_step()
            return self._take_numbers(count)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._lock:
            yield

    def last_number(self) -> int:
        return self._last_number

    def _take_numbers(self, count: int) -> list[int]:
        first = self._last_number + 1
        self._last_number += count
        return list(range(first, first + count))

    def apply(self, changes: Changes) -> list[int]:
        with self._lock:
            self._finish_step()
            self._check(changes)
            step = self._plan(changes)
            self._unfinished = step
            self._carry_out(step, again=False)
            return step.numbers

    def _finish_step(self) -> None:
        """Carries out a step again that an exception has interrupted, for example Ctrl-C.

        Every method calls it before it uses what a step changes.
        """
        if self._unfinished is not None:
            self._carry_out(self._unfinished, again=True)

    def _plan(self, changes: Changes) -> "_Step":
        """Returns a step with the values that it leaves, so that it can be carried out twice."""
        # a step can change a document twice
        changed = list({entry.ref: entry for entry in changes.changed}.values())
        dropped = [entry for entry, _ in changes.dropped]
        old = [unpack_head(entry.ref, self._row(entry.ref)) for entry in (*dropped, *changed)]
        new_numbers = number_documents(changes.new, self._take_numbers)
        leaders = self._leaders - sum(entry.is_leader for entry in old)
        leaders += sum(entry.is_leader for entry in changed) + count_leaders(changes.new)
        generation = self._state.generation
        return _Step(changes, new_numbers, old, changed, leaders, self._lines, generation)

    def _carry_out(self, step: "_Step", *, again: bool) -> None:
        """Makes the changes of a step."""
        changes = step.changes
        if again:
            self._entries.repair()
            # the new documents of a step that was carried out in part
            for (entry, keys), number in zip(changes.new, step.numbers, strict=True):
                self._delete(entry._replace(ref=number))
                if keys is not None:
                    self.table.remove(keys, number)
        for entry, keys in (*changes.dropped, *changes.unposted):
            if keys is not None:
                self.table.remove(keys, entry.ref)
        for ref, removed_keys in changes.postings_removed:
            self.table.remove(removed_keys, ref)
        for posting, added_keys in changes.postings_added:
            self._append(added_keys, posting, again=again)
        for entry in step.old:
            self._delete(entry)
        for entry in step.changed:
            self._put(entry)
        self._add_new(changes.new, step.numbers)
        for entry, keys in changes.posted:
            if keys is not None:
                self.table.remove(keys, entry.ref)
                self._append(keys, entry.posting, again=again)
        self._leaders = step.leaders
        self._write_lines(step)
        if changes.invalidates_caches:
            self._state = self._state._replace(generation=step.generation + 1)
        self._unfinished = None

    def _append(self, keys: np.ndarray, posting: int, *, again: bool) -> None:
        """Appends a posting to buckets, in which it may be already if `again` is True."""
        if again:
            self.table.remove(keys, posting >> REF_SHIFT)
        self.table.append(keys, posting)

    def _write_lines(self, step: "_Step") -> None:
        """Adds the lines of a step to the change log, and deletes the oldest ones."""
        while self._events and self._events[-1][0] >= step.first_line:
            self._events.pop()
        self._events.extend(enumerate(step.changes.events, step.first_line))
        self._lines = step.first_line + len(step.changes.events)
        is_copied = self._state.migration.phase in (COPYING, CLOSING)
        while len(self._events) > LOG_KEPT and not (is_copied or step.changes.keeps_log):
            self._events.popleft()

    def _add_new(self, new: Sequence[KeyedEntry], numbers: list[int]) -> None:
        """Adds documents with their postings."""
        numbered = sorted(zip(numbers, new, strict=True), key=_NUMBER)
        for scope, group in groupby(numbered, lambda pair: pair[1].entry.scope):
            of_scope = [(number, keyed.entry) for number, keyed in group]
            scope_numbers = [number for number, _ in of_scope]
            self._entries.add(
                scope_numbers,
                scope,
                [entry.id for _, entry in of_scope],
                [pack_entry(entry) for _, entry in of_scope],
            )
            _insert_all(self._scopes, scope, scope_numbers)
            for number, entry in of_scope:
                if entry.leader != entry.id:
                    _insert(self._members, _key(scope, entry.leader), number)
        enter_new(self.table, new, numbers)

    def _check(self, changes: Changes) -> None:
        """Checks all conditions of a step before anything is changed."""
        if changes.epoch not in (None, self._state.migration.epoch):
            raise MovedError("the index is being moved")
        existing = self._existing_numbers(changes.new)
        if not existing <= {entry.ref for entry, _ in changes.dropped}:
            raise RacedError("a document with this id exists already")
        for entry in changes.present:
            stored = self._get(entry.ref)
            if stored is None or stored.id != entry.id:
                raise RacedError("a document was deleted by another process")
        for entry in changes.required_leaders:
            stored = self._get(entry.ref)
            if stored is None or not stored.is_leader:
                raise RacedError("a representative was deleted by another process")
        for entry in changes.expected:
            stored = self._get(entry.ref)
            if stored is None or stored.leader != entry.leader:
                raise RacedError(
                    "a document was resolved to another representative by another process"
                )
        self._require_room(changes)
        for snapshot in changes.leader_snapshots:
            leader = snapshot.entry
            stored = self._get(leader.ref)
            snapshot.require_unchanged(
                stored and stored.leader, self._members.get(_key(leader.scope, leader.id), ())
            )

    def _existing_numbers(self, new: Sequence[KeyedEntry]) -> set[int]:
        """Returns the numbers of stored documents that have the ids of new ones."""
        numbers = chain.from_iterable(
            self._entries.find(scope, [keyed.entry.id for keyed in group])
            for scope, group in groupby(new, _SCOPE)
        )
        return {number for number in numbers if number}

    def _require_room(self, changes: Changes) -> None:
        """Verifies that a step stays within the memory of the store."""
        keys = None if self._max_memory is None else growing_keys(changes)
        if keys is None:
            return
        packed_bytes = sum(len(pack_entry(entry)) for entry, _ in changes.new)
        entries = self._entries.added_bytes(len(changes.new), packed_bytes)
        lists = LIST_BYTES * len(changes.new)
        buckets = self.table.peak_bytes(keys) - self.table.nbytes
        require_room(self.nbytes + entries + lists + buckets, self._max_memory, self.url)

    def _put(self, entry: Entry) -> None:
        """Adds an entry, and lists it for its scope and for its representative."""
        self._entries.add([entry.ref], entry.scope, [entry.id], [pack_entry(entry)])
        _insert(self._scopes, entry.scope, entry.ref)
        if not entry.is_leader:
            _insert(self._members, _key(entry.scope, entry.leader), entry.ref)

    def _delete(self, entry: Entry) -> None:
        """Deletes an entry and all references to it, as far as they exist."""
        self._entries.discard(entry.ref, entry.scope, entry.id)
        _delete(self._scopes, entry.scope, entry.ref)
        if not entry.is_leader:
            _delete(self._members, _key(entry.scope, entry.leader), entry.ref)

    @property
    def nbytes(self) -> int:
        """An upper limit of the memory of the store, in bytes."""
        lists = len(self._scopes) + len(self._members)
        events = len(self._events)
        rest = LIST_BYTES * lists + NUMBER_BYTES * len(self._entries) + EVENT_BYTES * events
        return self.table.nbytes + self._entries.nbytes + rest

    def members(
        self,
        scope: str,
        leader: str,
        limit: int | None = None,
        *,
        after: int = 0,
        skip: int = 0,
        content: bool = True,
    ) -> list[Entry]:
        unpack = unpack_entry if content else unpack_head
        with self._lock:
            self._finish_step()
            refs = self._members.get(_key(scope, leader), _NO_MEMBERS)
            start = bisect_right(refs, after) + skip
            end = None if limit is None else start + limit
            return [unpack(ref, self._row(ref)) for ref in refs[start:end]]

    def member_count(self, scope: str, leader: str) -> int:
        with self._lock:
            self._finish_step()
            return len(self._members.get(_key(scope, leader), _NO_MEMBERS))

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        unpack = unpack_entry if content else unpack_head
        last = 0
        # documents that are replaced meanwhile get larger numbers
        for _ in range(SCAN_ROUNDS):
            refs = self._refs_after(scope, last)
            if not refs:
                return
            for ref in refs:
                row = self._locked_row(ref)
                if row is not None:
                    yield unpack(ref, row)
            last = refs[-1]

    def _refs_after(self, scope: str | None, last: int) -> "array[int]":
        """Returns the numbers of documents that are larger than one, ascending."""
        with self._lock:
            self._finish_step()
            if scope is None:
                refs = self._entries.numbers()
            else:
                refs = self._scopes.get(scope, _NO_MEMBERS)
            return refs[bisect_right(refs, last) :]

    def scopes(self) -> Iterator[str]:
        with self._lock:
            self._finish_step()
            names = list(self._scopes)
        yield from names

    def due(self, before: float, *, posted: bool) -> Iterator[Entry]:
        refs, seen = self._due(before, posted=posted)
        for place in np.lexsort((refs, seen)).tolist():
            ref = int(refs[place])
            row = self._locked_row(ref)
            if row is not None:
                yield unpack_head(ref, row)

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        with self._lock:
            self._finish_step()
            return self.table.portion(place or 0, most)

    def _due(self, before: float, *, posted: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the documents that `due` yields. The lock is released between portions.

        Returns:
            Their numbers, int64 of shape (n,), and the times at which they were last seen, float64
            of shape (n,).
        """
        refs, seen = array("q"), array("d")
        with self._lock:
            self._finish_step()
            everything = self._entries.numbers()
        for start in range(0, len(everything), PORTION):
            with self._lock:
                self._finish_step()
                for ref in everything[start : start + PORTION]:
                    row = self._entries.get(ref)
                    if row is None:
                        continue
                    at, is_posted = unpack_sighting(row)
                    if at < before and (is_posted or not posted):
                        refs.append(ref)
                        seen.append(at)
        return np.array(refs, np.int64), np.array(seen, np.float64)

    def log_end(self) -> int:
        with self._lock:
            self._finish_step()
            return self._lines

    def events(self, after: int | None = None) -> Iterator[Event]:
        with self._lock:
            self._finish_step()
            first = self._events[0][0] if self._events else 0
            lines = list(islice(self._events, max(0, (after or 0) - first), None))
        for _, event in lines:
            yield event

    def log_lines(self, after: int, limit: int) -> LogPortion:
        with self._lock:
            self._finish_step()
            dropped = self._events[0][0] if self._events else self._lines
            first = max(0, after - dropped)
            lines = list(islice(self._events, first, first + limit))
            return LogPortion([(i + 1, event) for i, event in lines], dropped, self._lines)

    def drop_lines(self, until: int) -> None:
        with self._lock:
            self._finish_step()
            while self._events and self._events[0][0] < until:
                self._events.popleft()

    def counts(self) -> dict[str, int]:
        with self._lock:
            self._finish_step()
            return {
                "records": len(self._entries),
                "leaders": self._leaders,
                "postings": self.table.postings,
                "evicted": self.table.evicted,
                "bytes": self.nbytes,
            }

    @property
    def durability(self) -> str:
        return "kept in this process's memory: lost when the process ends"


class _Step(NamedTuple):
    """A step whose conditions hold, and the values from which its outcome follows."""

    changes: Changes
    numbers: list[int]
    """The numbers of the new documents."""
    old: list[Entry]
    """The deleted and the changed documents as they were, without their content."""
    changed: list[Entry]
    """The changed documents as they are after the step."""
    leaders: int
    """The number of representatives after the step."""
    first_line: int
    """The number of its first line in the change log."""
    generation: int
    """The generation of the store before the step."""


Refs: TypeAlias = "array[int]"

_NO_MEMBERS: Refs = array("q")


def _insert(lists: "dict[str, Refs]", key: str, ref: int) -> None:
    """Inserts a document number into a sorted list, unless it is there."""
    refs = lists.setdefault(key, array("q"))
    if refs and refs[-1] >= ref:
        place = bisect_left(refs, ref)
        if refs[place] != ref:
            refs.insert(place, ref)
    else:
        refs.append(ref)


def _insert_all(lists: "dict[str, Refs]", key: str, numbers: list[int]) -> None:
    """Inserts ascending document numbers into a sorted list, unless they are there."""
    refs = lists.setdefault(key, array("q"))
    if not refs or refs[-1] < numbers[0]:
        refs.extend(numbers)
        return
    for number in numbers:
        _insert(lists, key, number)


def _delete(lists: "dict[str, Refs]", key: str, ref: int) -> None:
    """Deletes a document number from a sorted list, and the list if it is empty then."""
    refs = lists.get(key, _NO_MEMBERS)
    place = bisect_left(refs, ref)
    if place < len(refs) and refs[place] == ref:
        del refs[place]
        if not refs:
            del lists[key]


def _key(scope: str, name: str) -> str:
    """Returns the key of an id. Neither scopes nor ids contain NUL characters."""
    return f"{scope}\0{name}"
