"""The rounds over kept documents of hot buckets, in the local engine."""

from collections.abc import Sequence

import numpy as np

from nearkin.engine.hot_buckets import (
    SAMPLE_ROUND,
    SAMPLED_DOCUMENTS,
    HotBucketLoop,
    HotBucketRound,
    MissingCounts,
)
from nearkin.engine.local.candidates import CandidateFinder
from nearkin.engine.local.pair_files import PairSpool, merge_scored, read_scored
from nearkin.engine.local.verification import RELATED_PAIRS, SCORED, Scorer, split_pairs
from nearkin.engine.local.work_folder import SPOOL, WorkFolder
from nearkin.engine.options import RunOptions
from nearkin.runtime.executor import Executor
from nearkin.runtime.progress import Silent
from nearkin.stages.cluster.election import elect_leaders
from nearkin.stages.packed_pairs import ScoredPairs, isin_sorted, unpack_pairs


class LocalHotBucketLoop(HotBucketLoop):
    """The rounds over scored pairs in a work folder.

    Args:
        hot: Which documents were in a hot bucket, bool (n,).
    """

    def __init__(
        self,
        finders: Sequence[CandidateFinder],
        work: WorkFolder,
        hot: np.ndarray,
        score: Scorer,
        options: RunOptions,
        pairs_in_memory: int,
        executor: Executor,
    ) -> None:
        self._finders = finders
        self._work = work
        self._hot = hot
        self._score = score
        self._options = options
        self._pairs_in_memory = pairs_in_memory
        self._executor = executor
        self._selected = hot

    def select_kept(self) -> int:
        """Selects the documents of hot buckets that no scored pair removes so far."""
        scored = read_scored(self._work.path / SCORED)
        order = np.asarray(self._work.load("order"))
        rank = np.asarray(self._work.load("rank"))
        representative = self._work.load("representative")
        own = np.arange(len(order), dtype=np.uint32)
        is_kept = (elect_leaders(scored, order, rank) == own) & (representative == own)
        self._selected = np.asarray(is_kept & self._hot)
        return int(np.count_nonzero(self._selected))

    def compare_selected(self, round_number: int) -> HotBucketRound:
        """Bands the selected documents again, and adds the pairs that reach the threshold."""
        documents = len(self._selected)
        spool = PairSpool(self._work.folder(SPOOL), documents, self._pairs_in_memory)
        incomplete = 0
        for finder in self._finders:
            search = finder.among(self._selected & finder.active, round_number)
            incomplete += search.find_pairs(self._executor, spool, Silent()).incomplete
        judged = [self._score(pairs) for pairs in spool.sorted()]
        added = 0
        if self._options.related is not None:
            related = ScoredPairs.concatenate([part.related for part in judged])
            added = merge_scored(self._work.path / RELATED_PAIRS, related)
        duplicates = ScoredPairs.concatenate([part.duplicates for part in judged])
        added += merge_scored(self._work.path / SCORED, duplicates)
        return HotBucketRound(added > 0, incomplete)

    def count_missing(self) -> MissingCounts:
        """Counts the pairs of a sample of the kept documents that no round found."""
        self.select_kept()
        first = self._finders[0].among(self._selected & self._finders[0].active, SAMPLE_ROUND)
        documents = np.flatnonzero(first.active).astype(np.uint64)
        sample = documents[first.order(documents)[:SAMPLED_DOCUMENTS]]
        sampled = np.zeros(len(self._selected), bool)
        sampled[sample] = True
        spool = PairSpool(self._work.folder(SPOOL), len(sampled), self._pairs_in_memory)
        for finder in self._finders:
            search = finder.among(self._selected & finder.active, SAMPLE_ROUND)
            search.find_pairs_with(sampled, self._executor, spool)
        counts = np.zeros(len(sampled), np.int64)
        scored = read_scored(self._work.path / SCORED).pairs
        for pairs in spool.sorted():
            for portion in split_pairs(pairs):
                similar = self._score(portion).duplicates.pairs
                for ends in unpack_pairs(similar[~isin_sorted(similar, scored)]):
                    counts += np.bincount(ends, minlength=len(counts))
        return MissingCounts(counts[sample], len(documents))
