"""The information that a run lost: the shingles of removed documents that the kept ones lack."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.engine.clustering import Clustering
from nearkin.engine.result_schema import EXACT, NEAR, SAME, VECTOR
from nearkin.engine.run import Run
from nearkin.engine.verification import Payloads
from nearkin.quality.evaluate.labels import most_frequent_labels
from nearkin.quality.evaluate.lost_share import LostShare
from nearkin.stages.measures.compared_sets import compares_sets
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, pack_pairs

REMOVED_KINDS = (EXACT, NEAR, VECTOR, SAME)
MAX_SOURCES = 1000
"""The largest number of sources that are counted separately."""
LISTED_REMOVALS = 20
"""The number of removed documents that are listed because they lost most."""


class LossyRemoval(NamedTuple):
    """A removed document whose shingles the kept one does not all have."""

    kept: int | None
    """The number of the kept document, or None if it is one of a reference."""
    removed: int
    """The number of the removed document."""
    lost: float
    """The share of the removed document's shingles that the kept one lacks."""
    reference_id: str | None = None
    """The id of the kept document if it is one of a reference."""


class LostInformation(NamedTuple):
    """The information that a run lost, in total and by source."""

    total: LostShare
    sources: tuple[LostShare, ...]
    """The sources that lost most shingles first. Empty without a column of sources."""
    unmeasured: int
    """The number of removed documents whose loss is not known."""
    worst: tuple[LossyRemoval, ...]
    """The removals that lost most, the worst first."""


class LostInformationCounter:
    """A counter of the information that removed documents lost, batch by batch."""

    def __init__(self, sources: Sequence[str] = ()) -> None:
        self._sources = sources
        groups = max(1, len(sources))
        self._removed = np.zeros(groups, np.int64)
        self._shares = np.zeros(groups)
        self._largest = np.zeros(groups)
        self._shingles = np.zeros(groups, np.int64)
        self._worst: list[LossyRemoval] = []

    def add(
        self,
        kept: np.ndarray | None,
        removed: np.ndarray,
        shared: np.ndarray,
        sizes: np.ndarray,
        groups: np.ndarray,
        reference_ids: pa.Array | None = None,
    ) -> None:
        """Counts removed documents by the number of their shingles, at least 1, int64 (m,)."""
        missing = sizes - shared.astype(np.int64)
        lost = missing / sizes
        count = len(self._removed)
        self._removed += np.bincount(groups, minlength=count)
        self._shares += np.bincount(groups, lost, minlength=count)
        self._shingles += np.bincount(groups, missing, minlength=count).astype(np.int64)
        np.maximum.at(self._largest, groups, lost)
        if kept is None and reference_ids is None:
            return
        order = np.lexsort((removed, -lost))[:LISTED_REMOVALS]
        order = order[lost[order] > 0]
        self._worst += [
            LossyRemoval(
                kept=None if kept is None else int(kept[row]),
                removed=int(removed[row]),
                lost=float(lost[row]),
                reference_id=None if reference_ids is None else reference_ids[row].as_py(),
            )
            for row in order.tolist()
        ]
        self._worst.sort(key=lambda entry: (-entry.lost, entry.removed))
        del self._worst[LISTED_REMOVALS:]

    def finish(self, unmeasured: int) -> LostInformation:
        """Returns the information that all counted documents lost."""
        removed = int(self._removed.sum())
        mean = float(self._shares.sum()) / removed if removed else 0.0
        worst = float(self._largest.max())
        total = LostShare("", removed, mean, worst, int(self._shingles.sum()))
        sources = [
            LostShare(
                source=name,
                removed=int(self._removed[group]),
                mean=float(self._shares[group] / self._removed[group]),
                worst=float(self._largest[group]),
                shingles=int(self._shingles[group]),
            )
            for group, name in enumerate(self._sources)
            if self._removed[group]
        ]
        sources.sort(key=lambda share: (-share.shingles, share.source))
        return LostInformation(total, tuple(sources), unmeasured, tuple(self._worst))


