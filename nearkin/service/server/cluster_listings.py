"""Listings of the clusters of a scope by size or age.

They are computed from time to time, because stores do not rank clusters.
"""

import heapq
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from nearkin.index.entry import RESERVED, Entry
from nearkin.index.index import Index
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.observe import observe_sample
from nearkin.reports.similarity_bins import BINS, Histogram, bin_edges

T = TypeVar("T")

MAX_LISTED_CLUSTERS = 10_000
"""Maximum number of clusters of a scope that are listed in each order."""
LIFETIME_FACTOR = 20.0
"""A result is reused for this many times as long as it took to compute, and at least for
MIN_LIFETIME seconds."""
MIN_LIFETIME = 5.0
MAX_CACHED_SCOPES = 64
"""Maximum number of scopes whose listings are kept."""
SAMPLE_SIZE = 1000
"""Maximum number of documents of a scope that are sampled."""
MAX_SAMPLE_SHINGLES = 1_000_000
"""Number of shingles after which no more documents of a sample are read, which bounds the memory
for long documents."""
SAMPLE_BATCH = 50
"""Number of sampled documents that are read at once."""
SAMPLE_MULTIPLIER = 0x9E3779B97F4A7C15
"""2⁶⁴ divided by the golden ratio. Its multiples modulo 2⁶⁴ are spread evenly (Knuth, *The Art of
Computer Programming*, 6.4)."""
SCOPE_SEARCH_SECONDS = 1.0
"""Maximum number of seconds for which a store is searched for scopes."""
SCOPE_COUNT_SECONDS = 2.0
"""Number of seconds after which no further scope is counted."""
MAX_COUNTED_SCOPES = 10_000
"""Maximum number of scopes whose counts are kept."""


class ClusterSummary(NamedTuple):
    """A cluster in a listing.

    Attributes:
        cluster: Id of the cluster.
        representative: Id of the representative.
        size: Number of documents.
        created: Time at which the representative was stored, in seconds since 1970.
    """

    cluster: str
    representative: str
    size: int
    created: float


def size_order(summary: ClusterSummary) -> tuple[float, str]:
    """Returns the sort key of the order `largest`."""
    return -summary.size, summary.representative


def age_order(summary: ClusterSummary) -> tuple[float, str]:
    """Returns the sort key of the order `newest`."""
    return -summary.created, summary.representative


@dataclass(frozen=True)
class ClusterListing:
    """The clusters of a scope at one time.

    Attributes:
        as_of: Time of the listing, in seconds since 1970.
        clusters: Number of clusters.
        documents: Number of documents.
        largest: Clusters in descending order of size.
        newest: Clusters in descending order of creation time.
        resolved: Histogram of the similarities of documents to their representative, divided at
            the threshold. Representatives are not counted.
        sample: Numbers of sampled documents. Every prefix is spread evenly over the order of
            arrival.
        valid_until: Time after which the listing is computed again.
    """

    as_of: float
    clusters: int
    documents: int
    largest: tuple[ClusterSummary, ...]
    newest: tuple[ClusterSummary, ...]
    resolved: Histogram
    sample: tuple[int, ...]
    valid_until: float


class ScopeCounts(NamedTuple):
    """The numbers of documents and clusters of a scope.

    Attributes:
        documents: Number of documents.
        clusters: Number of clusters.
        as_of: Time of the count, in seconds since 1970.
        valid_until: Time after which the scope is counted again.
    """

    documents: int
    clusters: int
    as_of: float
    valid_until: float


class ScopeListing(NamedTuple):
    """The scopes of an index.

    Attributes:
        names: Names in ascending order.
        complete: False if the search took longer than SCOPE_SEARCH_SECONDS.
    """

    names: tuple[str, ...]
    complete: bool


