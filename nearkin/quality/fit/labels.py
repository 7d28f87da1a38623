"""Labels of documents, and what a definition of similarity makes of them at each threshold.

Labelled clusters are judged by the clusters that a run would make of all documents of the fit, by
leaders or by connected components. Labelled pairs are judged one by one, by their own similarity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from nearkin.engine.options import DEFAULT_FLOOR_DISTANCE
from nearkin.quality.evaluate.golden import NO_PAIRS, GoldenSet, Labelled, close_transitively
from nearkin.quality.evaluate.totals import (
    LabelledTotals,
    Totals,
    count_clusters,
    count_judged_pairs,
)
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.documents import FitDocuments
from nearkin.quality.fit.kernels import (
    count_kept_documents,
    count_leader_clusters,
    count_pairs_of_clusters,
)
from nearkin.quality.fit.objective import Curve
from nearkin.quality.fit.sampling import LabelledSample
from nearkin.quality.fit.scoring import LEAST_SIMILARITY, DocumentScorer, ScoredDocuments
from nearkin.quality.fit.sources import DocumentSources
from nearkin.settings.choices import ClusterMethod
from nearkin.stages.cluster.components import cluster_components
from nearkin.stages.cluster.election import elect_leaders
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs

LEAST_LISTED_PAIRS = 300_000
MOST_LISTED_PAIRS = 3_000_000
PAIRS_PER_DUPLICATE = 30
"""The number of pairs that are listed for each pair of duplicates, within the limits above. At a
threshold at which more pairs are found, fewer than one in 30 is a pair of duplicates."""
PAIRS_PER_DUPLICATE_OF_COMPONENTS = 4
SPARE_PAIRS_OF_COMPONENTS = 1000
LARGEST_SHARE_OF_GROUP = 0.25
"""The share of the documents that all labelled pairs may connect. If they connect more, groups are
made of pairs of duplicates alone."""


class Mistakes(NamedTuple):
    """Pairs that are judged wrongly at a threshold, the clearest mistakes first."""

    false_pairs: np.ndarray
    """int64 (p, 2): Distinct documents that are found to be duplicates."""
    false_similarity: np.ndarray
    """float64 (p,): Their similarities."""
    missed_pairs: np.ndarray
    """int64 (q, 2): Duplicates that are not found."""
    missed_similarity: np.ndarray
    """float64 (q,): Their similarities."""

    def without_one_source(self, sources: DocumentSources) -> "Mistakes":
        """Returns the mistakes that are pairs of different sources."""
        is_false = ~sources.are_equal(self.false_pairs)
        is_missed = ~sources.are_equal(self.missed_pairs)
        return Mistakes(
            self.false_pairs[is_false],
            self.false_similarity[is_false],
            self.missed_pairs[is_missed],
            self.missed_similarity[is_missed],
        )


class OneSourceCounts(NamedTuple):
    """The labelled pairs of one source, which are not compared."""

    duplicates: int
    """The number of pairs of duplicates."""
    distinct: int | None
    """The number of distinct pairs. None if clusters are labelled."""
    example: np.ndarray
    """int64 (2,): A pair of duplicates of one source. It is empty if there are none."""


class LabelledSizes(NamedTuple):
    """The numbers of labelled clusters and documents, of which some are lost or removed."""

    clusters: int
    """The number of true clusters."""
    redundant: int
    """The number of documents beyond one of each true cluster."""


class KeptCounts(NamedTuple):
    """The true clusters that are lost, and the redundant documents that are removed."""

    sizes: LabelledSizes
    """The numbers of all of them."""
    lost: float
    """The number of true clusters of which no document is kept."""
    removed: float
    """The number of redundant documents that are removed."""

    @classmethod
    def combine(cls, parts: Sequence["KeptCounts"]) -> "KeptCounts":
        """Returns the sums of counts."""
        sizes = LabelledSizes(
            sum(part.sizes.clusters for part in parts), sum(part.sizes.redundant for part in parts)
        )
        return cls(sizes, sum(part.lost for part in parts), sum(part.removed for part in parts))

    @property
    def lost_share(self) -> float:
        """The share of the true clusters of which no document is kept."""
        return self.lost / max(self.sizes.clusters, 1)

    @property
    def removed_share(self) -> float:
        """The share of the redundant documents that are removed."""
        return self.removed / max(self.sizes.redundant, 1)


class LabelScores(Protocol):
    """The similarities of a definition, with the labels."""

    @property
    def documents(self) -> int:
        """The number of documents."""

    def thresholds(self, step: float) -> np.ndarray:
        """Returns the thresholds that can be judged, in ascending order, float64 (t,)."""

    def curve(self, members: np.ndarray, step: float) -> Curve:
        """Returns precision and recall of the members, bool (n,), at each threshold."""

    def totals(self, members: np.ndarray, threshold: float) -> LabelledTotals:
        """Returns what is counted of the members, bool (n,), with its parts for intervals."""

    def held_out_totals(self, judged: np.ndarray, threshold: float) -> LabelledTotals:
        """Returns what is counted of the documents of one fold, bool (n,), at a threshold."""

    def held_out_kept(self, judged: np.ndarray, threshold: float) -> KeptCounts | None:
        """Returns what is kept of the clusters of one fold, or None if pairs are labelled."""

    def mistakes(self, threshold: float) -> Mistakes:
        """Returns the pairs that are judged wrongly at a threshold."""


def threshold_grid(floor: float, step: float) -> np.ndarray:
    """Returns multiples of a step above a floor, up to 1, float64 (t,).

    Examples:
        >>> threshold_grid(0.93, 0.02).tolist()
        [0.94, 0.96, 0.98, 1.0]
    """
    steps = round(1 / step)
    thresholds = np.arange(1, steps + 1) / steps
    above = thresholds > floor
    above[-1] = True
    return thresholds[above]


@dataclass(frozen=True)
class ClusterLabels:
    """Documents whose true clusters are known.

    Attributes:
        clusters: Number of the true cluster of each document, or -1 for a document without a label,
            int64 (n,).
        population: Number of counted documents with which each labelled document would be compared
            in a run, itself included. If fewer take part, distinct pairs are extrapolated.
        sources: Sources of the documents, of which only different ones are compared, or None. Their
            sizes are those in the population.
        others_are_distinct: Whether a document without a label is distinct from all labelled ones.
            If not, it can be the kept document of a labelled one, but is not counted.
        has_exact_groups: Whether exact duplicates follow the first one of them, as in a run that
            compares all documents.
    """

    clusters: np.ndarray
    population: int
    sources: DocumentSources | None = None
    others_are_distinct: bool = True
    has_exact_groups: bool = False

    @property
    def are_clustered(self) -> bool:
        """True, because definitions are judged by clusters."""
        return True

    @property
    def distinct(self) -> int | None:
        """None, because distinct pairs are not labelled one by one."""
        return None

    @property
    def has_distinct(self) -> bool:
        """True if there are documents of different clusters."""
        return len(np.unique(self.clusters[self.counted(np.ones(len(self.clusters), bool))])) > 1

    @cached_property
    def groups(self) -> np.ndarray:
        """The true cluster of each document. A document without a label is a group of its own."""
        groups = self.clusters.copy()
        is_other = groups < 0
        groups[is_other] = groups.max(initial=-1) + 1 + np.arange(np.count_nonzero(is_other))
        return groups

    @property
    def duplicates(self) -> int:
        """The number of pairs of duplicates."""
        return int(self.duplicates_of_groups.sum())

    @cached_property
    def duplicates_of_groups(self) -> np.ndarray:
        """The number of pairs of duplicates of each group, int64 (g,)."""
        sizes = np.bincount(self.groups)
        pairs: np.ndarray = sizes * (sizes - 1) // 2
        return pairs

    @cached_property
    def by_cluster(self) -> np.ndarray:
        """The labelled documents, one true cluster after the other, int64 (l,)."""
        order = np.argsort(self.clusters, kind="stable")
        return order[self.clusters[order] >= 0]

    @cached_property
    def firsts(self) -> np.ndarray:
        """The first position of each cluster in `by_cluster`, and the end, int64 (c + 1,)."""
        ordered = self.clusters[self.by_cluster]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return np.append(starts, len(ordered)).astype(np.int64)

    def count_members(self, members: np.ndarray) -> "LabelledSizes":
        """Returns the numbers of true clusters and of redundant documents among members."""
        sizes = np.bincount(self.clusters[members & (self.clusters >= 0)])
        return LabelledSizes(
            int(np.count_nonzero(sizes)), int(np.maximum(sizes.astype(np.int64) - 1, 0).sum())
        )

    def counted(self, members: np.ndarray) -> np.ndarray:
        """Returns which members are judged with the others of their predicted cluster."""
        return members if self.others_are_distinct else members & (self.clusters >= 0)

    def factor(self, members: np.ndarray) -> float:
        """Returns by how much distinct pairs are extrapolated.

        A labelled document meets all documents of its own cluster among the members, but only a
        share of the other documents.
        """
        counted = self.counted(members)
        compared = int(np.count_nonzero(counted))
        if self.sources is None:
            return max(1.0, (self.population - 1) / max(1, compared - 1))
        labelled = members & (self.clusters >= 0)
        met = self.population - self.sources.sizes[labelled]
        met_by_members = compared - self.sources.count_equal(counted)[labelled]
        return max(1.0, float(met.sum()) / max(1, int(met_by_members.sum())))

    def count_one_source(self, sources: DocumentSources) -> OneSourceCounts:
        """Returns how many labelled pairs are of one source."""
        documents = self.by_cluster
        parts = np.stack([self.clusters[documents].astype(np.uint64), sources.hashes[documents]])
        _, numbers = np.unique(parts, axis=1, return_inverse=True)
        numbers = numbers.ravel()
        sizes = np.bincount(numbers)
        examples = documents[numbers == np.argmax(sizes)] if sizes.max() > 1 else documents[:0]
        return OneSourceCounts(int((sizes * (sizes - 1) // 2).sum()), None, examples[:2])

    def score(self, scorer: DocumentScorer, definition: Definition) -> LabelScores:
        """Returns the similarities by a definition."""
        if definition.columns:
            chosen = scorer.choose_columns(definition)
            scores = self._reorder(chosen.order).score(chosen.scorer, chosen.definition)
            return _ReorderedScores(scores, chosen.order)
        wanted_pairs = self.duplicates * PAIRS_PER_DUPLICATE
        limit = min(max(wanted_pairs, LEAST_LISTED_PAIRS), MOST_LISTED_PAIRS)
        scored = scorer.most_similar_pairs(definition, limit)
        if definition.cluster == ClusterMethod.LEADERS:
            return _ClusterScores(self, scored)
        scored = scored.keep_most_similar(wanted_of_components(self))
        return _ComponentScores(self, scored, definition.floor)

    def _reorder(self, order: np.ndarray) -> "ClusterLabels":
        sources = None if self.sources is None else self.sources.select(order)
        return replace(self, clusters=self.clusters[order], sources=sources)


def wanted_of_components(labels: "ClusterLabels") -> int:
    """Returns the number of pairs up to which components are worth a try.

    With more, one wrong pair in a component joins whole clusters.
    """
    return PAIRS_PER_DUPLICATE_OF_COMPONENTS * labels.duplicates + SPARE_PAIRS_OF_COMPONENTS


@dataclass(frozen=True)
class _ReorderedScores:
    """Scores of documents whose chosen columns have a keep order of their own.

    Attributes:
        scores: Scores in this order.
        order: Position of each document among those of the fit, int64 (n,).
    """

    scores: LabelScores
    order: np.ndarray

    @property
    def documents(self) -> int:
        return self.scores.documents

    def thresholds(self, step: float) -> np.ndarray:
        return self.scores.thresholds(step)

    def curve(self, members: np.ndarray, step: float) -> Curve:
        return self.scores.curve(members[self.order], step)

    def totals(self, members: np.ndarray, threshold: float) -> LabelledTotals:
        return self.scores.totals(members[self.order], threshold)

    def held_out_totals(self, judged: np.ndarray, threshold: float) -> LabelledTotals:
        return self.scores.held_out_totals(judged[self.order], threshold)

    def held_out_kept(self, judged: np.ndarray, threshold: float) -> KeptCounts | None:
        return self.scores.held_out_kept(judged[self.order], threshold)

    def mistakes(self, threshold: float) -> Mistakes:
        mistakes = self.scores.mistakes(threshold)
        return mistakes._replace(
            false_pairs=np.sort(self.order[mistakes.false_pairs], axis=1),
            missed_pairs=np.sort(self.order[mistakes.missed_pairs], axis=1),
        )


class _ThresholdCounts(NamedTuple):
    """The counts of clusters at several thresholds, float64 (t,) each."""

    together: np.ndarray
    """Pairs of duplicates in one cluster."""
    wrong: np.ndarray
    """Distinct pairs in one cluster."""
    lost: np.ndarray
    """True clusters of which no document is kept."""
    redundant: np.ndarray
    """Kept documents beyond one of each true cluster."""


@dataclass(frozen=True)
class _ClusterScores:
    """The most similar pairs of documents whose true clusters are known, for leaders."""

    labels: ClusterLabels
    scored: ScoredDocuments

    @property
    def documents(self) -> int:
        return len(self.labels.clusters)

    def thresholds(self, step: float) -> np.ndarray:
        return threshold_grid(self.scored.floor, step)

    def curve(self, members: np.ndarray, step: float) -> Curve:
        thresholds = self.thresholds(step)
        scored = self._of_members(members)
        labels = self.labels
        # Only thresholds between which a pair lies differ in what they find.
        below = np.searchsorted(np.sort(scored.similarity), thresholds)
        _, firsts, places = np.unique(below, return_index=True, return_inverse=True)
        counts = self._count_pairs(scored, members, thresholds[firsts])
        duplicates = np.bincount(labels.groups[members])
        factor = labels.factor(members)
        sizes = labels.count_members(members)
        return Curve(
            thresholds,
            float((duplicates * (duplicates - 1)).sum()) / 2,
            counts.together[places],
            counts.wrong[places] * factor,
            np.minimum(counts.lost[places] / max(sizes.clusters, 1) * factor, 1.0),
            1 - counts.redundant[places] / max(sizes.redundant, 1),
        )

    def _count_pairs(
        self, scored: ScoredDocuments, members: np.ndarray, thresholds: np.ndarray
    ) -> _ThresholdCounts:
        """Returns what the clusters of members are at some thresholds, in ascending order."""
        together = np.empty(len(thresholds))
        wrong = np.empty(len(thresholds))
        lost = np.empty(len(thresholds))
        redundant = np.empty(len(thresholds))
        count_leader_clusters(
            scored.later,
            scored.earlier,
            scored.similarity,
            scored.preference,
            members,
            self.labels.counted(members),
            self._first_exact_duplicates(members),
            self.labels.by_cluster,
            self.labels.firsts,
            thresholds,
            together,
            wrong,
            lost,
            redundant,
        )
        return _ThresholdCounts(together, wrong, lost, redundant)

    @cached_property
    def _first_copies(self) -> np.ndarray:
        """The first exact duplicate of each document, int64 (n,). Empty documents have none."""
        if not self.labels.has_exact_groups:
            return np.arange(self.documents)
        return self.scored.first_copies

    def _first_exact_duplicates(self, members: np.ndarray) -> np.ndarray:
        """Returns the first exact duplicate of each document among the members, int64 (n,)."""
        copies = self._first_copies
        first_members = np.full(len(members), len(members))
        np.minimum.at(first_members, copies[members], np.flatnonzero(members))
        representative = np.arange(len(members))
        representative[members] = first_members[copies[members]]
        return representative

    def _of_members(self, members: np.ndarray) -> ScoredDocuments:
        """Returns the pairs of members, of which later exact duplicates have none."""
        is_first = self._first_exact_duplicates(members) == np.arange(len(members))
        takes_part = members & is_first
        if takes_part.all():
            return self.scored
        return self.scored.select(takes_part[self.scored.later] & takes_part[self.scored.earlier])

    def predict(self, members: np.ndarray, threshold: float) -> np.ndarray:
        """Returns the kept document of each document at a threshold, int64 (n,)."""
        kept = self._cluster_members(self._of_members(members), len(members), threshold)
        predicted: np.ndarray = kept[self._first_exact_duplicates(members)]
        return predicted

    def _cluster_members(
        self, scored: ScoredDocuments, documents: int, threshold: float
    ) -> np.ndarray:
        """Returns the kept document of each document by pairs of members, int64 (n,)."""
        scored = scored.select(scored.similarity >= threshold)
        order = np.arange(documents, dtype=np.uint32)
        return elect_leaders(_as_scored_pairs(scored), order, order).astype(np.int64)

    def totals(self, members: np.ndarray, threshold: float) -> LabelledTotals:
        return self._count_totals(members, members, threshold)

    def held_out_totals(self, judged: np.ndarray, threshold: float) -> LabelledTotals:
        """Returns what is counted of the clusters of one fold, among all documents.

        Half of each distinct pair with a document of another fold is counted, so that the sum over
        the folds counts each pair once.
        """
        everyone = np.ones(len(judged), bool)
        totals = self._count_totals(everyone, judged, threshold)
        if self.labels.others_are_distinct and (self.labels.clusters < 0).any():
            return totals
        # All folds together, a pair would be missing without either of its clusters.
        removed = totals.removed._replace(wrong=2 * totals.removed.wrong)
        return replace(totals, removed=removed)

    def held_out_kept(self, judged: np.ndarray, threshold: float) -> KeptCounts | None:
        """Returns what is kept of the clusters of one fold, if all documents are compared."""
        labels = self.labels
        everyone = np.ones(len(judged), bool)
        predicted = self.predict(everyone, threshold)
        lost, redundant = count_kept_documents(predicted, judged, labels.by_cluster, labels.firsts)
        sizes = labels.count_members(judged)
        all_lost = min(lost * labels.factor(everyone), float(sizes.clusters))
        return KeptCounts(sizes, all_lost, sizes.redundant - redundant)

    def _count_totals(
        self, members: np.ndarray, judged: np.ndarray, threshold: float
    ) -> LabelledTotals:
        predicted = self.predict(members, threshold)
        is_judged = judged & (self.labels.clusters >= 0)
        _, true = np.unique(self.labels.clusters[is_judged], return_inverse=True)
        counted = self.labels.counted(members)
        sizes = np.bincount(predicted[counted], minlength=len(members))
        totals = count_clusters(true, predicted[is_judged], sizes)
        return totals.scale_wrong(self.labels.factor(members))

    def mistakes(self, threshold: float) -> Mistakes:
        clusters = self.labels.clusters
        everyone = np.ones(len(clusters), bool)
        predicted = self.predict(everyone, threshold)
        scored = self.scored
        is_same = self.labels.groups[scored.later] == self.labels.groups[scored.earlier]
        is_labelled = (clusters[scored.later] >= 0) | (clusters[scored.earlier] >= 0)
        is_counted = self.labels.counted(everyone)
        is_judged = is_labelled & is_counted[scored.later] & is_counted[scored.earlier]
        is_together = predicted[scored.later] == predicted[scored.earlier]
        wrong = scored.select(is_together & ~is_same & is_judged)
        missed = scored.select(~is_together & is_same)
        missed_pairs = _as_rows(missed)
        missed_similarity = missed.similarity
        if len(missed_similarity) < len(clusters):
            # Duplicates that are not among the listed pairs are even less similar.
            listed = pack_pairs(*missed_pairs.T)
            unlisted = self._unlisted_pairs(predicted, listed)
            missed_pairs = np.concatenate([unlisted, missed_pairs])
            unknown = np.zeros(len(unlisted))
            missed_similarity = np.concatenate([unknown, missed_similarity])
        return _sort_mistakes(_as_rows(wrong), wrong.similarity, missed_pairs, missed_similarity)

    def _unlisted_pairs(self, predicted: np.ndarray, listed: np.ndarray) -> np.ndarray:
        """Returns pairs of duplicates that are neither found nor listed, one of each document."""
        labels = self.labels
        ordered = labels.by_cluster
        is_next_same = labels.clusters[ordered[1:]] == labels.clusters[ordered[:-1]]
        pairs = np.stack([ordered[:-1], ordered[1:]], axis=1)[is_next_same]
        is_apart = predicted[pairs[:, 0]] != predicted[pairs[:, 1]]
        pairs = pairs[is_apart]
        return pairs[~np.isin(pack_pairs(pairs[:, 0], pairs[:, 1]), listed)]


@dataclass(frozen=True)
class _ComponentScores(_ClusterScores):
    """The most similar pairs of documents whose true clusters are known, for components."""

    floor: float | None

    def _count_pairs(
        self, scored: ScoredDocuments, members: np.ndarray, thresholds: np.ndarray
    ) -> _ThresholdCounts:
        sizes = np.zeros(len(members), np.int64)
        tally = np.zeros(len(members), np.int64)
        labels = self.labels
        counted = labels.counted(members)
        representative = self._first_exact_duplicates(members)
        counts = []
        for threshold in thresholds.tolist():
            kept = self._cluster_members(scored, len(members), threshold)[representative]
            pairs = count_pairs_of_clusters(
                kept, members, counted, labels.by_cluster, labels.firsts, sizes, tally
            )
            counts.append(
                (*pairs, *count_kept_documents(kept, members, labels.by_cluster, labels.firsts))
            )
        return _ThresholdCounts._make(np.array(counts, np.float64).T)

    def _cluster_members(
        self, scored: ScoredDocuments, documents: int, threshold: float
    ) -> np.ndarray:
        scored = scored.select(scored.similarity >= threshold)
        order = np.arange(documents, dtype=np.uint32)
        floor = self.floor
        if floor is None:
            floor = max(0.0, threshold - DEFAULT_FLOOR_DISTANCE)
        kept = cluster_components(_as_scored_pairs(scored), order, order, floor, scored.compare)
        return kept.astype(np.int64)


def _as_scored_pairs(scored: ScoredDocuments) -> ScoredPairs:
    """Returns pairs whose union is 1, so that the intersection is the similarity of a run."""
    pairs = pack_pairs(scored.earlier, scored.later)
    return ScoredPairs(pairs, scored.preference, np.ones(len(pairs)))


@dataclass(frozen=True)
class PairLabels:
    """Pairs of documents that are labelled as duplicates or as distinct.

    Attributes:
        documents: Number of documents.
        duplicate_pairs: Positions of the documents of each pair of duplicates, int64 (p, 2).
        distinct_pairs: Positions of the documents of each distinct pair, int64 (q, 2).
    """

    documents: int
    duplicate_pairs: np.ndarray
    distinct_pairs: np.ndarray

    @property
    def are_clustered(self) -> bool:
        """False, because definitions are judged by single pairs."""
        return False

    @property
    def distinct(self) -> int | None:
        """The number of distinct pairs."""
        return len(self.distinct_pairs)

    @property
    def has_distinct(self) -> bool:
        """True if a pair is labelled as distinct."""
        return len(self.distinct_pairs) > 0

    @cached_property
    def clusters(self) -> np.ndarray:
        """The component of each document in the graph of the duplicates, int64 (n,)."""
        return _number_components(self.duplicate_pairs, self.documents)

    @cached_property
    def groups(self) -> np.ndarray:
        """The group of each document: all labelled pairs connect it, if they connect few."""
        every_pair = np.concatenate([self.duplicate_pairs, self.distinct_pairs])
        groups = _number_components(every_pair, self.documents)
        if np.bincount(groups).max() > LARGEST_SHARE_OF_GROUP * self.documents:
            return self.clusters
        return groups

    @property
    def duplicates(self) -> int:
        """The number of pairs of duplicates."""
        return len(self.duplicate_pairs)

    @cached_property
    def duplicates_of_groups(self) -> np.ndarray:
        """The number of pairs of duplicates of each group, int64 (g,)."""
        groups = self.groups
        of_pairs = groups[self.duplicate_pairs[:, 0]]
        return np.bincount(of_pairs, minlength=int(groups.max()) + 1)

    def factor(self, members: np.ndarray) -> float:
        """Returns by how much distinct pairs of members are extrapolated.

        Distinct pairs can connect members and other documents. Half of each of them is counted, as
        if it were a pair of members, because pairs of duplicates are never divided.
        """
        sides = members[self.distinct_pairs]
        inside = int(np.count_nonzero(sides.all(axis=1)))
        return float(sides.sum()) / 2 / inside if inside else 1.0

    def count_one_source(self, sources: DocumentSources) -> OneSourceCounts:
        """Returns how many labelled pairs are of one source."""
        is_equal = sources.are_equal(self.duplicate_pairs)
        distinct = int(np.count_nonzero(sources.are_equal(self.distinct_pairs)))
        examples = self.duplicate_pairs[is_equal]
        return OneSourceCounts(len(examples), distinct, examples[:1].ravel())

    def score(self, scorer: DocumentScorer, definition: Definition) -> LabelScores:
        """Returns the similarities by a definition."""
        labelled_pairs = np.concatenate([self.duplicate_pairs, self.distinct_pairs])
        similarity = scorer.score_pairs(
            definition, pack_pairs(labelled_pairs[:, 0], labelled_pairs[:, 1])
        )
        split = len(self.duplicate_pairs)
        return _PairScores(self, similarity[:split], similarity[split:])


@dataclass(frozen=True)
class _PairScores:
    """The similarities of labelled pairs."""

    labels: PairLabels
    duplicate_similarity: np.ndarray
    distinct_similarity: np.ndarray

    @property
    def documents(self) -> int:
        return self.labels.documents

    def thresholds(self, step: float) -> np.ndarray:
        return threshold_grid(LEAST_SIMILARITY, step)

    def curve(self, members: np.ndarray, step: float) -> Curve:
        thresholds = self.thresholds(step)
        duplicates = self.duplicate_similarity[members[self.labels.duplicate_pairs].all(axis=1)]
        distinct = self.distinct_similarity[members[self.labels.distinct_pairs].all(axis=1)]
        return Curve(
            thresholds,
            float(len(duplicates)),
            _count_reaching(duplicates, thresholds),
            _count_reaching(distinct, thresholds) * self.labels.factor(members),
        )

    def totals(self, members: np.ndarray, threshold: float) -> LabelledTotals:
        labels = self.labels
        takes_part = members[labels.duplicate_pairs].all(axis=1)
        is_wrong = members[labels.distinct_pairs].all(axis=1)
        is_wrong &= self.distinct_similarity >= threshold
        numbers = np.full(labels.documents, -1)
        _, numbers[members] = np.unique(labels.clusters[members], return_inverse=True)
        places = np.cumsum(members) - 1
        return count_judged_pairs(
            numbers[members],
            places[labels.duplicate_pairs[takes_part]],
            self.duplicate_similarity[takes_part] >= threshold,
            places[labels.distinct_pairs[is_wrong]],
        )

    def held_out_totals(self, judged: np.ndarray, threshold: float) -> LabelledTotals:
        """Returns what is counted of the pairs of the documents of one fold.

        Half of each distinct pair with a document of another fold is counted, so that the sum over
        the folds counts each pair once. Pairs of duplicates are never divided.
        """
        labels = self.labels
        everyone = self.totals(np.ones(labels.documents, bool), threshold)
        is_unit_judged = np.zeros(len(everyone.removed.documents), bool)
        is_unit_judged[labels.clusters[judged]] = True
        removed = Totals._make(column[is_unit_judged] for column in everyone.removed)
        wrong = labels.distinct_pairs[self.distinct_similarity >= threshold]
        total = Totals._make(np.asarray(column.sum()) for column in removed)
        return LabelledTotals(total._replace(wrong=judged[wrong].sum() / 2), removed)

    def held_out_kept(self, judged: np.ndarray, threshold: float) -> KeptCounts | None:
        """Returns None: single pairs do not say which documents are kept."""
        return None

    def mistakes(self, threshold: float) -> Mistakes:
        is_wrong = self.distinct_similarity >= threshold
        is_missed = self.duplicate_similarity < threshold
        return _sort_mistakes(
            self.labels.distinct_pairs[is_wrong],
            self.distinct_similarity[is_wrong],
            self.labels.duplicate_pairs[is_missed],
            self.duplicate_similarity[is_missed],
        )


FitLabels: TypeAlias = ClusterLabels | PairLabels
"""The labels of the documents of a fit."""


def _count_reaching(similarity: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Returns how many similarities reach each threshold, float64 (t,)."""
    below = np.searchsorted(np.sort(similarity), thresholds)
    return (len(similarity) - below).astype(np.float64)


