"""Stage 5 of a run: from scored pairs to the kept document of each document."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from nearkin.engine.documents import Documents
from nearkin.engine.leader_similarity import (
    compute_leader_similarities,
    find_leader_similarities,
)
from nearkin.engine.options import RunOptions
from nearkin.engine.reference_matches import ReferenceMatches
from nearkin.engine.removal_limit import NEARLY_AS_CLOSE
from nearkin.engine.result_schema import (
    EMPTY,
    EXACT,
    FURTHER,
    KEPT,
    KINDS,
    NEAR,
    NEW_OUTCOME,
    RELATED_OUTCOME,
    SAME,
    SAME_OUTCOME,
    UNIQUE,
    VECTOR,
)
from nearkin.engine.verification import Estimates, Payloads, documents_in_pairs
from nearkin.engine.work_folder import WorkFolder
from nearkin.runtime.progress import StepCounter
from nearkin.settings.choices import ClusterMethod, EmptyDocuments
from nearkin.stages.cluster.components import cluster_components
from nearkin.stages.cluster.decided_pairs import drop_forbidden_links
from nearkin.stages.cluster.election import NO_PAIRS, elect_leaders
from nearkin.stages.cluster.kept_documents import ClusterCriterion, choose_kept_documents
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, unpack_pairs


@dataclass(frozen=True)
class LinkedDocuments:
    """The documents that resemble one of another cluster, in a run with the option `related`.

    Attributes:
        is_linked: Whether a document is in such a pair, bool (n,).
        pairs: Number of these pairs.
    """

    is_linked: np.ndarray
    pairs: int


@dataclass(frozen=True)
class Clustering:
    """The clusters: an entry for each document, by its number.

    Attributes:
        leader: Number of the kept document, uint32 (n,).
        similarity: Similarity to the kept document, float64 (n,). NaN for a dropped empty document,
            and for a duplicate by value.
        kind: Kind of the document as an index into KINDS, uint8 (n,).
        kept: Whether the document is kept, bool (n,).
        matches: Documents that repeat one of the reference, or None without a reference. Each is
            its own leader.
        linked: Documents that resemble one of another cluster, or None if they were not asked for.
        blocked: Documents that are like an entry of the blocklist, with its name as the id, or None
            without a blocklist. Each is its own leader.
        persistent: Id of each document's cluster that lasts over runs, large_string (n,), or None
            for a run that extends no other one.
    """

    leader: np.ndarray
    similarity: np.ndarray
    kind: np.ndarray
    kept: np.ndarray
    matches: ReferenceMatches | None = None
    linked: LinkedDocuments | None = None
    blocked: ReferenceMatches | None = None
    persistent: pa.Array | None = None

    @property
    def removed_in_run(self) -> np.ndarray:
        """A mask of the documents that were removed as duplicates of one of the run, bool (n,)."""
        is_removed = are_removed(self.kind)
        if self.matches is not None:
            is_removed[self.matches.documents] = False
        return is_removed

    def with_matches(self, matches: ReferenceMatches) -> "Clustering":
        """Returns the clusters after the documents that repeat one of the reference are removed."""
        return replace(self._without(matches), matches=matches)

    def with_blocked(self, blocked: ReferenceMatches) -> "Clustering":
        """Returns the clusters after the documents that are like a blocked entry are removed."""
        return replace(self._without(blocked), blocked=blocked)

    def _without(self, matches: ReferenceMatches) -> "Clustering":
        """Returns the clusters after documents are removed because of others outside the run."""
        similarity = np.array(self.similarity)
        similarity[matches.documents] = matches.similarity
        kind = np.array(self.kind)
        kind[matches.documents] = matches.kind
        kept = np.array(self.kept)
        kept[matches.documents] = False
        leader = np.array(self.leader)
        leader[matches.documents] = matches.documents
        return replace(self, leader=leader, similarity=similarity, kind=kind, kept=kept)

    def save(self, work: WorkFolder, prefix: str = "") -> None:
        """Saves the clusters in a work folder."""
        work.save(f"{prefix}leader", self.leader)
        work.save(f"{prefix}similarity", self.similarity)
        work.save(f"{prefix}kind", self.kind)
        work.save(f"{prefix}kept", self.kept)

    @classmethod
    def load(cls, work: WorkFolder, prefix: str = "") -> "Clustering":
        """Returns saved clusters, mapped from disk."""
        return cls(
            leader=work.load(f"{prefix}leader"),
            similarity=work.load(f"{prefix}similarity"),
            kind=work.load(f"{prefix}kind"),
            kept=work.load(f"{prefix}kept"),
        )

    def counts(self) -> dict[str, int]:
        """Returns the number of documents of each kind, and of kept and removed documents.

        `same_shingles` is the number of near-duplicates whose similarity is 1.
        """
        by_kind = np.bincount(self.kind, minlength=len(KINDS)).tolist()
        kept = int(np.count_nonzero(self.kept))
        has_same_shingles = (np.asarray(self.kind) == NEAR) & (np.asarray(self.similarity) == 1)
        counts = {
            **dict(zip(KINDS, by_kind, strict=True)),
            "documents": len(self.kept),
            "documents_kept": kept,
            "documents_removed": len(self.kept) - kept,
            "same_shingles": int(np.count_nonzero(has_same_shingles)),
        }
        if self.linked is not None:
            is_related = self.outcomes(slice(None)) == RELATED_OUTCOME
            counts["related"] = int(np.count_nonzero(is_related))
            counts["related_pairs"] = self.linked.pairs
        return counts

    def outcomes(self, part: slice) -> np.ndarray:
        """Returns what some documents are as indexes into OUTCOMES, uint8 (m,)."""
        assert self.linked is not None
        kind = np.asarray(self.kind[part])
        outcomes = np.where(self.linked.is_linked[part], RELATED_OUTCOME, NEW_OUTCOME)
        outcomes[are_removed(kind) | (kind == FURTHER)] = SAME_OUTCOME
        return outcomes.astype(np.uint8)


def are_removed(kinds: np.ndarray) -> np.ndarray:
    """Returns which documents were removed as duplicates, bool (n,).

    Args:
        kinds: Kinds of the documents as indexes into KINDS, uint8 (n,).
    """
    return np.isin(kinds, (EXACT, NEAR, VECTOR, SAME))


def keep_further_copies(clustering: Clustering, rank: np.ndarray, most: int) -> Clustering:
    """Returns the clusters with several kept documents each.

    Beside the kept document of a cluster, the next ones in keep order are kept.

    Args:
        rank: Rank of each document in keep order, uint32 (n,).
    """
    leader = np.asarray(clustering.leader)
    members = np.flatnonzero(leader != np.arange(len(leader)))
    members = members[np.lexsort((rank[members], leader[members]))]
    leaders = leader[members]
    is_first = np.ones(len(members), bool)
    is_first[1:] = leaders[1:] != leaders[:-1]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(members)), 0))
    further = members[np.arange(len(members)) - first < most - 1]
    kind = np.array(clustering.kind)
    kind[further] = FURTHER
    kept = np.array(clustering.kept)
    kept[further] = True
    return replace(clustering, kind=kind, kept=kept)


def count_between(scored: ScoredPairs, removed: np.ndarray, clustering: Clustering) -> int:
    """Returns how many documents are about as similar to the kept one of another cluster.

    Args:
        removed: Which documents count, bool (n,).
    """
    leader = np.asarray(clustering.leader)
    is_kept = np.asarray(clustering.kept)
    farthest = NEARLY_AS_CLOSE * (1 - np.asarray(clustering.similarity))
    is_between = np.zeros(len(removed), bool)
    for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
        batch = scored.select(slice(start, start + PAIRS_PER_BATCH))
        first, second = unpack_pairs(batch.pairs)
        distance = 1 - batch.similarity
        are_apart = leader[first] != leader[second]
        for documents, others in ((first, second), (second, first)):
            is_close = are_apart & is_kept[others] & (distance <= farthest[documents])
            is_between[documents[is_close]] = True
    return int(np.count_nonzero(is_between & removed))


@dataclass(frozen=True)
class ExactGroupOrder:
    """The keep order and the exact groups of all documents.

    Attributes:
        order: Numbers of the documents in keep order, uint32 (n,).
        rank: Position of each document in keep order, uint32 (n,).
        representative: First document of each document's exact group, uint32 (n,).
        empty: Whether a document has no shingle, bool (n,).
        fingerprints: Content hash of each document, uint64 (n, 2).
    """

    order: np.ndarray
    rank: np.ndarray
    representative: np.ndarray
    empty: np.ndarray
    fingerprints: np.ndarray

    @classmethod
    def load(cls, documents: Documents, work: WorkFolder) -> "ExactGroupOrder":
        """Returns what the collapse stage saved."""
        return cls(
            order=np.asarray(work.load("order")),
            rank=np.asarray(work.load("rank")),
            representative=np.asarray(work.load("representative")),
            empty=documents.empty,
            fingerprints=documents.fingerprints,
        )

    def ungrouped(self) -> "ExactGroupOrder":
        """Returns the same order with every document in a group of its own."""
        return replace(self, representative=np.arange(len(self.order), dtype=np.uint32))

    def name_kinds(self, documents: np.ndarray, leaders: np.ndarray) -> np.ndarray:
        """Returns the kinds of removed documents, uint8 (m,).

        A document is an exact duplicate of the kept document, or a near-duplicate of it as its
        representative is. It is a duplicate by value if its content is not that of its
        representative.
        """
        follows_by_value = ~self.are_copies(documents, self.representative[documents])
        kinds = np.where(follows_by_value, SAME, NEAR)
        return np.where(self.are_copies(documents, leaders), EXACT, kinds).astype(np.uint8)

    def are_copies(self, documents: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Returns which documents are exact duplicates of others, bool (m,)."""
        is_equal = (self.fingerprints[documents] == self.fingerprints[others]).all(axis=1)
        return np.asarray(is_equal & ~self.empty[documents])

    def exact_representatives(self) -> np.ndarray:
        """Returns the representative of each document with the same content, uint32 (n,).

        A document that is in a group because of an equal value represents itself.
        """
        own = np.arange(len(self.order), dtype=np.uint32)
        return np.where(self.are_copies(own, self.representative), self.representative, own)