class _CachedValue(Generic[T]):
    """A value that is computed again when it is too old."""

    def __init__(self, compute: Callable[[], T], clock: Callable[[], float]) -> None:
        self._compute = compute
        self._clock = clock
        self._value: tuple[T, float, float] | None = None
        """The value, the time of its computation, and that until which it is reused."""
        self._lock = Lock()

    def get(self) -> T:
        with self._lock:
            began = self._clock()
            if self._value is None or not _is_current(began, self._value[1], self._value[2]):
                value = self._compute()
                self._value = value, began, _valid_until(began, self._clock())
            return self._value[0]


def _valid_until(began: float, ended: float) -> float:
    """Returns the time until which a result is reused that was computed from `began` to `ended`."""
    return ended + max(MIN_LIFETIME, LIFETIME_FACTOR * (ended - began))


def _is_current(now: float, as_of: float, valid_until: float) -> bool:
    """Returns True if a result may be reused. It may not if the clock was set back since."""
    return as_of <= now < valid_until


def _store_newest(cache: dict[str, T], scope: str, value: T, most: int = MAX_CACHED_SCOPES) -> None:
    """Stores a value as the newest one, and deletes the oldest ones if there are too many."""
    cache.pop(scope, None)
    cache[scope] = value
    while len(cache) > most:
        del cache[next(iter(cache))]


