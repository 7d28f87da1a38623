"""Stage 5: scored pairs to the kept document of each document."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nearkin.cluster.components import components
from nearkin.cluster.election import leaders
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.verification import Estimates, Payloads
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import RunOptions
from nearkin.packed_pairs import ScoredPairs, pack_pairs

KINDS = ("unique", "kept", "exact", "near", "empty", "vector")
"""`vector`: near by the second measure of a run."""
UNIQUE, KEPT, EXACT, NEAR, EMPTY, VECTOR = range(len(KINDS))


COLUMNS = ("leader", "similarity", "kind", "kept")


@dataclass(frozen=True)
class Clustering:
    """One entry for each document, by ordinal.

    Attributes:
        leader: uint32, the kept document's ordinal.
        similarity: float64, to the kept document; NaN for a dropped empty document.
        kind: uint8, an index into KINDS.
        kept: bool.
    """

    leader: np.ndarray
    similarity: np.ndarray
    kind: np.ndarray
    kept: np.ndarray

    def save(self, work: WorkFolder, prefix: str = "") -> None:
        """Into the work folder."""
        for name in COLUMNS:
            work.save(prefix + name, getattr(self, name))

    @classmethod
    def load(cls, work: WorkFolder, prefix: str = "") -> "Clustering":
        """As saved, mapped."""
        return cls(*(work.load(prefix + name) for name in COLUMNS))

    def counts(self) -> dict[str, int]:
        """Documents by kind, kept and removed."""
        by_kind = dict(zip(KINDS, np.bincount(self.kind, minlength=len(KINDS)).tolist(), strict=True))
        kept = int(np.count_nonzero(self.kept))
        return {**by_kind, "documents": len(self.kept), "documents_kept": kept, "documents_removed": len(self.kept) - kept}


@dataclass(frozen=True)
class Grouped:
    """What clustering starts from."""

    order: np.ndarray
    rank: np.ndarray
    representative: np.ndarray
    empty: np.ndarray

    @classmethod
    def of(cls, documents: Documents, work: WorkFolder) -> "Grouped":
        """From the saved stages."""
        return cls(work.load("order"), work.load("rank"), work.load("representative"), documents.empty)


def cluster(scored: ScoredPairs, grouped: Grouped, comparing: Payloads | Estimates, options: RunOptions) -> Clustering:
    """Leaders or components over representatives, then the exact duplicates behind them."""
    if options.cluster == "leaders":
        leader = leaders(scored, np.asarray(grouped.order), np.asarray(grouped.rank))
        similarity = look_up(scored, leader)
    else:
        orders, floor = (np.asarray(grouped.order), np.asarray(grouped.rank)), options.lowest_similarity
        sharing = partial(comparing.sharing_among, floor=floor, memory=options.memory)
        leader = components(scored, *orders, floor, comparing.compare, sharing)
        similarity = compared(leader, comparing.compare)
    return spread(leader, similarity, grouped, options.empty)


def look_up(scored: ScoredPairs, leader: np.ndarray) -> np.ndarray:
    """Similarity of each document to its leader from the sorted scored pairs; 1.0 for a leader itself."""
    similarity = np.ones(len(leader))
    joined = np.flatnonzero(leader != np.arange(len(leader), dtype=np.uint32))
    at = np.searchsorted(scored.pairs, pack_pairs(joined, leader[joined]))
    similarity[joined] = scored.intersection[at] / scored.union[at]
    return similarity


def compared(leader: np.ndarray, compare: Callable[[np.ndarray], ScoredPairs]) -> np.ndarray:
    """The same by comparing each document with its leader."""
    similarity = np.ones(len(leader))
    joined = np.flatnonzero(leader != np.arange(len(leader), dtype=np.uint32))
    similarity[joined] = compare(pack_pairs(joined, leader[joined])).similarity
    return similarity


def spread(leader: np.ndarray, similarity: np.ndarray, grouped: Grouped, empty: str) -> Clustering:
    """Exact duplicates follow their representative, to whatever it was removed for."""
    ordinals = np.arange(len(leader), dtype=np.uint32)
    representative = np.asarray(grouped.representative)
    final, score = leader[representative], similarity[representative]
    kind = np.full(len(leader), UNIQUE, np.uint8)
    kind[final[final != ordinals]] = KEPT
    removed = final != ordinals
    kind[removed] = np.where(final[removed] == representative[removed], EXACT, NEAR)
    kind[grouped.empty] = EMPTY
    kept = ~removed
    if empty == "drop":
        kept &= ~grouped.empty
        score[grouped.empty] = np.nan
    return Clustering(final, score, kind, kept)
