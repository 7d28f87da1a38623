"""A list of URLs: records by id, postings by key; look-ups fan out at once, and a shard that is down is an error, never a miss.

No transaction spans shards, so the order of a step makes it safe: postings go in before the document they are of, and out after
it; representatives before those that are resolved to them. What a failure leaves is at worst a posting of a document that is
not there, which look-ups pass over and `check` counts; the documents of a failed batch that are there are whole.
"""

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from nearkin.errors import IncompatibleError, RacedError, StoreError, UsageError
from nearkin.index.entry import TOUCHED, Changes, Entry, Event, Postings, Written
from nearkin.index.move import CLOSING, Move, News
from nearkin.index.store import Store

T = TypeVar("T")


class ShardedStore:
    """Several stores as one. Their order and number are part of the index.

    Args:
        shards: At least two.
    """

    def __init__(self, shards: Sequence[Store]) -> None:
        if len(shards) < 2:
            raise UsageError(f"{len(shards)} stores are no shards; give at least two URLs, or one as text")
        self.shards = list(shards)
        self._pool = ThreadPoolExecutor(len(shards), thread_name_prefix="nearkin-shard")

    @property
    def url(self) -> str:
        """Where they are."""
        return " ".join(shard.url for shard in self.shards)

    def _all(self, work: Callable[[int, Store], T]) -> list[T]:
        """On every shard at once; the first error of any is raised when all have ended."""
        futures = [self._pool.submit(work, number, shard) for number, shard in enumerate(self.shards)]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

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

    def news(self) -> News:
        found = self._all(lambda _, shard: shard.news())
        move = max((news.move for news in found), key=lambda move: move.epoch)
        if any(news.move.epoch != move.epoch for news in found):
            # between the first shard and the last one, whose writers would meet both
            move = move._replace(phase=CLOSING)
        return News(move, sum(news.generation for news in found))

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
        self._check(changes)
        size = len(self.shards)
        homes = [self._of_id(entry.scope, entry.id) for entry, _ in changes.new]
        numbers = [number * size + home for number, home in zip(self.reserve(len(homes)), homes, strict=True)]
        new = [Written(entry._replace(ref=ref), keys) for (entry, keys), ref in zip(changes.new, numbers, strict=True)]
        entering = [(entry.word, keys) for entry, keys in (*new, *changes.posted) if keys is not None]
        again = [(entry.ref, keys) for entry, keys in changes.posted if keys is not None]
        leaving = [(entry.ref, keys) for entry, keys in (*changes.dropped, *changes.unposted) if keys is not None]
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        part = Changes(resolves=changes.resolves, epoch=changes.epoch)
        try:
            self._buckets(entering, again, replace(part, crowded=changes.crowded))
            # a copy that follows the log must not miss a document of which a failure leaves no more than the record
            self._records(replace(part, events=[event for event in changes.events if event.kind == TOUCHED]))
            for leads in (True, False):
                some = [written for written in new if written.entry.is_leader == leads]
                later = [written for written in some if (written.entry.scope, written.entry.id) in going]
                changed = [entry for entry in changes.changed if entry.is_leader == leads]
                self._records(replace(part, changed=changed, new=[written for written in some if written not in later]))
            replaced = [written for written in new if (written.entry.scope, written.entry.id) in going]
            events = [event for event in changes.events if event.kind != TOUCHED]
            self._records(replace(part, dropped=changes.dropped, new=replaced, events=events))
        except StoreError:
            self._withdraw(new)
            raise
        self._buckets([], leaving, Changes())
        return numbers

    def _check(self, changes: Changes) -> None:
        """What must be there; between shards it can only be looked at beforehand."""
        wanted = {entry.ref: entry.id for entry in (*changes.present, *changes.needs)}
        leaders = {entry.ref for entry in changes.needs}
        for ref, entry in zip(wanted, self.by_refs(list(wanted)), strict=True):
            if entry is None or entry.id != wanted[ref] or (ref in leaders and not entry.is_leader):
                raise RacedError(f"{wanted[ref]} is not there any more")

    def _records(self, changes: Changes) -> None:
        """Entries without their postings, each to its shard."""

        def one(number: int, shard: Store) -> None:
            mine = replace(
                changes,
                dropped=[Written(entry, None) for entry, _ in changes.dropped if entry.ref % len(self.shards) == number],
                changed=[entry for entry in changes.changed if entry.ref % len(self.shards) == number],
                new=[Written(entry, None) for entry, _ in changes.new if entry.ref % len(self.shards) == number],
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
            mine = replace(changes, leaving=self._part(leaving, number), entering=self._part(entering, number))
            if mine:
                shard.apply(mine)

        self._all(one)

    def _part(self, postings: list[tuple[int, np.ndarray]], number: int) -> list[tuple[int, np.ndarray]]:
        some = ((word, keys[keys % np.uint64(len(self.shards)) == number]) for word, keys in postings)
        return [(word, keys) for word, keys in some if len(keys)]

    def _withdraw(self, new: list[Written]) -> None:
        """The postings of documents that did not get in, if their shards can be reached."""
        there = self.by_refs_or_none([entry.ref for entry, _ in new])
        gone = [(w.entry.ref, w.keys) for w, held in zip(new, there, strict=True) if held is None and w.keys is not None]
        try:
            self._buckets([], gone, Changes())
        except StoreError:
            return

    def by_refs_or_none(self, refs: list[int]) -> list[Entry | None]:
        """As `by_refs`; as if all were there where a shard cannot say."""
        try:
            return self.by_refs(refs)
        except StoreError:
            return [NOBODY] * len(refs)

    def members(self, scope: str, leader: str) -> list[Entry]:
        found = self._all(lambda _, shard: shard.members(scope, leader))
        return sorted((entry for part in found for entry in part), key=lambda entry: entry.ref)

    def scan(self, scope: str | None = None) -> Iterator[Entry]:
        yield from heapq.merge(*(shard.scan(scope) for shard in self.shards), key=lambda entry: entry.ref)

    def due(self, before: float, posted: bool) -> Iterator[Entry]:
        parts = (shard.due(before, posted) for shard in self.shards)
        yield from heapq.merge(*parts, key=lambda entry: (entry.seen, entry.ref))

    def events(self) -> Iterator[Event]:
        yield from heapq.merge(*(shard.events() for shard in self.shards), key=lambda event: event.at)

    def counts(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for found in self._all(lambda _, shard: shard.counts()):
            for name, value in found.items():
                total[name] = total.get(name, 0) + value
        return total

    def close(self) -> None:
        for shard in self.shards:
            shard.close()
        self._pool.shutdown()


NOBODY = Entry("", "", 0, b"", "", "", 0.0, 0, 0.0, 0.0, False, b"", None, b"")
