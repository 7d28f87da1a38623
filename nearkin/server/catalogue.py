"""Clusters in order of size or age, counted from time to time: a store knows documents, not how they rank."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from nearkin.index.index import Index

MOST = 10_000
"""Clusters of a scope that are listed, in each order."""
PATIENCE = 20.0
"""A count is kept for so many times as long as it took, and at least LEAST seconds."""
LEAST = 5.0
SCOPES = 64
"""Scopes whose lists are kept."""


class Head(NamedTuple):
    """A cluster."""

    cluster: str
    representative: str
    size: int
    created: float


@dataclass(frozen=True)
class Listing:
    """Clusters of a scope as they were at `as_of`."""

    as_of: float
    clusters: int
    documents: int
    largest: tuple[Head, ...]
    newest: tuple[Head, ...]
    until: float


class Catalogue:
    """Lists of clusters.

    Args:
        index: Says which one answers.
        clock: Seconds.
    """

    def __init__(self, index: Callable[[], Index], clock: Callable[[], float] = time.time) -> None:
        self._index, self._clock = index, clock
        self._lists: dict[str, Listing] = {}
        self._lock = Lock()

    def listing(self, scope: str) -> Listing:
        """Of a scope; counted again if the last count is old. Reads every document of the scope."""
        with self._lock:
            held = self._lists.get(scope)
            if held is not None and self._clock() < held.until:
                return held
            found = self._count(scope)
            self._lists.pop(scope, None)
            self._lists[scope] = found
            while len(self._lists) > SCOPES:
                del self._lists[next(iter(self._lists))]
            return found

    def _count(self, scope: str) -> Listing:
        began = self._clock()
        sizes: dict[str, int] = {}
        heads: dict[str, tuple[str, float]] = {}
        for entry in self._index().store.scan(scope):
            sizes[entry.leader] = sizes.get(entry.leader, 0) + 1
            if entry.is_leader:
                heads[entry.id] = (entry.cluster, entry.created)
        rows = [Head(cluster, name, sizes[name], created) for name, (cluster, created) in heads.items()]
        largest = heapq.nsmallest(MOST, rows, key=lambda row: (-row.size, row.representative))
        newest = heapq.nsmallest(MOST, rows, key=lambda row: (-row.created, row.representative))
        ended = self._clock()
        until = ended + max(LEAST, PATIENCE * (ended - began))
        return Listing(began, len(rows), sum(sizes.values()), tuple(largest), tuple(newest), until)
