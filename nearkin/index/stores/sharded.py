"""The store of an index that is divided over several stores (shards).

Records are divided by id, and postings by band key. Reads go to all shards at once. A shard that
cannot be reached is an error, never a missing result.

No transaction spans shards, so the order of the writes makes a step safe. Postings are written
before their document, and deleted after it. Entries of reserved scopes (handovers of cluster ids)
are written first. Representatives are written before the documents that are resolved to them, and
deleted after them. A failure leaves at most a stray posting, which searches ignore, `check` counts
and `expire` deletes (`nearkin.index.stray_postings`), or a handover without an heir, which is
ignored. Each document of a failed batch is either stored completely or not at all.

If one step resolves a document to a representative and another step deletes the representative,
each step writes first and reads afterwards, so that at least one of them sees the other. The first
step takes its documents back if the representative is gone. The second step restores the
representative if a document was resolved to it. Both steps are retried. The change of a document
depends on its previous state by a condition in its own shard.

Three guarantees are weaker than those of a single store:

- If a process is killed between its write and its read while another one does the opposite, a
  document may be resolved to a representative that does not exist. `check` finds it.
- A step that was taken back may be in the change log twice, and may have split its cluster already.
- If the text of a representative is updated while one document is resolved to it before the update
  and another one after it, all between a write and its read, then the second document may have the
  old text as its representative, without verification.
"""

