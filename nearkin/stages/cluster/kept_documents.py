"""The choice of the kept document of each cluster after clustering, by the verified pairs.

Clusters are formed in keep order. Then a cluster may keep another of its documents than its leader,
but only one that was verified against every other document of the cluster: the promise that each
removed document was verified against the kept one holds as before. A leader was verified against
all its documents, so that at least one document of a cluster of leaders can be kept.
"""

from enum import StrEnum

import numpy as np

from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs

PAIRS_AT_ONCE = 1 << 24
"""The number of pairs that are looked at together. The result does not depend on it."""
UNIT = 1 << 30
"""The number of units of a score of 1, and of the parts that the rest of a unit is measured in."""
ROUNDING = 1 << 8
"""The largest difference that rounding makes between two equal sums of scores, for each document
that counts, in units of 1 / UNIT²: twice the error of a quotient of type float64, which is 2^-53.
"""


class ClusterCriterion(StrEnum):
    """The criteria that compare a document with the others of its cluster."""

    MOST_COMPLETE = "most-complete"
    CENTRAL = "central"


def count_verified(scored: ScoredPairs, leader: np.ndarray) -> np.ndarray:
    """Returns how many documents of its own cluster each was verified against, int64 (n,)."""
    verified = np.zeros(len(leader), np.int64)
    for start in range(0, len(scored.pairs), PAIRS_AT_ONCE):
        first, second = unpack_pairs(np.asarray(scored.pairs[start : start + PAIRS_AT_ONCE]))
        is_inside = leader[first] == leader[second]
        verified += np.bincount(first[is_inside], minlength=len(leader))
        verified += np.bincount(second[is_inside], minlength=len(leader))
    return verified


def may_be_kept(scored: ScoredPairs, leader: np.ndarray) -> np.ndarray:
    """Returns which documents were verified against every other one of their cluster, bool (n,)."""
    others = np.bincount(leader, minlength=len(leader))[leader] - 1
    return np.asarray(count_verified(scored, leader) == others)


def sum_scores(
    scored: ScoredPairs,
    leader: np.ndarray,
    copies: np.ndarray,
    criterion: ClusterCriterion,
    sizes: np.ndarray,
) -> np.ndarray:
    """Returns the sum of each document's scores with the others of its cluster, int64 (2, n).

    The score with another document is their similarity (`central`), or the containment of the other
    one in the document (`most-complete`). Other documents count once for each of their exact
    duplicates. The exact duplicates of the document itself have a score of 1.

    The first row of the result is in units of 1 / UNIT, the second one is the rest, in units of
    1 / UNIT². Sums of integers do not depend on their order, so all engines have the same ones.

    Args:
        leader: Leader of each document, uint32 (n,).
        copies: Number of exact duplicates that each document stands for, itself included, (n,).
        sizes: Number of shingles of each document in a pair, for `most-complete`, int64 (n,).
    """
    sums = np.zeros((2, len(leader)), np.int64)
    sums[0] = (copies.astype(np.int64) - 1) * UNIT
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
        _add_scores(sums, first, score_of_first, copies[second])
        _add_scores(sums, second, score_of_second, copies[first])
    sums[0] += sums[1] // UNIT
    sums[1] %= UNIT
    return sums


def _add_scores(
    sums: np.ndarray, documents: np.ndarray, scores: np.ndarray, times: np.ndarray
) -> None:
    """Adds scores, float64 (m,), to the sums of documents, each as often as `times` says."""
    units = scores * UNIT
    whole = np.floor(units)
    rest = np.floor((units - whole) * UNIT)
    np.add.at(sums[0], documents, times * whole.astype(np.int64))
    np.add.at(sums[1], documents, times * rest.astype(np.int64))


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
    highest mean score is kept, and of equal ones the first in keep order. Scores are equal if their
    sums differ by no more than the rounding of each score explains. Without such a document, which
    happens only to components, the leader is kept.

    Args:
        leader: Leader of each document, uint32 (n,).
        rank: Rank of each document in keep order, uint32 (n,).
        copies: Number of exact duplicates that each document stands for, itself included, (n,).
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
    sums = sum_scores(scored, leader, copies, criterion, sizes)
    weight = np.zeros(len(leader), np.int64)
    np.add.at(weight, leader, copies.astype(np.int64))
    has_others = np.bincount(leader, minlength=len(leader))[leader] > 1
    candidates = np.flatnonzero(may_be_kept(scored, leader) & has_others)
    by_score = np.lexsort((-sums[1, candidates], -sums[0, candidates], leader[candidates]))
    candidates = candidates[by_score]
    is_first = _starts_cluster(leader[candidates])
    highest = sums[:, candidates[is_first]][:, np.cumsum(is_first) - 1]
    units, rest = highest - sums[:, candidates]
    # The product of larger numbers would not fit. Rounding explains no such gap.
    gap = np.minimum(units, UNIT) * UNIT + rest
    candidates = candidates[gap <= weight[leader[candidates]] * ROUNDING]
    candidates = candidates[np.lexsort((rank[candidates], leader[candidates]))]
    best = candidates[_starts_cluster(leader[candidates])]
    chosen = np.arange(len(leader), dtype=np.uint32)
    chosen[leader[best]] = best
    return chosen[leader]


def _starts_cluster(leaders: np.ndarray) -> np.ndarray:
    """Returns which leaders, sorted, differ from the previous one, bool (n,)."""
    is_first = np.ones(len(leaders), bool)
    is_first[1:] = leaders[1:] != leaders[:-1]
    return is_first
