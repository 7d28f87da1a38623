"""Scored pairs to clusters: leaders (no transitive chain) and components (union-find, split at a floor)."""

import itertools
from collections.abc import Callable

import numpy as np

from nearkin.cluster import kernels
from nearkin.cluster.chains import Sharing, graph_of, settle
from nearkin.packed_pairs import ScoredPairs, pack_pairs, sorted_unique, unpack_pairs

PAIRS_PER_ELECTION = 1 << 24
ROUNDS = 8
"""Rounds over all components at once; nearly all are settled after the first. Long chains would take thousands."""


def rank_pairs(pairs: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(later, earlier) document of each packed pair as ranks in keep order, uint32 (m,) each."""
    first, second = unpack_pairs(pairs)
    a, b = rank[first], rank[second]
    return np.maximum(a, b), np.minimum(a, b)


def leaders(scored: ScoredPairs, order: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """The kept document of each document, itself where it is kept: uint32 (n,) of ordinals.

    Documents are taken in keep order; each joins the most similar kept document that it has a pair with, else it is kept.

    Args:
        scored: Pairs at or above the threshold.
        order: uint32 (n,): ordinals in keep order.
        rank: uint32 (n,): its inverse.

    Examples:
        A chain a-b-c: c resembles b, which is removed, so c is kept.

        >>> pairs = np.array([0 << 32 | 1, 1 << 32 | 2], np.uint64)
        >>> scored = ScoredPairs(pairs, np.array([9, 9]), np.array([10, 10]))
        >>> leaders(scored, np.arange(3, dtype=np.uint32), np.arange(3, dtype=np.uint32)).tolist()
        [0, 0, 2]
    """
    leader = np.arange(len(order), dtype=np.uint32)
    best = np.zeros(len(order), np.float64)
    parts = max(1, -(-len(scored.pairs) // PAIRS_PER_ELECTION))
    bounds = np.linspace(0, len(order), parts + 1).astype(np.int64)
    for low, high in itertools.pairwise(bounds):
        _elect(scored, rank, int(low), int(high), leader, best)
    return _as_ordinals(leader, order)


def _elect(scored: ScoredPairs, rank: np.ndarray, low: int, high: int, leader: np.ndarray, best: np.ndarray) -> None:
    """One range of ranks of the later document: all pairs of each document are in one range."""
    chosen = (
        np.concatenate(
            [
                start + np.flatnonzero(_later_inside(scored.pairs[start : start + PAIRS_PER_ELECTION], rank, low, high))
                for start in range(0, len(scored.pairs), PAIRS_PER_ELECTION)
            ]
        )
        if len(scored.pairs)
        else np.empty(0, np.int64)
    )
    part = scored.select(chosen)
    later, earlier = rank_pairs(part.pairs, rank)
    sequence = np.argsort(later, kind="stable")
    kernels.elect_leaders(later[sequence], earlier[sequence], part.similarity[sequence], leader, best)


def _later_inside(pairs: np.ndarray, rank: np.ndarray, low: int, high: int) -> np.ndarray:
    later, _ = rank_pairs(pairs, rank)
    return (later >= low) & (later < high)


def _as_ordinals(leader: np.ndarray, order: np.ndarray) -> np.ndarray:
    out = np.empty(len(order), np.uint32)
    out[order] = order[leader]
    return out


def components(
    scored: ScoredPairs,
    order: np.ndarray,
    rank: np.ndarray,
    floor: float,
    compare: Callable[[np.ndarray], ScoredPairs],
    sharing_among: Callable[[np.ndarray], Sharing | None] = lambda ordinals: None,
) -> np.ndarray:
    """Connected components by their first document in keep order, split where a member is too far from it: uint32 (n,).

    Members whose similarity to the kept document lies below the floor are split off and clustered again among themselves,
    until none is left; so a chain cannot remove what does not resemble what is kept.

    Args:
        scored: Pairs at or above the threshold.
        order: uint32 (n,): ordinals in keep order.
        rank: uint32 (n,): its inverse.
        floor: Lowest similarity of a removed document to its kept one.
        compare: Scores packed pairs (member, kept) that are not among `scored`.
        sharing_among: Of some documents, finds those that may reach the floor with one of them, or None if nothing does so
            faster than comparing them all.
    """
    leader = np.arange(len(order), dtype=np.uint32)
    later, earlier = rank_pairs(scored.pairs, rank)
    alive = np.ones(len(later), bool)
    for _ in range(ROUNDS):
        if not alive.any():
            break
        touched = sorted_unique(np.concatenate([later[alive], earlier[alive]]))
        parent = np.arange(len(order), dtype=np.uint32)
        kernels.unite(later[alive], earlier[alive], parent)
        kernels.flatten(parent)
        members = touched[parent[touched] != touched]
        far = np.zeros(len(order), bool)
        far[members] = ~_near_enough(members, parent[members], order, floor, compare)
        settled = members[~far[members]]
        leader[settled] = parent[settled]
        alive &= far[later] & far[earlier]
    if alive.any():
        _settle_chains(later[alive], earlier[alive], order, leader, floor, compare, sharing_among)
    return _as_ordinals(leader, order)


def _settle_chains(
    later: np.ndarray,
    earlier: np.ndarray,
    order: np.ndarray,
    leader: np.ndarray,
    floor: float,
    compare: Callable[[np.ndarray], ScoredPairs],
    sharing_among: Callable[[np.ndarray], Sharing | None],
) -> None:
    """Settles what is left after ROUNDS rounds, in steps that cost as much as what they settle."""
    left = sorted_unique(np.concatenate([later, earlier]))
    graph = graph_of(np.searchsorted(left, later), np.searchsorted(left, earlier), len(left))

    def near(members: np.ndarray, kept: int) -> np.ndarray:
        return compare(pack_pairs(order[left[members]], order[left[kept]])).meets_threshold(floor)

    leader[left] = left[settle(graph, near, sharing_among(order[left]))]


def _near_enough(
    members: np.ndarray, kept: np.ndarray, order: np.ndarray, floor: float, compare: Callable[[np.ndarray], ScoredPairs]
) -> np.ndarray:
    return compare(pack_pairs(order[members], order[kept])).meets_threshold(floor)
