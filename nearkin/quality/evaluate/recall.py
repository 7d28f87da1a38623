"""Estimates the recall of a run from the pairs of sampled documents."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nearkin.engine.banding import AgreementLimits
from nearkin.engine.options import RunOptions
from nearkin.quality.evaluate.intervals import Proportion, estimate_ratio
from nearkin.quality.evaluate.scan import (
    CorpusScan,
    PairCheck,
    ReadDocuments,
    ReopenedRun,
    SimilarPairs,
)
from nearkin.runtime.deadline import Deadline
from nearkin.settings.choices import Verify
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.packed_pairs import isin_sorted, pack_pairs

BIN_WIDTH = 0.05
"""The width of the bins of similarity in which recall is reported."""
SIMILARITY_STEP = 1e-4
"""The width of the steps of similarity for which the predicted recall is computed."""


@dataclass(frozen=True)
class RecallBin:
    """The recall of the pairs with a similarity in [low, high).

    The last bin includes its upper end.

    Attributes:
        low: Lower end of the bin.
        high: Upper end of the bin.
        recall: Measured recall.
        predicted: Recall predicted by the S-curve and the margin.
    """

    low: float
    high: float
    recall: Proportion
    predicted: float


@dataclass(frozen=True)
class PairCounts:
    """The true pairs of m sampled documents in n bins of similarity.

    A pair counts for each of its documents that was sampled.

    Attributes:
        edges: Lower ends of the bins and the upper end of the last one, in ascending order.
        true: Number of true pairs of each document, float64 (m, n).
        found: Number of those that the run found, float64 (m, n).
        predicted: Number of those that the run is predicted to find, float64 (m, n).
        distinct_true: Number of true pairs, each counted once, int64 (n,).
        distinct_found: Number of those that the run found, int64 (n,).
        inclusion: Probability with which each document was drawn, float64 (m,).
    """

    edges: list[float]
    true: np.ndarray
    found: np.ndarray
    predicted: np.ndarray
    distinct_true: np.ndarray
    distinct_found: np.ndarray
    inclusion: np.ndarray

    def recall(self, bins: slice) -> Proportion:
        """Estimates the recall of the pairs in some bins."""
        found = self.found[:, bins].sum(axis=1)
        true = self.true[:, bins].sum(axis=1)
        estimate = estimate_ratio(found, true, self.inclusion)
        hits = int(self.distinct_found[bins].sum())
        return Proportion.from_estimate(estimate, hits, int(self.distinct_true[bins].sum()))

    def predicted_recall(self, position: int) -> float:
        """Returns the predicted recall of the pairs in a bin, or NaN if there are none."""
        weights = 1 / self.inclusion
        true = float(weights @ self.true[:, position])
        return float(weights @ self.predicted[:, position]) / true if true else math.nan


class PairCounter:
    """Finds the true pairs of sampled documents and counts those that the run found.

    It keeps counts and not pairs, because the documents of large clusters have many pairs.

    Attributes:
        exact: Number of pairs of exact duplicates, each counted once.
    """

    def __init__(
        self,
        scan: CorpusScan,
        ids: pa.ChunkedArray,
        kept: np.ndarray,
        has_equal_value: np.ndarray,
    ) -> None:
        """Creates a counter for a run that keeps some documents, bool (n,).

        Documents that the run joined because of an equal value, bool (n,), were not compared, so
        their pairs do not count.
        """
        self._scan = scan
        self._kept = kept
        self._has_equal_value = has_equal_value
        self._is_kept_parts = [np.empty(0, bool)]
        self._is_residual_parts = [np.empty(0, bool)]
        self._ids = ids
        self._edges = bin_edges(scan.run.settings.threshold)
        self._bins = len(self._edges) - 1
        self._is_compared = np.zeros(scan.documents, bool)
        self._counts_of_parts: list[np.ndarray] = [np.empty((0, 3, self._bins))]
        self._distinct = np.zeros((2, self._bins), np.int64)
        self._predictions: dict[float, float] = {}
        self._is_verified: PairCheck | None = None
        self.exact = 0

    @property
    def end(self) -> int:
        """The number of documents, from the first one on, whose pairs are counted."""
        return len(self._scan.groups)

    def add(self, part: np.ndarray, read: ReadDocuments, deadline: Deadline) -> bool:
        """Compares a part of the drawn documents, int64 (m,), with the whole corpus.

        If the first scan ends early, the pairs of the documents that it reached are counted.
        """
        scan = self._scan
        part = part[part < read.end]
        sample = np.sort(part)
        if not len(sample):
            return True
        found = scan.find_similar(sample, read.select(sample), deadline)
        if found.end < self.end:
            return False
        part = part[part < found.end]
        sample = sample[sample < found.end]
        pairs = _unique_pairs(found.pairs.up_to(found.end))
        if self._is_verified is None:
            self._is_verified = scan.verified_pairs(self._ids)
        is_new = ~(self._is_compared[pairs.a] | self._is_compared[pairs.b])
        self._is_compared[sample] = True
        is_exact = scan.groups[pairs.a] == scan.groups[pairs.b]
        self.exact += int((is_exact & is_new).sum())
        counted = ~is_exact & scan.scope.allows(pairs.a, pairs.b)
        counted &= ~(self._has_equal_value[pairs.a] | self._has_equal_value[pairs.b])
        pairs = SimilarPairs._make(column[counted] for column in pairs)
        is_new = is_new[counted]
        both_kept = self._kept[pairs.a] & self._kept[pairs.b]
        residual = np.concatenate([pairs.a[both_kept], pairs.b[both_kept]])
        self._is_kept_parts.append(self._kept[part])
        self._is_residual_parts.append(np.isin(part, residual))
        is_found = self._is_verified(pairs.a, pairs.b)
        bins = np.searchsorted(self._edges[1:-1], pairs.similarity, side="right")
        self._distinct[0] += np.bincount(bins[is_new], minlength=self._bins)
        self._distinct[1] += np.bincount(bins[is_new & is_found], minlength=self._bins)
        counts = self._count_by_document(sample, pairs, bins, is_found)
        places = np.searchsorted(sample, part)
        self._counts_of_parts.append(counts[:, places].swapaxes(0, 1))
        return True

    def _count_by_document(
        self, sample: np.ndarray, pairs: SimilarPairs, bins: np.ndarray, is_found: np.ndarray
    ) -> np.ndarray:
        """Counts the pairs of sampled documents, which ascend, by the bin of each pair.

        The result are the numbers of true, found and predicted pairs, float64 (3, m, n).
        """
        weights = np.stack([np.ones(len(bins)), is_found, self._predict(pairs.similarity)])
        counts = np.zeros((3, len(sample), self._bins))
        for ends in (pairs.a, pairs.b):
            rows = np.searchsorted(sample, ends)
            is_sampled = isin_sorted(ends, sample)
            cells = rows[is_sampled] * self._bins + bins[is_sampled]
            for count, weight in zip(counts, weights, strict=True):
                count += np.bincount(cells, weight[is_sampled], count.size).reshape(count.shape)
        return counts

    def residual(self, inclusion: np.ndarray) -> Proportion:
        """Estimates the proportion of kept documents with a near-duplicate among the kept ones.

        Each document was drawn with a probability, float64 (m,). A pair that was not found does no
        harm if one of its documents was removed for another reason.
        """
        is_kept = np.concatenate(self._is_kept_parts)
        is_residual = np.concatenate(self._is_residual_parts)
        estimate = estimate_ratio(
            is_residual.astype(np.float64), is_kept.astype(np.float64), inclusion
        )
        return Proportion.from_estimate(estimate, int(is_residual.sum()), int(is_kept.sum()))

    def _predict(self, similarity: np.ndarray) -> np.ndarray:
        """Returns the predicted recall at some similarities, rounded to SIMILARITY_STEP."""
        steps, places = np.unique(np.rint(similarity / SIMILARITY_STEP), return_inverse=True)
        for step in steps.tolist():
            if step not in self._predictions:
                value = min(1.0, step * SIMILARITY_STEP)
                self._predictions[step] = predict_recall(value, self._scan.run)
        return np.array([self._predictions[step] for step in steps.tolist()])[places]

    def counts(self, inclusion: np.ndarray) -> PairCounts:
        """Returns the counts of all compared documents, by the probability of each to be drawn."""
        counts = np.concatenate(self._counts_of_parts)
        return PairCounts(
            edges=self._edges,
            true=counts[:, 0],
            found=counts[:, 1],
            predicted=counts[:, 2],
            distinct_true=self._distinct[0],
            distinct_found=self._distinct[1],
            inclusion=inclusion,
        )


def _unique_pairs(pairs: SimilarPairs) -> SimilarPairs:
    _, first = np.unique(pack_pairs(pairs.a, pairs.b), return_index=True)
    return SimilarPairs(pairs.a[first], pairs.b[first], pairs.similarity[first])


def bin_edges(threshold: float) -> list[float]:
    """Returns the lower ends of the bins of similarity, and the upper end of the last one.

    Examples:
        >>> bin_edges(0.87)
        [0.87, 0.9, 0.95, 1.0]
        >>> bin_edges(1.0)
        [1.0, 1.0]
    """
    first = math.floor(threshold / BIN_WIDTH + 1e-9) + 1
    inner = [round(step * BIN_WIDTH, 6) for step in range(first, round(1 / BIN_WIDTH))]
    return [threshold, *inner, 1.0]


def recall_by_similarity(counts: PairCounts, run: ReopenedRun) -> Iterator[RecallBin]:
    """Yields the recall in bins of the similarity, from the threshold to 1."""
    for position, (low, high) in enumerate(itertools.pairwise(counts.edges)):
        predicted = counts.predicted_recall(position)
        if math.isnan(predicted):
            predicted = predict_recall((low + high) / 2, run)
        recall = counts.recall(slice(position, position + 1))
        yield RecallBin(round(low, 6), round(high, 6), recall, round(predicted, 6))


def predict_recall(similarity: float, run: ReopenedRun) -> float:
    """Returns the probability that a run finds a pair: P(candidate) · P(its estimate passes).

    If several fields find candidate pairs, it is the lowest one of those that can find the pair.
    """
    if not run.bandings:
        return 1.0
    candidate_options = run.settings.candidate_options
    found_by = []
    for measure, banding, options in zip(
        run.candidate_measures, run.bandings, candidate_options, strict=True
    ):
        is_too_low = similarity < options.threshold - SIMILARITY_STEP
        if options.distance is not None or (is_too_low and len(candidate_options) > 1):
            # Bands of a distance miss no pair within it. A field with a higher threshold does not
            # find the pair.
            continue
        found_by.append(_predict_candidates(similarity, measure, banding, options))
    if not found_by:
        return 1.0
    return min(found_by) * (1 - _share_lost_in_hot_buckets(run))


def _predict_candidates(
    similarity: float, measure: Measure, banding: Banding, options: RunOptions
) -> float:
    """Returns the probability that signatures make a pair a candidate that passes."""
    slot_probability = float(measure.estimator.slot_collision_probability(np.array(similarity)))
    limits = AgreementLimits.create(measure, banding, options)
    margin = limits.margin if options.verify != Verify.ESTIMATE else limits.join
    return replace(banding, margin=margin).recall_at(slot_probability)


def _share_lost_in_hot_buckets(run: ReopenedRun) -> float:
    """Returns the share of the pairs with a common bucket that hot buckets do not yield.

    A member of a hot bucket yields at most two pairs with leaders. The buckets of a pair are taken
    to be all hot or all complete, so the recall is predicted too low where they are mixed.
    """
    if run.candidates is None:
        return 0.0
    hot_pairs = run.candidates.count_hot_pairs(run.settings.complete_bucket_size)
    yielded = min(1.0, 2 * run.candidates.hot_members / max(hot_pairs, 1))
    return run.share_of_hot_pairs * (1 - yielded)
