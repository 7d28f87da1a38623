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
from nearkin.stages.packed_pairs import pack_pairs, unpack_pairs

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


class CandidatePairs(NamedTuple):
    """The candidates of documents, in any order."""

    documents: np.ndarray
    """The position of the document of each pair, int64 (m,)."""
    pairs: np.ndarray
    """The packed pairs of positions, uint64 (m,)."""
    ages: np.ndarray
    """Numbers that order candidates of equal estimates, the oldest first, int64 (m,)."""

    @classmethod
    def of(
        cls, documents: np.ndarray, others: np.ndarray, ages: np.ndarray | None = None
    ) -> "CandidatePairs":
        """Returns the pairs of documents with others.

        Args:
            documents: Positions of the documents, int64 (m,) or (1,).
            others: Positions of their candidates, int64 (m,).
            ages: Ages of the candidates, int64 (m,). Their positions by default.
        """
        documents = np.broadcast_to(documents, others.shape)
        pairs = pack_pairs(documents, others)
        return cls(documents, pairs, others if ages is None else ages)


class ComparedCandidates(NamedTuple):
    """The results of comparisons of candidates whose estimates passed the safety margin."""

    compared: ComparedPairs
    """The results, one for each candidate."""
    is_exact: np.ndarray
    """True for candidates that were compared exactly, bool (m,)."""
    ties: int
    """The number of documents of which a candidate was left out whose estimate equals that of one
    that was compared."""


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

    def choose_closest(
        self, candidates: CandidatePairs, kinds: Sequence[ComparableKind], most: int
    ) -> np.ndarray:
        """Returns the candidates of each document whose estimates are greatest, bool (m,)."""
        estimates = self._estimate(candidates.pairs, kinds)
        best = np.full(len(candidates.pairs), -np.inf)
        for estimate in estimates:
            np.fmax(best, estimate, out=best)
        return _rank(candidates, best, np.ones(len(best), bool)) < most

    def compare_candidates(
        self, candidates: CandidatePairs, kinds: Sequence[ComparableKind], portion: int
    ) -> ComparedCandidates:
        """Compares the pairs exactly whose estimates pass the safety margin.

        The pairs of each document with the greatest estimates are compared first. The next ones
        follow as long as none of the document's pairs is similar, so that many which nearly are do
        not hide one that is. Both similarities of pairs that are similar are exact.

        Args:
            portion: Number of pairs of a document that are compared at once.
        """
        pairs = candidates.pairs
        documents = candidates.documents
        estimates = self._estimate(pairs, kinds)
        passed = [estimate >= 0 for estimate in estimates]
        if self._requires_both:
            estimate = np.minimum.reduce(estimates)
            is_candidate = np.logical_and.reduce(passed)
        else:
            estimate = np.maximum.reduce(estimates)
            is_candidate = np.logical_or.reduce(passed)
        ranks = _rank(candidates, estimate, is_candidate)
        is_exact = is_candidate & (ranks < portion)
        scores = self._compare_chosen(pairs, kinds, passed, is_exact)
        left = is_candidate & ~is_exact
        begin = portion
        while left.any():
            left &= ~np.isin(documents, documents[self._combine(scores).reached])
            chosen = left & (ranks < begin + portion)
            more = self._compare_chosen(pairs, kinds, passed, chosen)
            scores = [
                KindScores(
                    np.where(chosen, new.similarity, old.similarity), old.reached | new.reached
                )
                for old, new in zip(scores, more, strict=True)
            ]
            is_exact |= chosen
            left &= ~chosen
            begin += portion
        compared = self._combine(scores)
        if len(self.kinds) > 1:
            # matches have both similarities, also one whose estimate did not pass
            similar = [compared.reached & _comparable(pairs, kind) for kind in kinds]
            completed = [
                comparer.compare(pairs, kind, rows)
                for comparer, kind, rows in zip(self.kinds, kinds, similar, strict=True)
            ]
            compared = self._combine(completed)._replace(reached=compared.reached)
        ties = _count_ties(documents, ranks, estimate, is_candidate, is_exact)
        return ComparedCandidates(compared, is_exact, ties)

    def _compare_chosen(
        self,
        pairs: np.ndarray,
        kinds: Sequence[ComparableKind],
        passed: list[np.ndarray],
        chosen: np.ndarray,
    ) -> list[KindScores]:
        """Compares chosen pairs by the kinds of evidence whose estimates pass the margin."""
        # a similarity of 0 in place of NaN, so that nothing is converted for each document
        missing = 0.0 if len(self.kinds) == 1 else np.nan
        return [
            comparer.compare(pairs, kind, chosen & of_kind, missing)
            for comparer, kind, of_kind in zip(self.kinds, kinds, passed, strict=True)
        ]

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
            return ComparedPairs(kinds[0].similarity, kinds[0].reached, tuple(kinds))
        similarities = np.array([kind.similarity for kind in kinds])
        reached = np.array([kind.reached for kind in kinds])
        if self._requires_both:
            similarity = np.nan_to_num(np.fmin.reduce(similarities), nan=0.0)
            return ComparedPairs(similarity, np.logical_and.reduce(reached), tuple(kinds))
        is_similar = np.logical_or.reduce(reached)
        deciding = np.where(is_similar & ~reached, np.nan, similarities)
        similarity = np.nan_to_num(np.fmax.reduce(deciding), nan=0.0)
        return ComparedPairs(similarity, is_similar, tuple(kinds))


def _rank(candidates: CandidatePairs, estimates: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Returns the ranks of chosen candidates of each document, the greatest estimate first.

    Args:
        estimates: Estimates of the candidates, float64 (m,).
        chosen: True for those that are ranked, bool (m,). The rank of others is 0.
    """
    ranks = np.zeros(len(estimates), np.int64)
    rows = np.flatnonzero(chosen)
    documents = candidates.documents[rows]
    order = np.lexsort((candidates.ages[rows], -estimates[rows], documents))
    documents = documents[order]
    ranks[rows[order]] = np.arange(len(rows)) - np.searchsorted(documents, documents)
    return ranks


def _count_ties(
    documents: np.ndarray,
    ranks: np.ndarray,
    estimates: np.ndarray,
    is_candidate: np.ndarray,
    is_exact: np.ndarray,
) -> int:
    """Returns for how many documents the best pair left out has the estimate of a compared one.

    Args:
        documents: Documents of the pairs, (m,).
        ranks: Ranks of the pairs of each document by estimates, int64 (m,).
        estimates: Estimates of the pairs, float64 (m,).
        is_candidate: True for pairs that are ranked, bool (m,).
        is_exact: True for those that were compared, bool (m,).
    """
    if not (is_candidate & ~is_exact).any():
        return 0
    rows = np.flatnonzero(is_candidate)
    rows = rows[np.lexsort((ranks[rows], documents[rows]))]
    before = rows[:-1]
    after = rows[1:]
    is_cut = is_exact[before] & ~is_exact[after] & (documents[before] == documents[after])
    return int(np.count_nonzero(is_cut & (estimates[before] == estimates[after])))


def _comparable(pairs: np.ndarray, kind: ComparableKind) -> np.ndarray:
    """Returns which pairs consist of documents that both have a kind of evidence, bool (m,)."""
    first, second = unpack_pairs(pairs)
    return ~(kind.empty[first] | kind.empty[second])


def _number_of(value: np.float64) -> float | None:
    """Returns a similarity; None if it is NaN, because it was not computed."""
    return None if np.isnan(value) else float(value)
