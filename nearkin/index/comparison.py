"""The comparison of documents by one kind of evidence or two, which decides what is similar.

Candidates are estimated from their signatures first, with a safety margin. Those that pass are
compared exactly. In an index of texts and vectors, two documents are similar if the thresholds of
either kind, or of both, are reached.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nearkin.index.document_preparation import DocumentPreparer
from nearkin.index.entry import Entry, Evidence
from nearkin.index.preparation import Preparer
from nearkin.index.settings import IndexSettings
from nearkin.stages.lsh.kernels import pair_agreements
from nearkin.stages.lsh.solve import largest_margin
from nearkin.stages.measures.base import StoredPayloads, as_stored, band_layout_of
from nearkin.stages.packed_pairs import unpack_pairs

PASS_PROBABILITY = 0.999
"""The share of pairs at the threshold whose estimate must pass the margin."""


class ComparableKind(NamedTuple):
    """One kind of evidence of documents that are compared by their positions."""

    stored: StoredPayloads
    """The data that exact comparison needs."""
    empty: np.ndarray
    """True for documents that lack this kind, bool (n,)."""
    signatures: np.ndarray
    """The signatures, (n, w). They may be missing if no estimate is asked for."""


class KindScores(NamedTuple):
    """The exact similarities of pairs by one kind of evidence."""

    similarity: np.ndarray
    """The similarities, float64 (m,). It is NaN for pairs that were not compared."""
    reached: np.ndarray
    """True for pairs that reach the threshold of the kind, bool (m,)."""


class ComparedPairs(NamedTuple):
    """The results of comparisons, by all kinds of evidence together."""

    similarity: np.ndarray
    """The similarities, float64 (m,).

    In an index of texts and vectors it is the larger one of those that reach their thresholds, or
    the smaller one if both must reach them. For pairs that are not similar it is the larger one, or
    the smaller one, of those that were compared. It is 0 for pairs that were not compared.
    """
    reached: np.ndarray
    """True for pairs that are similar, bool (m,)."""
    kinds: tuple[KindScores, ...]
    """The similarities by each kind of evidence."""

    def evidence(self, position: int) -> Evidence | None:
        """Returns the evidence for one pair, or None in an index of one kind."""
        if len(self.kinds) == 1:
            return None
        text, vector = self.kinds
        return Evidence(
            text=_number_of(text.similarity[position]),
            vector=_number_of(vector.similarity[position]),
            text_reached=bool(text.reached[position]),
            vector_reached=bool(vector.reached[position]),
        )


class ComparedCandidates(NamedTuple):
    """The results of comparisons of candidates whose estimates passed the safety margin."""

    compared: ComparedPairs
    """The results, one for each candidate."""
    is_exact: np.ndarray
    """True for candidates that were compared exactly, bool (m,)."""
    estimates: np.ndarray
    """The estimates, float64 (m,). They are comparable with each other only."""
    ties: int
    """The number of documents of which a candidate was left out whose estimate equals that of one
    that was compared."""


class _BestPairs(NamedTuple):
    """The pairs with the greatest estimates."""

    chosen: np.ndarray
    """True for these pairs, bool (m,)."""
    ties: int
    """The number of documents with a pair that was left out among equal ones."""


class KindComparer:
    """Estimates and compares documents by one kind of evidence."""

    def __init__(self, preparer: Preparer, threshold: float, search_threshold: float) -> None:
        self.preparer = preparer
        self.threshold = threshold
        self.search_threshold = search_threshold
        self._measure = preparer.measure
        spec = self._measure.spec
        self.compares_sets = spec.measure == "jaccard"
        # Truncated slots may also agree by chance, but in short documents they need not.
        collision = self._measure.estimator.slot_collision_probability(np.array(search_threshold))
        self._margin = largest_margin(spec.k, float(collision), PASS_PROBABILITY)
        if preparer.compares_signatures:
            # the signatures decide, so that the margin is exact
            self._margin = preparer.banding.margin
        keys = np.empty((0, 0), np.uint64) if spec.truncated else None
        self._layout = band_layout_of(spec, preparer.banding, keys).layout

    def estimate(self, pairs: np.ndarray, kind: ComparableKind) -> np.ndarray:
        """Returns how far the signatures of pairs agree beyond the safety margin.

        Args:
            pairs: Packed pairs of positions, uint64 (m,).

        Returns:
            The share of the way from the margin to complete agreement, float64 (m,). It is at least
            0 for pairs that pass the margin.
        """
        agreeing = np.empty(len(pairs), np.int64)
        pair_agreements(pairs, kind.signatures, self._layout, agreeing)
        width = max(self._measure.spec.k - self._margin, 1)
        return np.asarray((agreeing - self._margin) / width)

    def compare(
        self, pairs: np.ndarray, kind: ComparableKind, chosen: np.ndarray, missing: float = np.nan
    ) -> KindScores:
        """Compares some pairs exactly.

        Args:
            pairs: Packed pairs of positions, uint64 (m,).
        """
        similarity = np.full(len(pairs), missing)
        reached = np.zeros(len(pairs), bool)
        rows = np.flatnonzero(chosen)
        if len(rows):
            scored = self._measure.compare(pairs[rows], kind.stored)
            similarity[rows] = scored.similarity
            reached[rows] = scored.meets_threshold(self.threshold)
        return KindScores(similarity, reached)


class DocumentComparer:
    """Compares documents by all kinds of evidence of an index."""

    def __init__(self, documents: DocumentPreparer, settings: IndexSettings) -> None:
        assert settings.threshold is not None
        self._documents = documents
        self._requires_both = documents.requires_both
        self.kinds = [KindComparer(documents.first, settings.threshold, settings.search_threshold)]
        if documents.second is not None:
            assert settings.vector is not None
            assert settings.vector.threshold is not None
            threshold = settings.vector.threshold
            self.kinds.append(KindComparer(documents.second, threshold, threshold))

    def compare(self, pairs: np.ndarray, kinds: Sequence[ComparableKind]) -> ComparedPairs:
        """Compares pairs exactly, whatever their estimates.

        Args:
            pairs: Packed pairs of positions, uint64 (m,).
        """
        missing = 0.0 if len(self.kinds) == 1 else np.nan
        return self._combine(
            [
                comparer.compare(pairs, kind, _comparable(pairs, kind), missing)
                for comparer, kind in zip(self.kinds, kinds, strict=True)
            ]
        )

    def closest_pairs(
        self, pairs: np.ndarray, kinds: Sequence[ComparableKind], most: int
    ) -> np.ndarray:
        """Returns the pairs of each document whose estimates are greatest, bool (m,).

        Args:
            pairs: Packed pairs of positions, uint64 (m,).
        """
        estimates = self._estimate(pairs, kinds)
        best = np.full(len(pairs), -np.inf)
        for estimate in estimates:
            np.fmax(best, estimate, out=best)
        return _choose_best(pairs, best, np.ones(len(pairs), bool), most).chosen

    def compare_candidates(
        self, pairs: np.ndarray, kinds: Sequence[ComparableKind], most: int
    ) -> ComparedCandidates:
        """Compares the pairs exactly whose estimates pass the safety margin.

        Both similarities of pairs that are similar are exact.

        Args:
            pairs: Packed pairs of positions, uint64 (m,).
        """
        estimates = self._estimate(pairs, kinds)
        passed = [estimate >= 0 for estimate in estimates]
        if len(self.kinds) == 1:
            best = _choose_best(pairs, estimates[0], passed[0], most)
            # a similarity of 0 in place of NaN, so that nothing is converted for each document
            scores = self.kinds[0].compare(pairs, kinds[0], best.chosen, missing=0.0)
            return ComparedCandidates(_of_one_kind(scores), best.chosen, estimates[0], best.ties)
        if self._requires_both:
            estimate = np.minimum.reduce(estimates)
            best = _choose_best(pairs, estimate, np.logical_and.reduce(passed), most)
            chosen = [best.chosen] * len(passed)
        else:
            estimate = np.maximum.reduce(estimates)
            best = _choose_best(pairs, estimate, np.logical_or.reduce(passed), most)
            chosen = [best.chosen & of_kind for of_kind in passed]
        combined = self._combine(
            [
                comparer.compare(pairs, kind, rows)
                for comparer, kind, rows in zip(self.kinds, kinds, chosen, strict=True)
            ]
        )
        # matches have both similarities, also one whose estimate did not pass
        similar = [combined.reached & _comparable(pairs, kind) for kind in kinds]
        completed = [
            comparer.compare(pairs, kind, rows)
            for comparer, kind, rows in zip(self.kinds, kinds, similar, strict=True)
        ]
        compared = self._combine(completed)._replace(reached=combined.reached)
        return ComparedCandidates(compared, best.chosen, estimate, best.ties)

    def _estimate(self, pairs: np.ndarray, kinds: Sequence[ComparableKind]) -> list[np.ndarray]:
        """Returns the estimates of pairs by each kind of evidence, float64 (m,).

        Pairs that cannot be compared by one of two kinds have the estimate of -inf.
        """
        if len(kinds) == 1:
            return [self.kinds[0].estimate(pairs, kinds[0])]
        return [
            np.where(_comparable(pairs, kind), comparer.estimate(pairs, kind), -np.inf)
            for comparer, kind in zip(self.kinds, kinds, strict=True)
        ]

    def compare_entries(self, entries: Sequence[Entry], pairs: np.ndarray) -> ComparedPairs:
        """Compares stored documents exactly.

        Args:
            pairs: Packed pairs of positions of the entries, uint64 (m,).
        """
        no_signatures = np.empty((0, 0), np.uint64)
        return self.compare(
            pairs,
            [
                ComparableKind(as_stored(kind.payload), kind.empty, no_signatures)
                for kind in self._documents.stored_kinds(entries)
            ],
        )

    def _combine(self, kinds: list[KindScores]) -> ComparedPairs:
        """Returns the results by all kinds of evidence together."""
        if len(kinds) == 1:
            return _of_one_kind(kinds[0])
        similarities = np.array([kind.similarity for kind in kinds])
        reached = np.array([kind.reached for kind in kinds])
        if self._requires_both:
            similarity = np.nan_to_num(np.fmin.reduce(similarities), nan=0.0)
            return ComparedPairs(similarity, np.logical_and.reduce(reached), tuple(kinds))
        is_similar = np.logical_or.reduce(reached)
        deciding = np.where(is_similar & ~reached, np.nan, similarities)
        similarity = np.nan_to_num(np.fmax.reduce(deciding), nan=0.0)
        return ComparedPairs(similarity, is_similar, tuple(kinds))


def _of_one_kind(scores: KindScores) -> ComparedPairs:
    """Returns the results of an index of one kind of evidence."""
    return ComparedPairs(scores.similarity, scores.reached, (scores,))


def _choose_best(
    pairs: np.ndarray, estimates: np.ndarray, passed: np.ndarray, most: int
) -> _BestPairs:
    """Chooses the pairs of each document with the greatest estimates.

    Args:
        pairs: Packed pairs of positions, uint64 (m,).
        estimates: Estimates of the pairs, float64 (m,).
    """
    rows = np.flatnonzero(passed)
    if len(rows) <= most:
        return _BestPairs(passed, 0)
    documents = unpack_pairs(pairs[rows])[0]
    order = np.lexsort((pairs[rows], -estimates[rows], documents))
    rows = rows[order]
    documents = documents[order]
    rank = np.arange(len(rows)) - np.searchsorted(documents, documents)
    first_left_out = np.flatnonzero(rank == most)
    ties = estimates[rows[first_left_out]] == estimates[rows[first_left_out - 1]]
    chosen = np.zeros(len(pairs), bool)
    chosen[rows[rank < most]] = True
    return _BestPairs(chosen, int(np.count_nonzero(ties)))


def _comparable(pairs: np.ndarray, kind: ComparableKind) -> np.ndarray:
    """Returns which pairs consist of documents that both have a kind of evidence, bool (m,)."""
    first, second = unpack_pairs(pairs)
    return ~(kind.empty[first] | kind.empty[second])


def _number_of(value: np.float64) -> float | None:
    """Returns a similarity; None if it is NaN, because it was not computed."""
    return None if np.isnan(value) else float(value)
