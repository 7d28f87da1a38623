"""Sums over labelled documents, from which the scores of a result and their intervals follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from nearkin.quality.evaluate.intervals import Estimate, estimate_score


class Totals(NamedTuple):
    """Sums over labelled documents and pairs, float64 arrays of one shape."""

    documents: np.ndarray
    """Labelled documents."""
    duplicates: np.ndarray
    """Pairs of duplicates."""
    together: np.ndarray
    """Pairs of duplicates that are in one predicted cluster."""
    wrong: np.ndarray
    """Distinct pairs that are in one predicted cluster."""
    predicted_shares: np.ndarray
    """Sum over documents of the share of their predicted cluster that belongs to their true one."""
    true_shares: np.ndarray
    """Sum over documents of the share of their true cluster that is in their predicted one."""


Score: TypeAlias = Callable[[Totals], np.ndarray]
"""A score as a function of totals."""


@dataclass(frozen=True)
class LabelledTotals:
    """The totals of all labelled clusters, and the part that would be missing without each.

    Attributes:
        all: Totals of all clusters, of shape ().
        removed: What would be missing without each of m clusters, of shape (m,). A distinct pair of
            two labelled clusters would be missing without either of them.
    """

    all: Totals
    removed: Totals

    def with_wrong(self, other: "LabelledTotals") -> "LabelledTotals":
        """Returns these totals with the distinct pairs of others."""
        return LabelledTotals(
            self.all._replace(wrong=other.all.wrong),
            self.removed._replace(wrong=other.removed.wrong),
        )

    def scale_wrong(self, factor: float) -> "LabelledTotals":
        """Returns these totals with a multiple of the distinct pairs.

        If a share of the documents was compared, each of them met that share of the distinct
        documents, but all documents of its own cluster.
        """
        return LabelledTotals(
            self.all._replace(wrong=self.all.wrong * factor),
            self.removed._replace(wrong=self.removed.wrong * factor),
        )

    @staticmethod
    def combine(parts: "Sequence[LabelledTotals]") -> "LabelledTotals":
        """Returns the totals of several sets of clusters, between which no pairs are counted."""
        total = Totals._make(
            np.asarray(sum(columns)) for columns in zip(*(part.all for part in parts), strict=True)
        )
        removed = Totals._make(
            np.concatenate(columns)
            for columns in zip(*(part.removed for part in parts), strict=True)
        )
        return LabelledTotals(total, removed)

    def estimate(self, score: Score, sizes: np.ndarray) -> Estimate:
        """Computes a score and its interval.

        Args:
            sizes: Number of items of each cluster on which the score rests, float64 (m,).
        """
        without = Totals._make(
            np.subtract(a, b) for a, b in zip(self.all, self.removed, strict=True)
        )
        return estimate_score(float(score(self.all)), score(without), sizes)

    def precision(self) -> Estimate:
        """Computes the share of the pairs in one predicted cluster that are duplicates."""
        return self.estimate(
            lambda totals: divide_or_one(totals.together, totals.together + totals.wrong),
            self.removed.together + self.removed.wrong,
        )

    def recall(self) -> Estimate:
        """Computes the share of the pairs of duplicates that are in one predicted cluster."""
        return self.estimate(
            lambda totals: divide_or_one(totals.together, totals.duplicates),
            self.removed.duplicates,
        )

    def f1(self) -> Estimate:
        """Computes the harmonic mean of precision and recall."""
        return self.estimate(
            lambda totals: divide_or_one(
                2 * totals.together, totals.together + totals.wrong + totals.duplicates
            ),
            self._pairs_of_scores(),
        )

    def adjusted_rand(self, documents: int) -> Estimate:
        """Computes the adjusted Rand index."""
        pairs = documents * (documents - 1) / 2

        def score(totals: Totals) -> np.ndarray:
            scale = documents / np.maximum(totals.documents, 1)
            joint_pairs = scale * totals.together
            true = scale * totals.duplicates
            predicted = scale * (totals.together + totals.wrong)
            chance = true * predicted / max(pairs, 1)
            return divide_or_one(joint_pairs - chance, (true + predicted) / 2 - chance)

        return self.estimate(score, self._pairs_of_scores())

    def bcubed_precision(self) -> Estimate:
        """Computes the mean share of the predicted clusters that belongs to the true ones."""
        return self.estimate(
            lambda totals: divide_or_one(totals.predicted_shares, totals.documents),
            self.removed.documents,
        )

    def bcubed_recall(self) -> Estimate:
        """Computes the mean share of the true clusters that is in the predicted ones."""
        return self.estimate(
            lambda totals: divide_or_one(totals.true_shares, totals.documents),
            self.removed.documents,
        )

    def _pairs_of_scores(self) -> np.ndarray:
        """Returns the pairs of each cluster that are duplicates or in one predicted cluster."""
        pairs: np.ndarray = self.removed.together + self.removed.wrong + self.removed.duplicates
        return pairs


def divide_or_one(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Returns part / whole, and 1 where the whole is 0, float64 (n,)."""
    part = np.asarray(part, np.float64)
    whole = np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.ones_like(whole), where=whole != 0)


