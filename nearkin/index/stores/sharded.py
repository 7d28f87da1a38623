"""A list of URLs: records by id, postings by key; look-ups fan out at once, and a shard that is down is an error, never a miss.

No transaction spans shards, so the order of a step makes it safe: postings go in before the document they are of, and out after
it; representatives come before those that are resolved to them, and go after them. What a failure leaves is at worst a posting
of a document that is not there, which look-ups pass over, `check` counts, and `expire` sweeps up
(`nearkin.index.stray_postings`); the documents of a failed batch that are there are whole.

If one step resolves a document to a representative and another one removes it, each writes first and looks then, so
that at least one sees the other: the first takes its documents back if the representative is gone, the second puts the
representative back if a document was resolved to it, and both are tried again. What a document is changed to depends on what it
was by a condition in its own shard. Three things are less than over one store. A process that is killed between its write and
its look, while another one does the opposite, leaves a document resolved to one that is not there; `check` finds it. A step
that was taken back may be in the log twice, and may have split its cluster already. And where a representative's text is
updated, one document comes to it before and another after, all between a write and its look, the latter may end up with the
old text as its representative, unverified.
"""

import hashlib
import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from nearkin.errors import IncompatibleError, MovedError, OutcomeUnknownError, RacedError, StoreError, UsageError
from nearkin.index.changes import TOUCHED, Changes, Event, KeyedEntry, LeaderSnapshot
from nearkin.index.entry import Entry, PostingPortion, Postings
from nearkin.index.migration.state import CLOSING, Move, StoreState
from nearkin.index.stores.base import Store
from nearkin.index.stray_postings import StraySweeper, sweep_quietly

T = TypeVar("T")
log = logging.getLogger("nearkin.shards")


