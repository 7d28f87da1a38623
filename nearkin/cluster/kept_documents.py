"""The choice of the kept document of each cluster after clustering, by the verified pairs.

Clusters are formed in keep order. Then a cluster may keep another of its documents than its leader,
but only one that was verified against every other document of the cluster: the promise that each
removed document was verified against the kept one holds as before. A leader was verified against
all its documents, so that at least one document of a cluster of leaders can be kept.
"""

from enum import StrEnum

import numpy as np

from nearkin.packed_pairs import ScoredPairs, unpack_pairs

PAIRS_AT_ONCE = 1 << 24
"""The number of pairs that are looked at together. The result does not depend on it."""
UNIT = 1 << 30
"""The number that stands for a similarity of 1. Sums of integers do not depend on their order, so
that all engines choose the same document."""


class ClusterCriterion(StrEnum):
    """The criteria that compare a document with the others of its cluster."""

    MOST_COMPLETE = "most-complete"
    CENTRAL = "central"


def count_verified(scored: ScoredPairs, leader: np.ndarray) -> np.ndarray:
    """Returns the number of documents of its own cluster that each was verified against.

    Args:
        scored: Pairs that reach the threshold.
        leader: Leader of each document, uint32 (n,).

    Returns:
        int64 (n,).
    """
    verified = np.zeros(len(leader), np.int64)
    for start in range(0, len(scored.pairs), PAIRS_AT_ONCE):
        first, second = unpack_pairs(np.asarray(scored.pairs[start : start + PAIRS_AT_ONCE]))
        is_inside = leader[first] == leader[second]
        verified += np.bincount(first[is_inside], minlength=len(leader))
        verified += np.bincount(second[is_inside], minlength=len(leader))
    return verified


def may_be_kept(scored: ScoredPairs, leader: np.ndarray) -> np.ndarray:
    """Returns which documents were verified against every other one of their cluster, bool (n,).

    Args:
        scored: Pairs that reach the threshold.
        leader: Leader of each document, uint32 (n,).
    """
    others = np.bincount(leader, minlength=len(leader))[leader] - 1
    return np.asarray(count_verified(scored, leader) == others)


def sum_scores(
    scored: ScoredPairs,
    leader: np.ndarray,
    copies: np.ndarray,
    criterion: ClusterCriterion,
    sizes: np.ndarray,
) -> np.ndarray:
    """Returns the sum of each document's scores with the others of its cluster, int64 (n,).

    The score with another document is their similarity (`central`), or the containment of the other
    one in the document (`most-complete`), in units of 2^-30. Other documents count once for each of
    their exact duplicates. The exact duplicates of the document itself have a score of 1.

    Args:
        scored: Pairs that reach the threshold.
        leader: Leader of each document, uint32 (n,).
        copies: Number of exact duplicates that each document stands for, itself included, (n,).
        criterion: Criterion.
        sizes: Number of shingles of each document in a pair, for `most-complete`, int64 (n,).
    """
    scores = (copies.astype(np.int64) - 1) * UNIT
    for start in range(0, len(scored.pairs), PAIRS_AT_ONCE):
        part = scored.select(slice(start, start + PAIRS_AT_ONCE))
        first, second = unpack_pairs(np.asarray(part.pairs))
        inside = np.flatnonzero(leader[first] == leader[second])
        first = first[inside]
        second = second[inside]
        part = part.select(inside)
        score_of_first = score_of_second = part.similarity
        if criterion == ClusterCriterion.MOST_COMPLETE:
            score_of_first = part.intersection / sizes[second]
            score_of_second = part.intersection / sizes[first]
        np.add.at(scores, first, copies[second] * np.rint(score_of_first * UNIT).astype(np.int64))
        np.add.at(scores, second, copies[first] * np.rint(score_of_second * UNIT).astype(np.int64))
    return scores


def choose_kept_documents(
    scored: ScoredPairs,
    leader: np.ndarray,
    rank: np.ndarray,
    copies: np.ndarray,
    criterion: ClusterCriterion,
    sizes: np.ndarray,
) -> np.ndarray:
    """Returns the kept document of each document, chosen by a criterion.

    Of the documents that were verified against every other one of their cluster, the one with the
    highest mean score is kept, and of equal ones the first in keep order. Without such
    a document, which happens only to components, the leader is kept.

    Args:
        scored: Pairs that reach the threshold.
        leader: Leader of each document, uint32 (n,).
        rank: Rank of each document in keep order, uint32 (n,).
        copies: Number of exact duplicates that each document stands for, itself included, (n,).
        criterion: Criterion.
        sizes: Number of shingles of each document in a pair, for `most-complete`, int64 (n,).

    Returns:
        uint32 (n,).

    Examples:
        All three pairs of a cluster are verified, and document 1 resembles the others most.

        >>> pairs = np.array([0 << 32 | 1, 0 << 32 | 2, 1 << 32 | 2], np.uint64)
        >>> scored = ScoredPairs(pairs, np.array([8, 7, 9]), np.array([10, 10, 10]))
        >>> leader = np.zeros(3, np.uint32)
        >>> order = np.arange(3, dtype=np.uint32)
        >>> central = ClusterCriterion.CENTRAL
        >>> copies = np.ones(3, np.int64)
        >>> choose_kept_documents(scored, leader, order, copies, central, order).tolist()
        [1, 1, 1]
    """
    scores = sum_scores(scored, leader, copies, criterion, sizes)
    has_others = np.bincount(leader, minlength=len(leader))[leader] > 1
    candidates = np.flatnonzero(may_be_kept(scored, leader) & has_others)
    by_score = np.lexsort((rank[candidates], -scores[candidates], leader[candidates]))
    candidates = candidates[by_score]
    is_best = np.ones(len(candidates), bool)
    is_best[1:] = leader[candidates[1:]] != leader[candidates[:-1]]
    best = candidates[is_best]
    chosen = np.arange(len(leader), dtype=np.uint32)
    chosen[leader[best]] = best
    return chosen[leader]