import hashlib
import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from nearkin.errors import (
    IncompatibleError,
    MissingIndexError,
    MovedError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import TOUCHED, Changes, Event, KeyedEntry, LeaderSnapshot
from nearkin.index.entry import RESERVED, Entry, Postings, internal_entry
from nearkin.index.migration.state import CLOSING, OPEN, MigrationState, StoreState
from nearkin.index.stores.base import Store

T = TypeVar("T")
log = logging.getLogger("nearkin.shards")


class ShardedStore(Store):
    """Several stores that hold one index. Their order and number are part of the index."""

    def __init__(self, shards: Sequence[Store]) -> None:
        if len(shards) < 2:
            raise UsageError(
                f"{len(shards)} stores cannot be shards; give at least two URLs, or one URL as a "
                f"string"
            )
        self.shards = list(shards)
        # An index without shards does not load it.
        from nearkin.index.stray_postings import StraySweeper

        self._sweeper = StraySweeper(self.shards, self.by_refs)
        self._pool = ThreadPoolExecutor(len(shards), thread_name_prefix="nearkin-shard")

    @property
    def url(self) -> str:
        """The addresses of the shards, separated by blanks."""
        return " ".join(shard.url for shard in self.shards)

    def _on_all_shards(self, work: Callable[[int, Store], T]) -> list[T]:
        """Runs work on all shards at once.

        The first error is raised when all shards have finished.
        """
        futures = [
            self._pool.submit(work, number, shard) for number, shard in enumerate(self.shards)
        ]
        wait(futures)
        try:
            return [future.result() for future in futures]
        finally:
            # the traceback of an error refers to this frame: a reference from the frame to the
            # futures would keep the error alive until the next garbage collection
            del futures

    def _shard_of_id(self, scope: str, name: str) -> int:
        digest = hashlib.sha256(f"{scope}\0{name}".encode()).digest()
        return int.from_bytes(digest[16:24], "little") % len(self.shards)

    def claim(self, header: dict[str, object]) -> dict[str, object]:
        size = len(self.shards)

        def one(number: int, shard: Store) -> dict[str, object]:
            return shard.claim({**header, "shard": [number, size]})

        return self._merge_headers(self._on_all_shards(one))

    def read_header(self) -> dict[str, object] | None:
        shard_headers = self._on_all_shards(lambda _, shard: shard.read_header())
        if all(header is None for header in shard_headers):
            return None
        for shard, header in zip(self.shards, shard_headers, strict=True):
            if header is None:
                raise MissingIndexError(
                    f"there is no index at {shard.url}, which is one of several shards; check the "
                    "URLs"
                )
        return self._merge_headers([header for header in shard_headers if header is not None])

    def _merge_headers(self, shard_headers: Sequence[dict[str, object]]) -> dict[str, object]:
        """Returns the header that all shards have in common."""
        size = len(self.shards)
        for number, stored_header in enumerate(shard_headers):
            if stored_header.get("shard") != [number, size]:
                raise IncompatibleError(
                    f"{self.shards[number].url} is shard {stored_header.get('shard')} of an index, "
                    f"not {[number, size]}"
                )
        plain = [
            {name: value for name, value in stored_header.items() if name != "shard"}
            for stored_header in shard_headers
        ]
        if any(stored_header != plain[0] for stored_header in plain):
            raise IncompatibleError(
                f"the shards {self.url} belong to indexes with different settings; check the URLs"
            )
        return plain[0]

    def write_once(self, name: str, value: object) -> Any:
        answers = self._on_all_shards(lambda _, shard: shard.write_once(name, value))
        return next((answer for answer in answers if answer is not None), None)

    def state(self) -> StoreState:
        shard_states = self._on_all_shards(lambda _, shard: shard.state())
        migration = max(
            (news.migration for news in shard_states), key=lambda migration: migration.epoch
        )
        behind = [
            shard
            for shard, news in zip(self.shards, shard_states, strict=True)
            if news.migration.epoch != migration.epoch
        ]
        if behind and all(news.migration.phase == OPEN for news in shard_states):
            # no migration is under way: the process that raised the epoch did not reach all shards
            for shard in behind:
                # another process may have raised it meanwhile
                with suppress(RacedError):
                    shard.redirect(migration)
        elif behind:
            # the migration has reached some shards only, and writers would see both states
            migration = migration._replace(phase=CLOSING)
        return StoreState(migration, sum(news.generation for news in shard_states))

    def redirect(self, migration: MigrationState) -> None:
        """Writes the state of a migration to one shard after the other.

        If two processes do so at once, the first shard refuses one of them.
        """
        for shard in self.shards:
            shard.redirect(migration)

    def reserve(self, count: int) -> list[int]:
        return self.shards[0].reserve(count)

    def last_number(self) -> int:
        # a number encodes the place of its shard
        return (self.shards[0].last_number() + 1) * len(self.shards) - 1

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        places = [self._shard_of_id(scope, name) for name in ids]
        return self._read_entries(
            places, list(ids), lambda shard, names: shard.entries(scope, names)
        )

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        return self._read_entries(
            [ref % len(self.shards) for ref in refs],
            list(refs),
            lambda shard, some: shard.by_refs(some),
        )

    def _read_entries(
        self,
        places: list[int],
        keys: list[T],
        look_up: Callable[[Store, list[T]], list[Entry | None]],
    ) -> list[Entry | None]:
        """Reads entries from their shards."""
        by_shard = [
            [at for at, place in enumerate(places) if place == number]
            for number in range(len(self.shards))
        ]

        def one(number: int, shard: Store) -> list[Entry | None]:
            return look_up(shard, [keys[at] for at in by_shard[number]]) if by_shard[number] else []

        out: list[Entry | None] = [None] * len(keys)
        for positions, entries_of_shard in zip(by_shard, self._on_all_shards(one), strict=True):
            for at, entry in zip(positions, entries_of_shard, strict=True):
                out[at] = entry
        return out

    def postings(self, keys: np.ndarray) -> Postings:
        places = (keys % np.uint64(len(self.shards))).astype(np.int64)
        positions = [np.flatnonzero(places == number) for number in range(len(self.shards))]
        nothing = Postings(np.empty(0, np.int64), np.zeros(1, np.int64))

        def one(number: int, shard: Store) -> Postings:
            return (
                shard.postings(np.ascontiguousarray(keys[positions[number]]))
                if len(positions[number])
                else nothing
            )

        shard_postings = self._on_all_shards(one)
        sizes = np.zeros(len(keys), np.int64)
        for at, part in zip(positions, shard_postings, strict=True):
            sizes[at] = np.diff(part.offsets)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        words = np.empty(offsets[-1], np.int64)
        for at, part in zip(positions, shard_postings, strict=True):
            starts = np.repeat(offsets[at] - part.offsets[:-1], np.diff(part.offsets))
            words[starts + np.arange(len(part.words))] = part.words
        return Postings(words, offsets)

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        places = (keys % np.uint64(len(self.shards))).astype(np.int64)
        marks = np.empty(len(keys), bool)

        def mark(number: int, shard: Store) -> None:
            marks[places == number] = shard.overflowed(keys[places == number])

        self._on_all_shards(mark)
        return marks

    def apply(self, changes: Changes) -> list[int]:
        before = self._check(changes)
        size = len(self.shards)
        homes = [self._shard_of_id(entry.scope, entry.id) for entry, _ in changes.new]
        numbers = [
            number * size + home
            for number, home in zip(self.reserve(len(homes)), homes, strict=True)
        ]
        new = [
            KeyedEntry(entry._replace(ref=ref), keys)
            for (entry, keys), ref in zip(changes.new, numbers, strict=True)
        ]
        entering = [
            (entry.posting, keys) for entry, keys in (*new, *changes.posted) if keys is not None
        ]
        again = [(entry.ref, keys) for entry, keys in changes.posted if keys is not None]
        leaving = [
            (entry.ref, keys)
            for entry, keys in (*changes.dropped, *changes.unposted)
            if keys is not None
        ]
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        replaced = [written for written in new if (written.entry.scope, written.entry.id) in going]
        ending = [
            entry
            for entry in changes.changed
            if before[entry.ref].is_leader and not entry.is_leader
        ]
        part = Changes(
            invalidates_caches=changes.invalidates_caches,
            epoch=changes.epoch,
            keeps_log=changes.keeps_log,
        )
        try:
            self._write_postings(entering, again, replace(part, may_overflow=changes.may_overflow))
            # A copy that follows the change log must see a document even if a failure leaves only
            # its record, so changed documents are logged here. It must not read a document before
            # it was changed, so they are logged again below.
            self._write_records(
                replace(part, events=[event for event in changes.events if event.kind == TOUCHED])
            )
            last_lines = changes.events
            for phase in (_is_reserved, _is_representative, _is_member):
                changed = [
                    entry for entry in changes.changed if phase(entry) and entry not in ending
                ]
                phase_new = [
                    written for written in new if phase(written.entry) and written not in replaced
                ]
                # a line of a history is written with its document, so that none has no line
                written_entries = (*changed, *(written.entry for written in phase_new))
                names = {(entry.scope, entry.id) for entry in written_entries}
                lines = [line for line in last_lines if line.actor and line[1:3] in names]
                last_lines = [line for line in last_lines if line not in lines]
                self._write_records(
                    replace(
                        part,
                        changed=changed,
                        new=phase_new,
                        events=lines,
                        leader_snapshots=_member_snapshots(changed, before),
                        required_leaders=_leaders_among(changed, before),
                    )
                )
            self._require_leaders(changes, before, new)
            stood = _without_members(
                [*(entry for entry, _ in changes.dropped), *(before[entry.ref] for entry in ending)]
            )
            self._write_records(
                replace(
                    part,
                    dropped=changes.dropped,
                    changed=ending,
                    new=replaced,
                    events=last_lines,
                    leader_snapshots=stood,
                )
            )
            self._restore_joined(changes, before, replaced)
        except (RacedError, MovedError):
            self._withdraw([*new, *changes.posted])
            raise
        except StoreError as error:
            self._withdraw([*new, *changes.posted])
            raise OutcomeUnknownError(
                f"{error}; other shards may have done their part of the step; the call may be "
                f"repeated safely"
            ) from error
        try:
            self._write_postings([], leaving, Changes())
        except StoreError:
            # the documents are correct; only stray postings are left
            log.warning(
                "%s: postings of a completed step could not be deleted; the next sweep deletes "
                "them",
                self.url,
            )
        return numbers

    def _check(self, changes: Changes) -> dict[int, Entry]:
        """Checks the conditions of a step before the first shard is written."""
        before: dict[int, Entry] = {}
        id_of_ref = {entry.ref: entry.id for entry in (*changes.present, *changes.required_leaders)}
        leaders = {entry.ref for entry in changes.required_leaders}
        for ref, entry in zip(id_of_ref, self.by_refs(list(id_of_ref)), strict=True):
            if (
                entry is None
                or entry.id != id_of_ref[ref]
                or (ref in leaders and not entry.is_leader)
            ):
                raise RacedError("a document or a representative was deleted by another process")
            before[ref] = entry
        if any(before[entry.ref].leader != entry.leader for entry in changes.expected):
            raise RacedError("a document was resolved to another representative by another process")
        for standing in changes.leader_snapshots:
            members = self.members(
                standing.entry.scope, standing.entry.id, len(standing.members) + 1
            )
            standing.require_unchanged(
                before[standing.entry.ref].leader, (member.ref for member in members)
            )
        return before

    def _require_leaders(
        self, changes: Changes, before: dict[int, Entry], new: list[KeyedEntry]
    ) -> None:
        """Checks after the writes that the required representatives still exist.

        Documents that were resolved to a deleted representative are taken back.
        """
        gone = self._missing_leaders(changes.required_leaders)
        if not gone:
            return
        # a member that did not change its leader is handled by the step that deletes the leader
        moved = [
            e
            for e in changes.changed
            if (e.scope, e.leader) in gone and e.leader != before[e.ref].leader
        ]
        moved = [entry for entry in moved if not before[entry.ref].is_leader]
        for entry in moved:
            self._undo_changes(
                Changes(
                    changed=[before[entry.ref]],
                    leader_snapshots=_without_members([entry]),
                    invalidates_caches=True,
                    events=_lines_of_undo(changes, [before[entry.ref]]),
                )
            )
        for entry, _ in new:
            if (entry.scope, entry.leader) in gone:
                self._undo_changes(
                    Changes(
                        dropped=[KeyedEntry(entry, None)],
                        leader_snapshots=_without_members([entry]),
                        invalidates_caches=True,
                        events=_lines_of_undo(changes, [entry], kind="withdrawn"),
                    )
                )
        raise RacedError("a representative was deleted by another process")

    def _missing_leaders(self, needs: list[Entry]) -> set[tuple[str, str]]:
        """Returns (scope, id) of the documents that are not representatives any more."""
        name_of_ref = {entry.ref: (entry.scope, entry.id) for entry in needs}
        present_entries = self.by_refs(list(name_of_ref)) if name_of_ref else []
        return {
            name
            for name, present in zip(name_of_ref.values(), present_entries, strict=True)
            if present is None or not present.is_leader
        }

    def _undo_changes(self, changes: Changes) -> None:
        """Undoes the change of a document, unless another process has changed it since."""
        try:
            self._write_records(changes)
        except RacedError:
            return

    def _restore_joined(
        self, changes: Changes, before: dict[int, Entry], replaced: list[KeyedEntry]
    ) -> None:
        """Restores deleted representatives to which other documents were resolved meanwhile."""
        instead = {(entry.scope, entry.id): entry for entry, _ in replaced}
        dropped = {entry.ref for entry, _ in changes.dropped}
        # the documents that replace them require representatives, too
        relying = replaced or len(dropped) < len(changes.leader_snapshots)
        unmet = relying and self._missing_leaders(changes.required_leaders)
        late = [
            standing.entry
            for standing in changes.leader_snapshots
            if unmet or self.members(standing.entry.scope, standing.entry.id, 1)
        ]
        for entry in late:
            old, replacement = before[entry.ref], instead.get((entry.scope, entry.id))
            if entry.ref in dropped:
                swapped = [] if replacement is None else [KeyedEntry(replacement, None)]
                undo = Changes(dropped=swapped, new=[KeyedEntry(old, None)])
            else:
                undo = Changes(changed=[old])
            lines = _lines_of_undo(changes, [old])
            self._write_records(replace(undo, invalidates_caches=True, events=lines))
        if late:
            raise RacedError("a document was resolved to a representative that this step deletes")

    def _write_records(self, changes: Changes) -> None:
        """Writes entries without their postings, each to its shard."""

        def one(number: int, shard: Store) -> None:
            def is_mine(entry: Entry) -> bool:
                return entry.ref % len(self.shards) == number

            mine = replace(
                changes,
                dropped=[KeyedEntry(entry, None) for entry, _ in changes.dropped if is_mine(entry)],
                changed=list(filter(is_mine, changes.changed)),
                new=[KeyedEntry(entry, None) for entry, _ in changes.new if is_mine(entry)],
                required_leaders=list(filter(is_mine, changes.required_leaders)),
                leader_snapshots=[
                    standing for standing in changes.leader_snapshots if is_mine(standing.entry)
                ],
                events=[
                    event
                    for event in changes.events
                    if self._shard_of_id(event.scope, event.id) == number
                ],
            )
            if mine:
                shard.apply(mine)

        self._on_all_shards(one)

    def _write_postings(
        self,
        entering: list[tuple[int, np.ndarray]],
        leaving: list[tuple[int, np.ndarray]],
        changes: Changes,
    ) -> None:
        """Writes postings by their band keys, each to its shard.

        Removed postings are deleted first.
        """
        if not entering and not leaving:
            return

        def one(number: int, shard: Store) -> None:
            mine = replace(
                changes,
                postings_removed=self._postings_of_shard(leaving, number),
                postings_added=self._postings_of_shard(entering, number),
            )
            if mine:
                shard.apply(mine)

        self._on_all_shards(one)

    def _postings_of_shard(
        self, postings: list[tuple[int, np.ndarray]], number: int
    ) -> list[tuple[int, np.ndarray]]:
        keys_of_shard = (
            (word, keys[keys % np.uint64(len(self.shards)) == number]) for word, keys in postings
        )
        return [(word, keys) for word, keys in keys_of_shard if len(keys)]

    def _withdraw(self, posted: list[KeyedEntry]) -> None:
        """Deletes the postings of documents that were not written, if possible."""
        there = self.by_refs_or_none([entry.ref for entry, _ in posted])
        wrong = [
            (present, entry.ref, keys)
            for (entry, keys), present in zip(posted, there, strict=True)
            if keys is not None
            and present is not UNREACHABLE
            and (present is None or not present.posted or present.posting != entry.posting)
        ]
        right = [
            (present.posting, keys)
            for present, _, keys in wrong
            if present is not None and present.posted
        ]
        try:
            self._write_postings(right, [(ref, keys) for _, ref, keys in wrong], Changes())
        except StoreError:
            return

    def by_refs_or_none(self, refs: list[int]) -> list[Entry | None]:
        """Returns documents by number, or UNREACHABLE for all of them if a shard is unreachable."""
        try:
            return self.by_refs(refs)
        except StoreError:
            return [UNREACHABLE] * len(refs)

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
        most = None if limit is None else skip + limit
        shard_members = self._on_all_shards(
            lambda _, shard: shard.members(scope, leader, most, after=after, content=content)
        )
        listed = heapq.merge(*shard_members, key=lambda entry: entry.ref)
        return list(islice(listed, skip, most))

    def member_count(self, scope: str, leader: str) -> int:
        return sum(self._on_all_shards(lambda _, shard: shard.member_count(scope, leader)))

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        yield from heapq.merge(
            *(shard.scan(scope, content=content) for shard in self.shards),
            key=lambda entry: entry.ref,
        )

    def scopes(self) -> Iterator[str]:
        seen: set[str] = set()
        for shard in self.shards:
            for scope in shard.scopes():
                if scope not in seen:
                    seen.add(scope)
                    yield scope

    def due(self, before: float, *, posted: bool) -> Iterator[Entry]:
        parts = (shard.due(before, posted=posted) for shard in self.shards)
        yield from heapq.merge(*parts, key=lambda entry: (entry.seen, entry.ref))

    def sweep_strays(self) -> None:
        """Checks the next portion of the postings of each shard, and deletes stray ones."""
        from nearkin.index.stray_postings import sweep_quietly

        sweep_quietly(self._sweeper)

    def times(self) -> list[float]:
        answers = self._on_all_shards(lambda _, shard: shard.times())
        return [clock for times in answers for clock in times]

    def median_seen(self, before: float, *, posted: bool) -> float | None:
        medians = self._on_all_shards(lambda _, shard: shard.median_seen(before, posted=posted))
        return min((median for median in medians if median is not None), default=None)

    def first_seen(self, after: float, before: float, *, posted: bool) -> float | None:
        times = self._on_all_shards(lambda _, shard: shard.first_seen(after, before, posted=posted))
        return min((first for first in times if first is not None), default=None)

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        return self.shards[0].take_turn(work, holder, seconds)

    def log_end(self) -> tuple[Any, ...]:
        return tuple(self._on_all_shards(lambda _, shard: shard.log_end()))

    def events(self, after: tuple[Any, ...] | None = None) -> Iterator[Event]:
        places = (None,) * len(self.shards) if after is None else after
        parts = (shard.events(place) for shard, place in zip(self.shards, places, strict=True))
        yield from heapq.merge(*parts, key=lambda event: event.at)

    def counts(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for shard_counts in self._on_all_shards(lambda _, shard: shard.counts()):
            for name, value in shard_counts.items():
                total[name] = total.get(name, 0) + value
        return total

    @property
    def durability(self) -> str:
        return "; ".join(dict.fromkeys(shard.durability for shard in self.shards))

    def close(self) -> None:
        for shard in self.shards:
            shard.close()
        self._pool.shutdown()


UNREACHABLE = internal_entry("", "", b"", 0.0)
"""The result for a document whose shard cannot be reached."""


def _is_reserved(entry: Entry) -> bool:
    """Returns whether an entry belongs to the system itself, for example a handover."""
    return entry.scope.startswith(RESERVED)


def _is_representative(entry: Entry) -> bool:
    return entry.is_leader and not _is_reserved(entry)


def _is_member(entry: Entry) -> bool:
    return not entry.is_leader and not _is_reserved(entry)


def _lines_of_undo(step: Changes, entries: list[Entry], kind: str = "") -> list[Event]:
    """Returns the lines of a history about documents that are again as they were before a step."""
    named = [line for line in step.events if line.actor]
    return [
        named[0]._replace(
            kind=kind or ("inserted" if entry.is_leader else "resolved"),
            scope=entry.scope,
            id=entry.id,
            into="" if entry.is_leader else entry.leader,
            cluster=entry.cluster,
        )
        for entry in entries
        if named
    ]


def _without_members(entries: list[Entry]) -> list[LeaderSnapshot]:
    """Returns snapshots of documents without members in their own shard."""
    return [LeaderSnapshot(entry, frozenset()) for entry in entries]


def _member_snapshots(changed: list[Entry], before: dict[int, Entry]) -> list[LeaderSnapshot]:
    """Returns snapshots of the documents of a shard that were members before they are changed."""
    refs = {entry.ref for entry in changed}
    return _without_members([before[ref] for ref in refs if not before[ref].is_leader])


def _leaders_among(changed: list[Entry], before: dict[int, Entry]) -> list[Entry]:
    """Returns the documents of a shard that were leaders before they are changed."""
    refs = {entry.ref for entry in changed}
    return [before[ref] for ref in refs if before[ref].is_leader]