class ShardedStore:
    """Several stores as one. Their order and number are part of the index.

    Args:
        shards: At least two.
    """

    def __init__(self, shards: Sequence[Store]) -> None:
        if len(shards) < 2:
            raise UsageError(f"{len(shards)} stores are no shards; give at least two URLs, or one as text")
        self.shards = list(shards)
        self._sweeper = StraySweeper(self.shards, self.by_refs)
        self._pool = ThreadPoolExecutor(len(shards), thread_name_prefix="nearkin-shard")

    @property
    def url(self) -> str:
        """Where they are."""
        return " ".join(shard.url for shard in self.shards)

    def _all(self, work: Callable[[int, Store], T]) -> list[T]:
        """On every shard at once; the first error of any is raised when all have ended."""
        futures = [self._pool.submit(work, number, shard) for number, shard in enumerate(self.shards)]
        wait(futures)
        try:
            return [future.result() for future in futures]
        finally:
            # the traceback of an error holds this frame: without its futures they make no cycle that keeps the error alive
            del futures

    def _of_id(self, scope: str, name: str) -> int:
        digest = hashlib.sha256(f"{scope}\0{name}".encode()).digest()
        return int.from_bytes(digest[16:24], "little") % len(self.shards)

    def claim(self, header: dict[str, Any]) -> dict[str, Any]:
        size = len(self.shards)

        def one(number: int, shard: Store) -> dict[str, Any]:
            return shard.claim({**header, "shard": [number, size]} if header else {})

        found = self._all(one)
        for number, held in enumerate(found):
            if header and held.get("shard") != [number, size]:
                raise IncompatibleError(
                    f"{self.shards[number].url} is shard {held.get('shard')} of an index, not {[number, size]}"
                )
        plain = [{name: value for name, value in held.items() if name != "shard"} for held in found]
        if any(held != plain[0] for held in plain):
            raise IncompatibleError(f"the shards {self.url} belong to indexes that were made differently")
        return plain[0]

    def protect(self) -> None:
        self._all(lambda _, shard: shard.protect())

    def is_protected(self) -> bool:
        return any(self._all(lambda _, shard: shard.is_protected()))

    def state(self) -> StoreState:
        found = self._all(lambda _, shard: shard.state())
        move = max((news.move for news in found), key=lambda move: move.epoch)
        if any(news.move.epoch != move.epoch for news in found):
            # between the first shard and the last one, whose writers would meet both
            move = move._replace(phase=CLOSING)
        return StoreState(move, sum(news.generation for news in found))

    def redirect(self, move: Move) -> None:
        """One after the other: of two at once, the first shard refuses one."""
        for shard in self.shards:
            shard.redirect(move)

    def reserve(self, count: int) -> list[int]:
        return self.shards[0].reserve(count)

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        places = [self._of_id(scope, name) for name in ids]
        return self._gathered(places, list(ids), lambda shard, names: shard.entries(scope, names))

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        return self._gathered([ref % len(self.shards) for ref in refs], list(refs), lambda shard, some: shard.by_refs(some))

    def _gathered(
        self, places: list[int], asked: list[T], look: Callable[[Store, list[T]], list[Entry | None]]
    ) -> list[Entry | None]:
        """Answers of the shards in the order of what was asked."""
        by_shard = [[at for at, place in enumerate(places) if place == number] for number in range(len(self.shards))]

        def one(number: int, shard: Store) -> list[Entry | None]:
            return look(shard, [asked[at] for at in by_shard[number]]) if by_shard[number] else []

        out: list[Entry | None] = [None] * len(asked)
        for positions, found in zip(by_shard, self._all(one), strict=True):
            for at, entry in zip(positions, found, strict=True):
                out[at] = entry
        return out

    def postings(self, keys: np.ndarray) -> Postings:
        places = (keys % np.uint64(len(self.shards))).astype(np.int64)
        positions = [np.flatnonzero(places == number) for number in range(len(self.shards))]
        nothing = Postings(np.empty(0, np.int64), np.zeros(1, np.int64))

        def one(number: int, shard: Store) -> Postings:
            return shard.postings(np.ascontiguousarray(keys[positions[number]])) if len(positions[number]) else nothing

        found = self._all(one)
        sizes = np.zeros(len(keys), np.int64)
        for at, part in zip(positions, found, strict=True):
            sizes[at] = np.diff(part.offsets)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        words = np.empty(offsets[-1], np.int64)
        for at, part in zip(positions, found, strict=True):
            starts = np.repeat(offsets[at] - part.offsets[:-1], np.diff(part.offsets))
            words[starts + np.arange(len(part.words))] = part.words
        return Postings(words, offsets)

    def apply(self, changes: Changes) -> list[int]:
        before = self._check(changes)
        size = len(self.shards)
        homes = [self._of_id(entry.scope, entry.id) for entry, _ in changes.new]
        numbers = [number * size + home for number, home in zip(self.reserve(len(homes)), homes, strict=True)]
        new = [KeyedEntry(entry._replace(ref=ref), keys) for (entry, keys), ref in zip(changes.new, numbers, strict=True)]
        entering = [(entry.posting, keys) for entry, keys in (*new, *changes.posted) if keys is not None]
        again = [(entry.ref, keys) for entry, keys in changes.posted if keys is not None]
        leaving = [(entry.ref, keys) for entry, keys in (*changes.dropped, *changes.unposted) if keys is not None]
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        ending = [entry for entry in changes.changed if before[entry.ref].is_leader and not entry.is_leader]
        part = Changes(invalidates_caches=changes.invalidates_caches, epoch=changes.epoch)
        try:
            self._buckets(entering, again, replace(part, may_overflow=changes.may_overflow))
            # a copy that follows the log must not miss a document of which a failure leaves no more than the record: so its
            # touches are logged here; and must not have looked at one before its change was there: so they are logged again
            self._records(replace(part, events=[event for event in changes.events if event.kind == TOUCHED]))
            for leads in (True, False):
                some = [written for written in new if written.entry.is_leader == leads]
                later = [written for written in some if (written.entry.scope, written.entry.id) in going]
                changed = [entry for entry in changes.changed if entry.is_leader == leads and entry not in ending]
                stays = [written for written in some if written not in later]
                self._records(replace(part, changed=changed, new=stays, **_conditions(changed, before)))
            self._make_sure_of_needs(changes, before, new)
            replaced = [written for written in new if (written.entry.scope, written.entry.id) in going]
            stood = _alone([*(entry for entry, _ in changes.dropped), *(before[entry.ref] for entry in ending)])
            self._records(
                replace(
                    part, dropped=changes.dropped, changed=ending, new=replaced, events=changes.events, leader_snapshots=stood
                )
            )
            self._make_sure_nobody_came(changes, before, replaced)
        except (RacedError, MovedError):
            self._withdraw([*new, *changes.posted])
            raise
        except StoreError as error:
            self._withdraw([*new, *changes.posted])
            raise OutcomeUnknownError(
                f"{error}; other shards may have done their part of the step; the call may be repeated safely"
            ) from error
        try:
            self._buckets([], leaving, Changes())
        except StoreError:
            # the documents are as they should be; what is left are postings of documents that are not there
            log.warning("%s: postings of a step that was done could not be deleted; the next sweep deletes them", self.url)
        return numbers

    def _check(self, changes: Changes) -> dict[int, Entry]:
        """What must be there, before the first shard writes; documents by number, as they are."""
        before: dict[int, Entry] = {}
        wanted = {entry.ref: entry.id for entry in (*changes.present, *changes.required_leaders)}
        leaders = {entry.ref for entry in changes.required_leaders}
        for ref, entry in zip(wanted, self.by_refs(list(wanted)), strict=True):
            if entry is None or entry.id != wanted[ref] or (ref in leaders and not entry.is_leader):
                raise RacedError("a document or a representative is not there any more")
            before[ref] = entry
        if any(before[entry.ref].leader != entry.leader for entry in changes.expected):
            raise RacedError("a document has been resolved to another one meanwhile")
        for standing in changes.leader_snapshots:
            members = self.members(standing.entry.scope, standing.entry.id, len(standing.members) + 1)
            standing.require_unchanged(before[standing.entry.ref].leader, (member.ref for member in members))
        return before

    def _make_sure_of_needs(self, changes: Changes, before: dict[int, Entry], new: list[KeyedEntry]) -> None:
        """Behind the writes of what relies on them; documents that came to a representative that is gone are taken back.

        Raises:
            RacedError: One is gone.
        """
        gone = self._gone(changes.required_leaders)
        if not gone:
            return
        # a member that stays one is looked after by the step that takes its representative out
        moved = [e for e in changes.changed if (e.scope, e.leader) in gone and e.leader != before[e.ref].leader]
        moved = [entry for entry in moved if not before[entry.ref].is_leader]
        for entry in moved:
            self._undo(Changes(changed=[before[entry.ref]], leader_snapshots=_alone([entry]), invalidates_caches=True))
        for entry, _ in new:
            if (entry.scope, entry.leader) in gone:
                self._undo(
                    Changes(dropped=[KeyedEntry(entry, None)], leader_snapshots=_alone([entry]), invalidates_caches=True)
                )
        raise RacedError("a representative is not there any more")

    def _gone(self, needs: list[Entry]) -> set[tuple[str, str]]:
        """(scope, id) of representatives that are not there, or are none, any more."""
        wanted = {entry.ref: (entry.scope, entry.id) for entry in needs}
        found = self.by_refs(list(wanted)) if wanted else []
        return {name for name, held in zip(wanted.values(), found, strict=True) if held is None or not held.is_leader}

    def _undo(self, changes: Changes) -> None:
        """Of a document; what another process has changed since is as that one has it."""
        try:
            self._records(changes)
        except RacedError:
            return

    def _make_sure_nobody_came(self, changes: Changes, before: dict[int, Entry], replaced: list[KeyedEntry]) -> None:
        """Behind the writes by which documents go; those to whom others were resolved meanwhile are put back.

        Raises:
            RacedError: There were such.
        """
        instead = {(entry.scope, entry.id): entry for entry, _ in replaced}
        dropped = {entry.ref for entry, _ in changes.dropped}
        # what is written with them relies on representatives, too
        relying = replaced or len(dropped) < len(changes.leader_snapshots)
        unmet = relying and self._gone(changes.required_leaders)
        late = [
            standing.entry
            for standing in changes.leader_snapshots
            if unmet or self.members(standing.entry.scope, standing.entry.id, 1)
        ]
        for entry in late:
            old, other = before[entry.ref], instead.get((entry.scope, entry.id))
            if entry.ref in dropped:
                swapped = [] if other is None else [KeyedEntry(other, None)]
                self._records(Changes(dropped=swapped, new=[KeyedEntry(old, None)], invalidates_caches=True))
            else:
                self._records(Changes(changed=[old], invalidates_caches=True))
        if late:
            raise RacedError("another document was resolved meanwhile to one that goes")

    def _records(self, changes: Changes) -> None:
        """Entries without their postings, each to its shard."""

        def one(number: int, shard: Store) -> None:
            mine = replace(
                changes,
                dropped=[KeyedEntry(entry, None) for entry, _ in changes.dropped if entry.ref % len(self.shards) == number],
                changed=[entry for entry in changes.changed if entry.ref % len(self.shards) == number],
                new=[KeyedEntry(entry, None) for entry, _ in changes.new if entry.ref % len(self.shards) == number],
                required_leaders=[entry for entry in changes.required_leaders if entry.ref % len(self.shards) == number],
                leader_snapshots=[
                    standing for standing in changes.leader_snapshots if standing.entry.ref % len(self.shards) == number
                ],
                events=[event for event in changes.events if self._of_id(event.scope, event.id) == number],
            )
            if mine:
                shard.apply(mine)

        self._all(one)

    def _buckets(self, entering: list[tuple[int, np.ndarray]], leaving: list[tuple[int, np.ndarray]], changes: Changes) -> None:
        """Postings by their keys, each to its shard; leaving ones first."""
        if not entering and not leaving:
            return

        def one(number: int, shard: Store) -> None:
            mine = replace(changes, postings_removed=self._part(leaving, number), postings_added=self._part(entering, number))
            if mine:
                shard.apply(mine)

        self._all(one)

    def _part(self, postings: list[tuple[int, np.ndarray]], number: int) -> list[tuple[int, np.ndarray]]:
        some = ((word, keys[keys % np.uint64(len(self.shards)) == number]) for word, keys in postings)
        return [(word, keys) for word, keys in some if len(keys)]

    def _withdraw(self, posted: list[KeyedEntry]) -> None:
        """The postings of documents that did not become what they were to be, if their shards can be reached."""
        there = self.by_refs_or_none([entry.ref for entry, _ in posted])
        wrong = [
            (held, entry.ref, keys)
            for (entry, keys), held in zip(posted, there, strict=True)
            if keys is not None and held is not NOBODY and (held is None or not held.posted or held.posting != entry.posting)
        ]
        right = [(held.posting, keys) for held, _, keys in wrong if held is not None and held.posted]
        try:
            self._buckets(right, [(ref, keys) for _, ref, keys in wrong], Changes())
        except StoreError:
            return

    def by_refs_or_none(self, refs: list[int]) -> list[Entry | None]:
        """As `by_refs`; as if all were there where a shard cannot say."""
        try:
            return self.by_refs(refs)
        except StoreError:
            return [NOBODY] * len(refs)

    def members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        found = self._all(lambda _, shard: shard.members(scope, leader, limit))
        return _in_order(found)[:limit]

    def member_page(self, scope: str, leader: str, after: int, skip: int, limit: int) -> list[Entry]:
        found = self._all(lambda _, shard: shard.member_page(scope, leader, after, 0, skip + limit))
        return _in_order(found)[skip : skip + limit]

    def member_count(self, scope: str, leader: str) -> int:
        return sum(self._all(lambda _, shard: shard.member_count(scope, leader)))

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        yield from heapq.merge(*(shard.scan(scope, content=content) for shard in self.shards), key=lambda entry: entry.ref)

    def scopes(self) -> Iterator[str]:
        seen: set[str] = set()
        for shard in self.shards:
            for scope in shard.scopes():
                if scope not in seen:
                    seen.add(scope)
                    yield scope

    def due(self, before: float, posted: bool) -> Iterator[Entry]:
        parts = (shard.due(before, posted) for shard in self.shards)
        yield from heapq.merge(*parts, key=lambda entry: (entry.seen, entry.ref))

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        """Returns nothing: each shard is looked through by itself, by `sweep_strays`."""
        return PostingPortion(np.empty(0, np.uint64), np.empty(0, np.int64), None)

    def sweep_strays(self) -> None:
        """Looks at the next portion of the postings of each shard, and deletes those whose documents stay away."""
        sweep_quietly(self._sweeper)

    def times(self) -> list[float]:
        return [one for times in self._all(lambda _, shard: shard.times()) for one in times]

    def median_seen(self) -> float | None:
        found = [one for one in self._all(lambda _, shard: shard.median_seen()) if one is not None]
        return min(found, default=None)

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        return self.shards[0].take_turn(work, holder, seconds)

    def log_end(self) -> tuple[Any, ...]:
        return tuple(self._all(lambda _, shard: shard.log_end()))

    def events(self, after: tuple[Any, ...] | None = None) -> Iterator[Event]:
        places = (None,) * len(self.shards) if after is None else after
        parts = (shard.events(place) for shard, place in zip(self.shards, places, strict=True))
        yield from heapq.merge(*parts, key=lambda event: event.at)

    def counts(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for found in self._all(lambda _, shard: shard.counts()):
            for name, value in found.items():
                total[name] = total.get(name, 0) + value
        return total

    @property
    def durability(self) -> str:
        return "; ".join(dict.fromkeys(shard.durability for shard in self.shards))

    def close(self) -> None:
        for shard in self.shards:
            shard.close()
        self._pool.shutdown()


NOBODY = Entry("", "", 0, b"", "", "", 0.0, 0, 0.0, 0.0, False, b"", None, b"")


def _in_order(parts: list[list[Entry]]) -> list[Entry]:
    return sorted((entry for part in parts for entry in part), key=lambda entry: entry.ref)


def _alone(entries: list[Entry]) -> list[LeaderSnapshot]:
    """Documents that nobody of their own shard is resolved to."""
    return [LeaderSnapshot(entry, frozenset()) for entry in entries]


def _conditions(changed: list[Entry], before: dict[int, Entry]) -> dict[str, Any]:
    """What documents must be in their own shards to be changed."""
    refs = {entry.ref for entry in changed}
    members = [before[ref] for ref in refs if not before[ref].is_leader]
    return {"leader_snapshots": _alone(members), "required_leaders": [before[ref] for ref in refs if before[ref].is_leader]}
