"""What hot buckets leave over: kept documents that met only leaders which were not similar enough, or were removed themselves.

A bucket that was clustered inside itself compares a member with few leaders. Those that stay kept are fewer by far, so they are
banded again among themselves, in rounds, until nothing changes; in the end every bucket of kept ones is small or has as many
leaders as may be compared. The outcome depends on the documents alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearkin.cluster.election import leaders
from nearkin.engine.local.candidates import Banded, CandidateFinder
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.pair_files import PairSpool, merge_scored, read_scored
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import RunOptions
from nearkin.packed_pairs import ScoredPairs
from nearkin.runtime.progress import Silent

MOST_ROUNDS = 12


@dataclass(frozen=True)
class HotBuckets:
    """A run's state after its first verification.

    Attributes:
        documents: What the sketch stage left.
        work: Band keys, orders and scored pairs are here.
        options: The request.
        banded: How signatures are banded.
        hot: bool (n,): documents that were in a hot bucket.
        score: Packed pairs to those that count, scored.
        limit: Pairs kept in memory.
    """

    documents: Documents
    work: WorkFolder
    options: RunOptions
    banded: Banded
    hot: np.ndarray
    score: Callable[[np.ndarray], ScoredPairs]
    limit: int

    def thin(self) -> list[int]:
        """Adds the pairs of the rounds to the scored ones; returns how many hot documents were kept before each round."""
        kept: list[int] = []
        while self.hot.any() and len(kept) < MOST_ROUNDS:
            active = self._kept() & self.hot
            kept.append(int(np.count_nonzero(active)))
            if (len(kept) > 1 and kept[-1] == kept[-2]) or not self._round(active):
                break
        return kept

    def _kept(self) -> np.ndarray:
        scored = read_scored(self.work.path / "scored")
        order, rank = np.asarray(self.work.load("order")), np.asarray(self.work.load("rank"))
        representative = self.work.load("representative")
        own = np.arange(len(order), dtype=np.uint32)
        return np.asarray((leaders(scored, order, rank) == own) & (representative == own))

    def _round(self, active: np.ndarray) -> bool:
        """Whether new pairs were found among the active documents."""
        spool = PairSpool(self.work.folder("spool"), len(self.documents), self.limit)
        CandidateFinder(self.documents, self.work, self.options, active, self.banded).run(spool, Silent())
        fresh = [self.score(pairs) for pairs in spool.sorted()]
        return merge_scored(self.work.path / "scored", ScoredPairs.concatenate(fresh)) > 0