def measure_lost_information(run: Run, result: Clustering) -> LostInformation | None:
    """Returns the information that a run lost, from the numbers of its verification."""
    compares_texts = compares_sets(run.options.spec.measure) and not run.options.fields
    if not run.is_exact or not compares_texts:
        return None
    names: tuple[str, ...] = ()
    codes = None
    if run.options.source is not None:
        labels = most_frequent_labels(run.documents().carried[run.options.source], MAX_SOURCES)
        names = labels.names
        codes = labels.codes
    counter = LostInformationCounter(names)
    comparison = _LeaderComparison(run)
    is_removed = np.isin(result.kind, REMOVED_KINDS)
    unmeasured = 0
    if result.matches is not None:
        is_removed[result.matches.documents] = False
        measured = result.matches.select(np.flatnonzero(result.matches.sizes))
        unmeasured += len(result.matches) - len(measured)
        counter.add(
            kept=None,
            removed=measured.documents,
            shared=measured.shared,
            sizes=measured.sizes,
            groups=_groups_of(codes, measured.documents),
            # Quoting them takes another pass over texts of the reference.
            reference_ids=None if run.options.acceptance is None else measured.ids,
        )
    removed = np.flatnonzero(is_removed)
    for start in range(0, len(removed), PAIRS_PER_BATCH):
        batch = removed[start : start + PAIRS_PER_BATCH]
        kept = np.asarray(result.leader[batch]).astype(np.int64)
        # A document that is like a blocked one has no kept document in the run.
        is_measured = np.asarray(result.kept)[kept] & comparison.can_compare(batch, kept)
        is_measured &= np.asarray(result.kind[batch]) != VECTOR
        unmeasured += int(np.count_nonzero(~is_measured))
        batch = batch[is_measured]
        kept = kept[is_measured]
        shared, sizes = comparison.count_shared(batch, kept)
        counter.add(kept, batch, shared, sizes, _groups_of(codes, batch))
    return counter.finish(unmeasured)


def _groups_of(codes: np.ndarray | None, documents: np.ndarray) -> np.ndarray:
    """Returns the position of the source of some documents, int64 (m,); 0 without sources."""
    if codes is None:
        return np.zeros(len(documents), np.int64)
    return codes[documents].astype(np.int64)


class _LeaderComparison:
    """The shingles that removed documents share with the kept ones."""

    def __init__(self, run: Run) -> None:
        self._scored = run.scored()
        self._representative = np.asarray(run.work.load("representative")).astype(np.int64)
        self._fingerprints = run.documents().fingerprints
        self._payloads = Payloads.load(run.measure, run.work)

    def can_compare(self, removed: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Returns for which removed documents the run has what a comparison needs, bool (m,).

        A document that a second measure or an equal value removed was not compared by its shingles.
        """
        first = self._representative[removed]
        second = self._representative[kept]
        is_comparable = self._are_copies(removed, first) & self._are_copies(kept, second)
        is_comparable &= self._payloads.contains(first) & self._payloads.contains(second)
        return np.asarray(self._are_copies(removed, kept) | is_comparable)

    def count_shared(self, removed: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of shared and of all shingles of removed documents, int64 (m,) each.

        One shingle is counted of an exact duplicate.
        """
        shared = np.ones(len(removed), np.int64)
        sizes = np.ones(len(removed), np.int64)
        near = np.flatnonzero(~self._are_copies(removed, kept))
        if len(near):
            first = self._representative[removed]
            second = self._representative[kept]
            shared[near] = self._intersections(pack_pairs(first[near], second[near]))
            sizes[near] = self._payloads.count_shingles(first[near])
        return shared, sizes

    def _are_copies(self, documents: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Returns which documents are exact duplicates of others, bool (m,)."""
        equal = np.asarray(self._fingerprints[documents] == self._fingerprints[others])
        return np.asarray(equal.all(axis=1))

    def _intersections(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the numbers of shared shingles of packed pairs, int64 (m,).

        Clusters of leaders consist of scored pairs. Others are compared again.
        """
        scored: ScoredPairs = self._scored
        if not len(scored.pairs):
            return self._payloads.compare(pairs).intersection
        places = np.minimum(np.searchsorted(scored.pairs, pairs), len(scored.pairs) - 1)
        intersections = np.asarray(scored.intersection[places]).astype(np.int64)
        is_unscored = np.asarray(scored.pairs[places] != pairs)
        if is_unscored.any():
            intersections[is_unscored] = self._payloads.compare(pairs[is_unscored]).intersection
        return intersections