class ClusterListings:
    """A cache of listings of clusters, and of samples and counts of an index.

    Args:
        clock: Returns the current time in seconds.
    """

    def __init__(self, index: Callable[[], Index], clock: Callable[[], float] = time.time) -> None:
        self._index = index
        self._clock = clock
        self._listings: dict[str, ClusterListing] = {}
        self._distributions: dict[str, tuple[float, Distribution | None]] = {}
        self._scope_counts: dict[str, ScopeCounts] = {}
        self._lock = Lock()
        self._scope_locks: dict[str, tuple[Lock, int]] = {}
        self._scopes = _CachedValue(self._read_scopes, clock)
        self._counts = _CachedValue(lambda: index().counts(), clock)

    def listing(self, scope: str) -> ClusterListing:
        """Returns the listing of a scope.

        A new one is computed from all documents if the last one is too old.
        """
        with self._locked(scope):
            with self._lock:
                cached = self._listings.get(scope)
            if cached is not None and _is_current(self._clock(), cached.as_of, cached.valid_until):
                return cached
            listing = self._compute_listing(scope)
            with self._lock:
                _store_newest(self._listings, scope, listing)
            return listing

    def pairs(self, scope: str) -> Distribution | None:
        """Returns the similarities of all pairs of a sample of the documents with content.

        The result is None for fewer than two such documents.
        """
        listing = self.listing(scope)
        with self._locked(scope):
            with self._lock:
                as_of, distribution = self._distributions.get(scope, (None, None))
            if as_of != listing.as_of:
                distribution = self._compare_sample(scope, listing)
                with self._lock:
                    _store_newest(self._distributions, scope, (listing.as_of, distribution))
            return distribution

    def scopes(self) -> tuple[str, ...]:
        """Returns the scopes that were found within SCOPE_SEARCH_SECONDS, sorted by name."""
        return self._scopes.get().names

    def scope_names(self) -> ScopeListing:
        """Returns the public scopes, and whether all of them were found."""
        listing = self._scopes.get()
        public = tuple(name for name in listing.names if not name.startswith(RESERVED))
        return ScopeListing(public, listing.complete)

    def scope_counts(self, scopes: Sequence[str]) -> dict[str, ScopeCounts]:
        """Returns the counts of some scopes, as far as they are counted in SCOPE_COUNT_SECONDS.

        Counts are reused like listings. At least one scope is counted in each call, so that
        repeated calls count all.
        """
        began = self._clock()
        counts: dict[str, ScopeCounts] = {}
        for scope in scopes:
            known = self._scope_counts.get(scope)
            is_current = known is not None and _is_current(
                self._clock(), known.as_of, known.valid_until
            )
            if not is_current and self._clock() - began < SCOPE_COUNT_SECONDS:
                known = self._count_scope(scope)
                with self._lock:
                    _store_newest(self._scope_counts, scope, known, MAX_COUNTED_SCOPES)
            if known is not None:
                counts[scope] = known
        return counts

    def _count_scope(self, scope: str) -> ScopeCounts:
        began = self._clock()
        documents = 0
        clusters = 0
        for entry in self._index().scan(scope, content=False):
            documents += 1
            clusters += entry.is_leader
        return ScopeCounts(documents, clusters, began, _valid_until(began, self._clock()))

    def counts(self) -> dict[str, int]:
        """Returns the counts of the store, which can take long to compute."""
        return self._counts.get()

    @contextmanager
    def _locked(self, scope: str) -> Iterator[None]:
        """Lets one thread at a time compute results of a scope. Other scopes are not affected."""
        with self._lock:
            lock, waiting = self._scope_locks.get(scope, (Lock(), 0))
            self._scope_locks[scope] = lock, waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._scope_locks.pop(scope)
                if waiting > 1:
                    self._scope_locks[scope] = lock, waiting - 1

    def _compare_sample(self, scope: str, listing: ClusterListing) -> Distribution | None:
        index = self._index()
        entries: list[Entry] = []
        for start in range(0, len(listing.sample), SAMPLE_BATCH):
            # after a cutover, the numbers may belong to other documents
            sampled = index.get_by_refs(list(listing.sample[start : start + SAMPLE_BATCH]))
            entries += [
                entry
                for entry in sampled
                if entry is not None
                and entry.scope == scope
                and entry.has_content
                # texts are compared, which a document with a vector may lack
                and (entry.size or not index.holds_both)
            ]
            if sum(entry.size for entry in entries) > MAX_SAMPLE_SHINGLES:
                break
        if len(entries) < 2:
            return None
        return observe_sample(index.payload_of(entries), index.measure, listing.documents)

    def _read_scopes(self) -> ScopeListing:
        began = self._clock()
        scopes = list[str]()
        is_complete = True
        for scope in self._index().iterate_scopes():
            scopes.append(scope)
            if self._clock() - began > SCOPE_SEARCH_SECONDS:
                is_complete = False
                break
        return ScopeListing(tuple(sorted(scopes)), is_complete)

    def _compute_listing(self, scope: str) -> ClusterListing:
        began = self._clock()
        sizes: dict[str, int] = {}
        representatives: dict[str, tuple[str, float]] = {}
        sample: list[tuple[int, int]] = []
        index = self._index()
        edges = bin_edges(BINS, index.threshold).tolist()
        resolved = [0] * (len(edges) - 1)
        for entry in index.scan(scope, content=False):
            sizes[entry.leader] = sizes.get(entry.leader, 0) + 1
            if entry.is_leader:
                representatives[entry.id] = (entry.cluster, entry.created)
            else:
                resolved[bisect_right(edges, entry.similarity, hi=len(edges) - 1) - 1] += 1
            ranked = (entry.ref * SAMPLE_MULTIPLIER % 2**64, entry.ref)
            if len(sample) < SAMPLE_SIZE:
                heapq.heappush(sample, ranked)
            else:
                heapq.heappushpop(sample, ranked)
        summaries = [
            ClusterSummary(cluster, id, sizes[id], created)
            for id, (cluster, created) in representatives.items()
        ]
        largest = heapq.nsmallest(MAX_LISTED_CLUSTERS, summaries, key=size_order)
        newest = heapq.nsmallest(MAX_LISTED_CLUSTERS, summaries, key=age_order)
        return ClusterListing(
            as_of=began,
            clusters=len(summaries),
            documents=sum(sizes.values()),
            largest=tuple(largest),
            newest=tuple(newest),
            resolved=Histogram(tuple(resolved), index.threshold),
            sample=tuple(ref for _, ref in sorted(sample)),
            valid_until=_valid_until(began, self._clock()),
        )