def cluster_documents(
    scored: ScoredPairs,
    groups: ExactGroupOrder,
    comparison: Payloads | Estimates,
    options: RunOptions,
    floor: float,
    advance: Callable[[int], None],
    apart: np.ndarray = NO_PAIRS,
) -> Clustering:
    """Clusters the first documents of exact groups, then adds their exact duplicates.

    Args:
        apart: Packed pairs of first documents that are never in one cluster, uint64 (m,).
    """
    counter = StepCounter(advance, len(groups.order), steps=3)
    criterion = options.keep_policy.cluster_criterion
    if options.cluster == ClusterMethod.LEADERS:
        leader = elect_leaders(scored, groups.order, groups.rank, apart)
        if criterion is not None:
            leader = _choose_kept_documents(scored, leader, groups, comparison, criterion)
        counter.finish_step()
        similarity = find_leader_similarities(scored, leader)
    else:
        sharing = partial(comparison.sharing_among, floor=floor, memory=options.memory)
        linked = drop_forbidden_links(scored, groups.rank, apart) if len(apart) else scored
        leader = cluster_components(
            linked, groups.order, groups.rank, floor, comparison.compare, sharing
        )
        if criterion is not None:
            leader = _choose_kept_documents(scored, leader, groups, comparison, criterion)
        counter.finish_step()
        similarity = compute_leader_similarities(leader, comparison.compare)
    counter.finish_step()
    drops_empty = options.empty == EmptyDocuments.DROP
    clustering = _add_exact_duplicates(leader, similarity, groups, drops_empty=drops_empty)
    counter.finish_step()
    return clustering


