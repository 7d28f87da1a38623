"""The election of leaders: clusters in which each member was compared with the kept document."""

import itertools

import numpy as np

from nearkin.stages.cluster import kernels
from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs

NO_PAIRS = np.empty(0, np.uint64)
"""No packed pairs."""

PAIRS_PER_ELECTION = 1 << 24
"""The number of pairs that are sorted at once, approximately. The result does not depend on it."""


def rank_pairs(pairs: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ranks of the later and the earlier document of packed pairs, uint32 (m,) each."""
    first, second = unpack_pairs(pairs)
    a = rank[first]
    b = rank[second]
    return np.maximum(a, b), np.minimum(a, b)


def elect_leaders(
    scored: ScoredPairs, order: np.ndarray, rank: np.ndarray, apart: np.ndarray = NO_PAIRS
) -> np.ndarray:
    """Returns the kept document of each document. A kept document is its own.

    Documents are taken in keep order. Each joins the most similar kept document that it has a
    pair with and whose documents it is not kept apart from. If there is no such pair, it is kept.

    Args:
        order: Document numbers in keep order, uint32 (n,).
        rank: Rank of each document in keep order, uint32 (n,), the inverse of `order`.
        apart: Packed pairs of documents that are never in one cluster, uint64 (d,).

    Returns:
        uint32 (n,).

    Examples:
        In the chain a-b-c, b resembles a and is removed. So c is kept, although it resembles b.

        >>> pairs = np.array([0 << 32 | 1, 1 << 32 | 2], np.uint64)
        >>> scored = ScoredPairs(pairs, np.array([9, 9]), np.array([10, 10]))
        >>> order = np.arange(3, dtype=np.uint32)
        >>> elect_leaders(scored, order, order).tolist()
        [0, 0, 2]
    """
    leader = np.arange(len(order), dtype=np.uint32)
    best = np.zeros(len(order), np.float64)
    parts = max(1, -(-len(scored.pairs) // PAIRS_PER_ELECTION))
    bounds = np.linspace(0, len(order), parts + 1).astype(np.int64)
    apart_ranks = _sort_ranks(apart, rank)
    for low, high in itertools.pairwise(bounds.tolist()):
        _elect_range(scored, rank, low, high, apart_ranks, leader, best)
    return as_documents(leader, order)


def _sort_ranks(pairs: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ranks of the two documents of each pair, sorted by those of the later ones."""
    later, earlier = rank_pairs(pairs, rank)
    sequence = np.argsort(later, kind="stable")
    return later[sequence], earlier[sequence]


def _elect_range(
    scored: ScoredPairs,
    rank: np.ndarray,
    low: int,
    high: int,
    apart_ranks: tuple[np.ndarray, np.ndarray],
    leader: np.ndarray,
    best: np.ndarray,
) -> None:
    """Elects the leaders of the documents of a range of ranks.

    All pairs whose later document is in the range are processed together.
    """
    chosen = [np.empty(0, np.int64)]
    for start in range(0, len(scored.pairs), PAIRS_PER_ELECTION):
        later, _ = rank_pairs(scored.pairs[start : start + PAIRS_PER_ELECTION], rank)
        chosen.append(start + np.flatnonzero((later >= low) & (later < high)))
    part = scored.select(np.concatenate(chosen))
    later, earlier = rank_pairs(part.pairs, rank)
    sequence = np.argsort(later, kind="stable")
    later = later[sequence]
    earlier = earlier[sequence]
    similarity = part.similarity[sequence]
    apart_later, apart_earlier = apart_ranks
    kernels.elect_leaders(later, earlier, similarity, apart_later, apart_earlier, leader, best)


def as_documents(leader: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Converts leaders in ranks to leaders in document numbers, uint32 (n,)."""
    out = np.empty(len(order), np.uint32)
    out[order] = order[leader]
    return out