def _number_components(pairs: np.ndarray, documents: int) -> np.ndarray:
    """Returns the number of the connected component of each document, from 0, int64 (n,)."""
    component_of = close_transitively(pairs, documents)
    return np.unique(component_of, return_inverse=True)[1].astype(np.int64)


def _as_rows(scored: ScoredDocuments) -> np.ndarray:
    return np.stack([scored.earlier, scored.later], axis=1).astype(np.int64)


def _sort_mistakes(
    wrong: np.ndarray,
    wrong_similarity: np.ndarray,
    missed: np.ndarray,
    missed_similarity: np.ndarray,
) -> Mistakes:
    """Returns false pairs in descending and missed pairs in ascending order of similarity."""
    by_wrong = np.argsort(-wrong_similarity, kind="stable")
    by_missed = np.argsort(missed_similarity, kind="stable")
    return Mistakes(
        wrong[by_wrong], wrong_similarity[by_wrong], missed[by_missed], missed_similarity[by_missed]
    )


def place_labels(
    golden: GoldenSet, documents: FitDocuments, labelled: Labelled, sampled: LabelledSample
) -> FitLabels:
    """Returns the labels of the documents of a fit."""
    positions = {id: position for position, id in enumerate(golden.ids)}
    numbers = np.array([positions.get(id, -1) for id in documents.ids], np.int64)
    numbers[~documents.is_labelled] = -1
    if golden.clusters is None:
        places = np.full(len(golden.ids) + 1, -1, np.int64)
        places[numbers] = np.arange(len(documents))
        places[-1] = -1
        return PairLabels(
            len(documents),
            _locate_pairs(golden.duplicates, places),
            _locate_pairs(golden.distinct, places),
        )
    true = np.append(golden.clusters, -1)[numbers]
    _, clusters = np.unique(true, return_inverse=True)
    if (true < 0).any():
        clusters = clusters - 1
    population = documents.corpus_documents
    if labelled == Labelled.DOCUMENTS:
        present = len(sampled.chosen) - documents.missing
        population = round(len(golden.ids) * present / len(sampled.chosen))
    sources = documents.sources
    if sources is not None and labelled == Labelled.DOCUMENTS:
        sizes = sources.count_equal(clusters >= 0)
        labelled_documents = int(np.count_nonzero(clusters >= 0))
        sources = sources._replace(sizes=sizes * population / labelled_documents)
    return ClusterLabels(
        clusters.astype(np.int64),
        population,
        sources,
        others_are_distinct=labelled == Labelled.CLUSTERS,
        has_exact_groups=sources is None,
    )


def _locate_pairs(pairs: np.ndarray | None, places: np.ndarray) -> np.ndarray:
    """Returns the pairs of which both documents take part, by their positions, int64 (m, 2)."""
    placed = places[NO_PAIRS if pairs is None else pairs]
    return placed[(placed >= 0).all(axis=1)]