def count_clusters(true: np.ndarray, predicted: np.ndarray, sizes: np.ndarray) -> LabelledTotals:
    """Counts the pairs of documents whose true clusters are known.

    Args:
        true: Number of the true cluster of each document, from 0, int64 (n,).
        predicted: Number of its predicted cluster, from 0, int64 (n,).
        sizes: Number of documents of each predicted cluster, int64 (p,). If it includes documents
            that are not among the n, these are distinct from all n, and half of each distinct pair
            counts for each of its documents.
    """
    both = true * (int(predicted.max(initial=0)) + 1) + predicted
    cells = np.unique_all(both)
    shared = cells.counts[cells.inverse_indices].astype(np.float64)
    true_size = np.bincount(true)[true]
    predicted_size = sizes[predicted]
    removed = Totals(
        documents=np.bincount(true).astype(np.float64),
        duplicates=np.bincount(true, (true_size - 1) / 2),
        together=np.bincount(true, (shared - 1) / 2),
        wrong=np.bincount(true, predicted_size - shared),
        predicted_shares=np.bincount(true, shared / predicted_size),
        true_shares=np.bincount(true, shared / true_size),
    )
    halved = removed._replace(wrong=removed.wrong / 2)
    total = Totals._make(np.asarray(column.sum()) for column in halved)
    reaches_outside = int(sizes.sum()) > len(true)
    return LabelledTotals(total, halved if reaches_outside else removed)


def count_pairs(
    clusters: np.ndarray, predicted: np.ndarray, duplicates: np.ndarray, distinct: np.ndarray
) -> LabelledTotals:
    """Counts labelled pairs.

    Args:
        clusters: Number of the connected component of each document in the graph of the
            duplicates, from 0, int64 (n,).
        predicted: Number of its predicted cluster, int64 (n,).
        duplicates: Positions of the documents of each pair of duplicates, int64 (p, 2).
        distinct: Positions of the documents of each distinct pair, int64 (q, 2).
    """
    first, second = duplicates.T
    is_together = predicted[first] == predicted[second]
    wrong = distinct[predicted[distinct[:, 0]] == predicted[distinct[:, 1]]]
    return count_judged_pairs(clusters, duplicates, is_together, wrong)


def count_judged_pairs(
    clusters: np.ndarray, duplicates: np.ndarray, is_together: np.ndarray, wrong: np.ndarray
) -> LabelledTotals:
    """Counts labelled pairs that were judged one by one.

    Args:
        clusters: Number of the connected component of each document in the graph of the
            duplicates, from 0, int64 (n,).
        duplicates: Positions of the documents of each pair of duplicates, int64 (p, 2).
        wrong: Positions of the documents of each distinct pair that is found, int64 (q, 2).
    """
    units = int(clusters.max(initial=-1)) + 1
    first = duplicates[:, 0]
    sides = clusters[wrong]
    touching = np.bincount(sides[:, 0], minlength=units) + np.bincount(
        sides[sides[:, 0] != sides[:, 1], 1], minlength=units
    )
    nothing = np.zeros(units)
    removed = Totals(
        documents=np.bincount(clusters, minlength=units).astype(np.float64),
        duplicates=np.bincount(clusters[first], minlength=units).astype(np.float64),
        together=np.bincount(clusters[first], is_together, minlength=units),
        wrong=touching.astype(np.float64),
        predicted_shares=nothing,
        true_shares=nothing,
    )
    total = Totals._make(np.asarray(column.sum()) for column in removed)
    return LabelledTotals(total._replace(wrong=np.asarray(float(len(wrong)))), removed)
