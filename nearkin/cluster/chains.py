"""Components that fall apart again and again, one kept document at a time: long chains.

Each step takes the first remaining document of a component in keep order, settles the members that resemble it, and finds out
into what the rest falls apart. The parts are searched from the neighbours of what was settled, all searches taking turns, until
one is left; so a step costs as much as the smaller parts, not as the rest of the chain.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from nearkin.cluster import kernels
from nearkin.cluster.kernels import Graph

Near = Callable[[np.ndarray, int], np.ndarray]
"""(members, kept) to bool (m,): which members are similar enough to stay with the kept one."""


class Sharing(Protocol):
    """Finds the members that may resemble a document at all."""

    def __call__(self, document: int) -> np.ndarray:
        """Returns every document at or above the floor, int64, and maybe others."""


def graph_of(a: np.ndarray, b: np.ndarray, documents: int) -> Graph:
    """Returns the graph of pairs (a, b)."""
    ends, others = np.concatenate([a, b]).astype(np.int64), np.concatenate([b, a]).astype(np.int64)
    order = np.argsort(ends, kind="stable")
    firsts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=documents))]).astype(np.int64)
    return Graph(firsts, others[order])


def settle(graph: Graph, near: Near, sharing: Sharing | None = None) -> np.ndarray:
    """Returns the kept document of each document, int64 (n,), as rounds over whole components would.

    Args:
        graph: Documents in keep order, and their pairs.
        near: Decides which members stay with a kept document.
        sharing: Finds the members to ask `near` about. Without it, all that are left in the component are asked about, which
            is quadratic in the length of a chain.
    """
    n = len(graph.firsts) - 1
    leader, component = np.arange(n), np.full(n, -1, np.int64)
    search = kernels.Search(*(np.empty(n, np.int64) for _ in kernels.Search._fields))
    search.owner[:] = -1
    parts = np.empty(n, np.int64)
    members: list[np.ndarray] = []
    position: list[int] = []
    waiting: list[int] = []

    def begin(found: np.ndarray) -> None:
        component[found] = len(members)
        waiting.append(len(members))
        members.append(found)
        position.append(0)

    for found in whole_components(graph):
        begin(found)
    while waiting:
        number = waiting.pop()
        own = members[number]
        at = position[number]
        while at < len(own) and component[own[at]] != number:
            at += 1
        if at == len(own):
            members[number] = own[:0]
            continue
        position[number] = at + 1
        kept = int(own[at])
        asked = own[at + 1 :] if sharing is None else sharing(kept)
        asked = asked[(component[asked] == number) & (asked != kept)]
        settled = asked[near(asked, kept)] if len(asked) else asked
        leader[settled] = kept
        gone = np.append(settled, kept)
        component[gone] = -1
        ends = kernels.split_component(gone, graph, component, number, search, parts)
        waiting.append(number)
        first = 0
        for end in ends.tolist():
            begin(np.sort(parts[first:end]))
            first = end
    return leader


def whole_components(graph: Graph) -> list[np.ndarray]:
    """Returns the members of each connected component, ascending."""
    n = len(graph.firsts) - 1
    parent = np.arange(n, dtype=np.uint32)
    ends = np.repeat(np.arange(n, dtype=np.uint32), np.diff(graph.firsts))
    kernels.unite(ends, graph.neighbours.astype(np.uint32), parent)
    kernels.flatten(parent)
    order = np.argsort(parent, kind="stable")
    cuts = np.flatnonzero(np.diff(parent[order])) + 1
    return [part for part in np.split(order, cuts) if len(part)]