def _choose_kept_documents(
    scored: ScoredPairs,
    leader: np.ndarray,
    groups: ExactGroupOrder,
    comparison: Payloads | Estimates,
    criterion: ClusterCriterion,
) -> np.ndarray:
    """Returns the kept document of each document, chosen by a criterion of the keep policy."""
    sizes = np.zeros(len(leader), np.int64)
    if criterion == ClusterCriterion.MOST_COMPLETE and isinstance(comparison, Payloads):
        in_pairs = documents_in_pairs(scored.pairs, len(leader))
        sizes[in_pairs] = comparison.count_shingles(in_pairs)
    copies = np.bincount(groups.exact_representatives(), minlength=len(leader))
    return choose_kept_documents(scored, leader, groups.rank, copies, criterion, sizes)


def _add_exact_duplicates(
    leader: np.ndarray, similarity: np.ndarray, groups: ExactGroupOrder, *, drops_empty: bool
) -> Clustering:
    """Gives each exact duplicate the kept document of its representative."""
    ordinals = np.arange(len(leader), dtype=np.uint32)
    representative = groups.representative
    final_leader = leader[representative]
    final_similarity = similarity[representative]
    removed = final_leader != ordinals
    kind = np.full(len(leader), UNIQUE, np.uint8)
    kind[final_leader[removed]] = KEPT
    kind[removed] = groups.name_kinds(np.flatnonzero(removed), final_leader[removed])
    final_similarity[kind == SAME] = np.nan
    kind[groups.empty & (kind == UNIQUE)] = EMPTY
    kept = ~removed
    if drops_empty:
        kept &= ~groups.empty
        final_similarity[groups.empty] = np.nan
    return Clustering(final_leader, final_similarity, kind, kept)
