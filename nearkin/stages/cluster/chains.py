"""Clustering of long chains: components that fall apart repeatedly, one kept document at a time.

Each step takes the first remaining document of a component in keep order, settles the members that
resemble it, and determines the parts into which the rest falls apart. The parts are searched from
the neighbours of the settled documents. All searches take turns until one is left. So the cost of a
step depends on the smaller parts, not on the rest of the chain.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from nearkin.stages.cluster import kernels
from nearkin.stages.cluster.kernels import Graph

IsNear = Callable[[np.ndarray, int], np.ndarray]
"""Returns which members are similar enough to a kept document: (members, kept) to bool (m,)."""


class SimilarityIndex(Protocol):
    """An index that finds the documents that can be similar to a given one."""

    def __call__(self, document: int) -> np.ndarray:
        """Returns every document at or above the floor, and possibly others, int64."""


def graph_of(a: np.ndarray, b: np.ndarray, documents: int) -> Graph:
    """Returns the graph of pairs."""
    ends = np.concatenate([a, b]).astype(np.int64)
    neighbours = np.concatenate([b, a]).astype(np.int64)
    order = np.argsort(ends, kind="stable")
    degrees = np.bincount(ends, minlength=documents)
    firsts = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    return Graph(firsts, neighbours[order])


class _Components:
    """The components of the remaining documents, and the next document to try in each."""

    def __init__(self, documents: int) -> None:
        self.of_document = np.full(documents, -1, np.int64)
        self.members: list[np.ndarray] = []
        self.waiting: list[int] = []
        self._positions: list[int] = []

    def add(self, members: np.ndarray) -> None:
        number = len(self.members)
        self.of_document[members] = number
        self.members.append(members)
        self.waiting.append(number)
        self._positions.append(0)

    def next_kept(self, number: int) -> int | None:
        """Returns the position of the first remaining member, or None."""
        members = self.members[number]
        position = self._positions[number]
        while position < len(members) and self.of_document[members[position]] != number:
            position += 1
        if position == len(members):
            self.members[number] = members[:0]
            return None
        self._positions[number] = position + 1
        return position


def settle_chains(
    graph: Graph, is_near: IsNear, index: SimilarityIndex | None = None
) -> np.ndarray:
    """Returns the kept document of each document, int64 (n,).

    The result is the same as that of rounds over whole components.
    """
    n = len(graph.firsts) - 1
    leader = np.arange(n)
    components = _Components(n)
    search = kernels.Search(
        owner=np.full(n, -1, np.int64),
        parent=np.empty(n, np.int64),
        open_first=np.empty(n, np.int64),
        open_last=np.empty(n, np.int64),
        done_first=np.empty(n, np.int64),
        done_last=np.empty(n, np.int64),
        following=np.empty(n, np.int64),
        found=np.empty(n, np.int64),
        active=np.empty(n, np.int64),
    )
    parts = np.empty(n, np.int64)
    for members in whole_components(graph):
        components.add(members)
    while components.waiting:
        number = components.waiting.pop()
        position = components.next_kept(number)
        if position is None:
            continue
        members = components.members[number]
        kept = int(members[position])
        candidates = members[position + 1 :] if index is None else index(kept)
        is_member = components.of_document[candidates] == number
        candidates = candidates[is_member & (candidates != kept)]
        settled = candidates
        if len(candidates):
            settled = candidates[is_near(candidates, kept)]
        leader[settled] = kept
        gone = np.append(settled, kept)
        components.of_document[gone] = -1
        ends = kernels.split_component(gone, graph, components.of_document, number, search, parts)
        components.waiting.append(number)
        first = 0
        for end in ends.tolist():
            components.add(np.sort(parts[first:end]))
            first = end
    return leader


def whole_components(graph: Graph) -> list[np.ndarray]:
    """Returns the members of each connected component, in ascending order, int64 arrays."""
    n = len(graph.firsts) - 1
    parent = np.arange(n, dtype=np.uint32)
    ends = np.repeat(np.arange(n, dtype=np.uint32), np.diff(graph.firsts))
    kernels.unite(ends, graph.neighbours.astype(np.uint32), parent)
    kernels.flatten(parent)
    order = np.argsort(parent, kind="stable")
    cuts = np.flatnonzero(np.diff(parent[order])) + 1
    return [part for part in np.split(order, cuts) if len(part)]
