"""Measures of a clustering against the true one."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ClusterScores:
    """The agreement of clusters with the true ones.

    Attributes:
        precision: Share of the pairs inside the clusters that are true pairs. It is 1 without
            pairs.
        recall: Share of the true pairs that are inside the clusters. It is 1 without true pairs.
        f1: Harmonic mean of precision and recall.
        rand: Adjusted Rand index (Hubert and Arabie 1985).
        b_cubed: Harmonic mean of the B-cubed precision and recall (Bagga and Baldwin 1998).
    """

    precision: float
    recall: float
    f1: float
    rand: float
    b_cubed: float


def harmonic_mean(a: float, b: float) -> float:
    """Returns the harmonic mean of two shares, or 0 if both are 0."""
    return 2 * a * b / (a + b) if a + b else 0.0


def count_pairs(sizes: np.ndarray) -> float:
    """Returns the number of pairs inside groups of some sizes."""
    counts = sizes.astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def score_clusters(true: np.ndarray, predicted: np.ndarray) -> ClusterScores:
    """Compares clusters with the true ones.

    Args:
        true: Number of the true cluster of each document, int64 (n,).
        predicted: Number of the cluster of each document, int64 (n,).

    Examples:
        >>> score_clusters(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 6])).recall
        0.5
    """
    _, true_rows, true_sizes = np.unique(true, return_inverse=True, return_counts=True)
    _, rows, sizes = np.unique(predicted, return_inverse=True, return_counts=True)
    _, cell_rows, cell_sizes = np.unique(
        true_rows * len(sizes) + rows, return_inverse=True, return_counts=True
    )
    shared = count_pairs(cell_sizes)
    true_pairs = count_pairs(true_sizes)
    pairs = count_pairs(sizes)
    precision = shared / pairs if pairs else 1.0
    recall = shared / true_pairs if true_pairs else 1.0
    expected = true_pairs * pairs / max(count_pairs(np.array([len(true)])), 1.0)
    most = (true_pairs + pairs) / 2
    overlap = cell_sizes[cell_rows]
    return ClusterScores(
        precision=precision,
        recall=recall,
        f1=harmonic_mean(precision, recall),
        rand=(shared - expected) / (most - expected) if most != expected else 1.0,
        b_cubed=harmonic_mean(
            float(np.mean(overlap / sizes[rows])), float(np.mean(overlap / true_sizes[true_rows]))
        ),
    )


@dataclass(frozen=True)
class KeptScores:
    """The effect on the true clusters of keeping one document of each found cluster.

    Attributes:
        lost: Share of the true clusters of which no document is kept.
        removed: Share of the redundant documents, all but one of each true cluster, that are
            removed. Documents of lost clusters that are not redundant do not count.
    """

    lost: float
    removed: float


def score_kept(true: np.ndarray, kept: np.ndarray) -> KeptScores:
    """Returns what the choice of kept documents does to the true clusters.

    Args:
        true: Number of the true cluster of each document, int64 (n,).
        kept: Whether each document is kept, bool (n,).
    """
    _, rows = np.unique(true, return_inverse=True)
    copies = np.bincount(rows, weights=kept)
    clusters = len(copies)
    redundant = len(true) - clusters
    left = np.maximum(copies - 1, 0).sum()
    return KeptScores(
        lost=float(np.mean(copies == 0)),
        removed=float(1 - left / redundant) if redundant else 0.0,
    )


@dataclass(frozen=True)
class RemovalScores:
    """The agreement of removals with the true clusters.

    Attributes:
        precision: Share of the removed documents that are duplicates of the kept one. It is 1
            without removals.
        recall: Share of the redundant documents that are removed in favour of a duplicate. It is 1
            without redundant documents.
    """

    precision: float
    recall: float


def score_removals(true: np.ndarray, predicted: np.ndarray, kept: np.ndarray) -> RemovalScores:
    """Compares each removed document with the kept document of its cluster.

    Args:
        true: Number of the true cluster of each document, int64 (n,).
        predicted: Row of the kept document in the cluster of each document, int64 (n,).
        kept: Whether each document is kept, bool (n,).

    Examples:
        >>> kept = np.array([True, False, False, True])
        >>> score_removals(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 3]), kept)
        RemovalScores(precision=0.5, recall=0.5)
    """
    removed = ~kept
    right = float((removed & (true[predicted] == true)).sum())
    removals = float(removed.sum())
    redundant = len(true) - len(np.unique(true))
    return RemovalScores(
        precision=right / removals if removals else 1.0,
        recall=right / redundant if redundant else 1.0,
    )
