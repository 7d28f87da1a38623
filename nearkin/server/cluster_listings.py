"""Clusters in order of size or age, counted from time to time: a store knows documents, not how they rank."""

import heapq
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from nearkin.index.entry import Entry
from nearkin.index.index import Index
from nearkin.plan.observe import observe_sample
from nearkin.plan.tune import Distribution

T = TypeVar("T")

MOST = 10_000
"""Clusters of a scope that are listed, in each order."""
PATIENCE = 20.0
"""A count is kept for so many times as long as it took, and at least LEAST seconds."""
LEAST = 5.0
SCOPES = 64
"""Scopes whose lists are kept."""
SAMPLE = 1000
"""Documents of a scope that are drawn; fewer where they are long: about as many as have SHINGLES together."""
SHINGLES, AT_ONCE = 1_000_000, 50
BINS = 50
SPREAD = 0x9E3779B97F4A7C15
"""2⁶⁴ over the golden ratio: multiples of it, cut to 64 bits, lie evenly (Knuth, *The Art of Computer Programming*, 6.4)."""
GLANCE = 1.0
"""Seconds in which scopes are looked for."""


class Head(NamedTuple):
    """A cluster."""

    cluster: str
    representative: str
    size: int
    created: float


def by_size(head: Head) -> tuple[float, str]:
    """Returns the place of a cluster in the order `largest`."""
    return -head.size, head.representative


def by_age(head: Head) -> tuple[float, str]:
    """Returns the place of a cluster in the order `newest`."""
    return -head.created, head.representative


@dataclass(frozen=True)
class Listing:
    """Clusters of a scope as they were at `as_of`.

    Attributes:
        as_of: Seconds since 1970.
        clusters: How many there are.
        documents: How many there are.
        largest: Largest first.
        newest: Newest first.
        resolved: Documents by their similarity to their representative, which itself is not counted: BINS bins from 0 to 1.
        sample: Numbers of some documents, evenly over the order in which they came, as is any beginning of it.
        until: When it is counted anew.
    """

    as_of: float
    clusters: int
    documents: int
    largest: tuple[Head, ...]
    newest: tuple[Head, ...]
    resolved: tuple[int, ...]
    sample: tuple[int, ...]
    until: float


class _Held(Generic[T]):
    """A result that is kept for as long as a listing is."""

    def __init__(self, make: Callable[[], T], clock: Callable[[], float]) -> None:
        self._make, self._clock = make, clock
        self._value: tuple[T, float] | None = None
        self._lock = Lock()

    def get(self) -> T:
        """The result, made anew if it is old."""
        with self._lock:
            began = self._clock()
            if self._value is None or began >= self._value[1]:
                made = self._make()
                self._value = made, _until(began, self._clock())
            return self._value[0]


def _until(began: float, ended: float) -> float:
    """How long something is kept that took from `began` to `ended`."""
    return ended + max(LEAST, PATIENCE * (ended - began))


def _keep(held: dict[str, T], scope: str, value: T) -> None:
    """As the newest; the oldest goes where there are many."""
    held.pop(scope, None)
    held[scope] = value
    while len(held) > SCOPES:
        del held[next(iter(held))]


class ClusterListings:
    """Lists of clusters.

    Args:
        index: Says which one answers.
        clock: Seconds.
    """

    def __init__(self, index: Callable[[], Index], clock: Callable[[], float] = time.time) -> None:
        self._index, self._clock = index, clock
        self._lists: dict[str, Listing] = {}
        self._pairs: dict[str, tuple[float, Distribution | None]] = {}
        self._lock = Lock()
        self._busy: dict[str, tuple[Lock, int]] = {}
        self._scopes = _Held(self._first_scopes, clock)
        self._counts = _Held(lambda: index().counts(), clock)

    def listing(self, scope: str) -> Listing:
        """Of a scope; counted again if the last count is old. Reads every document of the scope."""
        with self._counting(scope):
            with self._lock:
                held = self._lists.get(scope)
            if held is not None and self._clock() < held.until:
                return held
            found = self._count(scope)
            with self._lock:
                _keep(self._lists, scope, found)
            return found

    def pairs(self, scope: str) -> Distribution | None:
        """The pairs of a scope by similarity, as its sample has them, compared each with each; None of fewer than two."""
        listing = self.listing(scope)
        with self._counting(scope):
            with self._lock:
                as_of, found = self._pairs.get(scope, (None, None))
            if as_of != listing.as_of:
                found = self._compare(scope, listing)
                with self._lock:
                    _keep(self._pairs, scope, (listing.as_of, found))
            return found

    @contextmanager
    def _counting(self, scope: str) -> Iterator[None]:
        """Once for all who ask for a scope meanwhile; scopes beside each other."""
        with self._lock:
            lock, waiting = self._busy.get(scope, (Lock(), 0))
            self._busy[scope] = lock, waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._busy.pop(scope)
                if waiting > 1:
                    self._busy[scope] = lock, waiting - 1

    def _compare(self, scope: str, listing: Listing) -> Distribution | None:
        index = self._index()
        entries: list[Entry] = []
        for at in range(0, len(listing.sample), AT_ONCE):
            # after a cut-over the numbers may be other documents'
            found = index.get_by_refs(list(listing.sample[at : at + AT_ONCE]))
            entries += [entry for entry in found if entry is not None and entry.scope == scope]
            if sum(entry.size for entry in entries) > SHINGLES:
                break
        if len(entries) < 2:
            return None
        return observe_sample(index.payload_of(entries), index.measure, listing.documents)

    def scopes(self) -> tuple[str, ...]:
        """Returns scopes by name: all that the store says within GLANCE seconds."""
        return self._scopes.get()

    def counts(self) -> dict[str, int]:
        """The store's counts, which may take it long."""
        return self._counts.get()

    def _first_scopes(self) -> tuple[str, ...]:
        began, found = self._clock(), list[str]()
        for scope in self._index().iterate_scopes():
            found.append(scope)
            if self._clock() - began > GLANCE:
                break
        return tuple(sorted(found))

    def _count(self, scope: str) -> Listing:
        began = self._clock()
        sizes: dict[str, int] = {}
        heads: dict[str, tuple[str, float]] = {}
        resolved = [0] * BINS
        sample: list[tuple[int, int]] = []
        for entry in self._index().scan(scope, content=False):
            sizes[entry.leader] = sizes.get(entry.leader, 0) + 1
            if entry.is_leader:
                heads[entry.id] = (entry.cluster, entry.created)
            else:
                resolved[min(int(entry.similarity * BINS), BINS - 1)] += 1
            ranked = (entry.ref * SPREAD % 2**64, entry.ref)
            if len(sample) < SAMPLE:
                heapq.heappush(sample, ranked)
            else:
                heapq.heappushpop(sample, ranked)
        rows = [Head(cluster, name, sizes[name], created) for name, (cluster, created) in heads.items()]
        largest = heapq.nsmallest(MOST, rows, key=by_size)
        newest = heapq.nsmallest(MOST, rows, key=by_age)
        ended = self._clock()
        until = _until(began, ended)
        drawn = tuple(ref for _, ref in sorted(sample))
        found = (tuple(largest), tuple(newest), tuple(resolved), drawn)
        return Listing(began, len(rows), sum(sizes.values()), *found, until)
