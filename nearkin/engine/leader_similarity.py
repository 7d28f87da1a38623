"""The similarity of each document to its leader."""

from collections.abc import Callable

import numpy as np

from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs


def find_leader_similarities(scored: ScoredPairs, leader: np.ndarray) -> np.ndarray:
    """Finds the similarity of each document to its leader among the scored pairs.

    Args:
        leader: Number of each document's leader, uint32 (n,).

    Returns:
        Similarities, float64 (n,). They are 1.0 for a leader itself.
    """
    similarity = np.ones(len(leader))
    joined = np.flatnonzero(leader != np.arange(len(leader), dtype=np.uint32))
    places = np.searchsorted(scored.pairs, pack_pairs(joined, leader[joined]))
    similarity[joined] = scored.intersection[places] / scored.union[places]
    return similarity


def compute_leader_similarities(
    leader: np.ndarray, compare: Callable[[np.ndarray], ScoredPairs]
) -> np.ndarray:
    """Compares each document with its leader.

    Args:
        leader: Number of each document's leader, uint32 (n,).
        compare: Scores packed pairs, uint64 (m,).

    Returns:
        Similarities, float64 (n,). They are 1.0 for a leader itself.
    """
    similarity = np.ones(len(leader))
    joined = np.flatnonzero(leader != np.arange(len(leader), dtype=np.uint32))
    similarity[joined] = compare(pack_pairs(joined, leader[joined])).similarity
    return similarity
