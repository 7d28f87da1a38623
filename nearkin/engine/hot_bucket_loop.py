"""The rounds over kept documents of hot buckets."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nearkin.engine.candidates import CandidateFinder
from nearkin.engine.hot_buckets import MOST_ROUNDS, SAMPLE_ROUND, SAMPLED_DOCUMENTS
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_files import PairSpool, merge_scored, read_scored
from nearkin.engine.stats import MissingPairsStats
from nearkin.engine.verification import RELATED_PAIRS, SCORED, Scorer, split_pairs
from nearkin.engine.wilson import total_interval
from nearkin.engine.work_folder import SPOOL, WorkFolder
from nearkin.runtime.executor import Executor
from nearkin.runtime.progress import Silent
from nearkin.stages.cluster.election import elect_leaders
from nearkin.stages.packed_pairs import ScoredPairs, isin_sorted, pack_pairs, unpack_pairs


class HotBucketRound(NamedTuple):
    """The outcome of a round of the hot-bucket loop."""

    has_new_pairs: bool
    """True if it added scored pairs."""
    incomplete: int
    """The number of buckets whose documents were not all compared with each other."""


class HotBucketRounds(NamedTuple):
    """The outcome of the hot-bucket loop."""

    kept: list[int]
    """The number of kept documents before each round."""
    incomplete: int
    """The number of buckets that the last round did not compare completely."""


class MissingCounts(NamedTuple):
    """The near-duplicates of some kept documents of hot buckets that were not found."""

    counts: np.ndarray
    """The number of such pairs of each document of a random sample, int64 (s,)."""
    documents: int
    """The number of documents from which the sample was drawn."""

    def estimate(self, *, truncated: int, listed: int) -> MissingPairsStats:
        """Returns the estimate of all missing pairs that follows from the sample."""
        # A pair is counted for each of its documents.
        halves = self.counts / 2
        low, high = total_interval(halves, self.documents)
        return MissingPairsStats.from_estimate(
            truncated=truncated,
            sampled=len(halves),
            pairs=float(halves.mean()) * self.documents,
            low=low,
            high=high,
            listed=listed,
        )


class HotBucketLoop:
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
        self._leader = np.empty(0, np.uint32)

    def select_kept(self) -> int:
        """Selects the documents of hot buckets that no scored pair removes so far."""
        scored = read_scored(self._work.path / SCORED)
        order = np.asarray(self._work.load("order"))
        rank = np.asarray(self._work.load("rank"))
        representative = self._work.load("representative")
        own = np.arange(len(order), dtype=np.uint32)
        self._leader = elect_leaders(scored, order, rank)
        is_kept = (self._leader == own) & (representative == own)
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
        return HotBucketRound(self._add_pairs(spool.sorted()) > 0, incomplete)

    def follow_leaders(self) -> int:
        """Compares the documents of each leader that is removed now with the one that removed it.

        A document that loses its leader is kept, removes others, and is itself removed in the next
        round, whose documents then lose theirs. Returns the number of pairs that are added.
        """
        before = self._leader
        self.select_kept()
        after = self._leader
        own = np.arange(len(after), dtype=np.uint32)
        is_led = self._hot & (before != own) & (after[before] != before)
        documents = np.flatnonzero(is_led & (after != after[before]))
        heirs = after[before[documents]].astype(np.int64)
        is_other = heirs != documents
        first, second = documents[is_other], heirs[is_other]
        pairs = np.unique(pack_pairs(np.minimum(first, second), np.maximum(first, second)))
        allowed = pairs[self._finders[0].scope.allows_packed(pairs)]
        return self._add_pairs(split_pairs(allowed))

    def _add_pairs(self, portions: Iterable[np.ndarray]) -> int:
        """Scores packed pairs, and adds those that reach the threshold. Returns their number."""
        judged = [self._score(pairs) for pairs in portions]
        added = 0
        if self._options.related is not None:
            related = ScoredPairs.concatenate([part.related for part in judged])
            added = merge_scored(self._work.path / RELATED_PAIRS, related)
        duplicates = ScoredPairs.concatenate([part.duplicates for part in judged])
        return added + merge_scored(self._work.path / SCORED, duplicates)

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

    def run(self) -> HotBucketRounds:
        """Adds the pairs of all rounds to the scored pairs."""
        kept: list[int] = []
        outcome = HotBucketRound(has_new_pairs=True, incomplete=0)
        while outcome.has_new_pairs and len(kept) < MOST_ROUNDS:
            kept.append(self.select_kept())
            outcome = self.compare_selected(len(kept))
            if outcome.has_new_pairs:
                self.follow_leaders()
        return HotBucketRounds(kept, outcome.incomplete)
