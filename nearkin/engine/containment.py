"""Documents that are contained in larger documents.

A search by shingle hashes finds candidate pairs, which are compared exactly. It does not look up
hashes that more documents have than the pair budget allows. The pairs that are missing for this
reason are estimated: all hashes are looked up for some of the documents that have such a hash,
drawn at random.

A condition on a pair takes the place of the threshold, with the contained document as the one that
would be removed.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.engine.containment_search import (
    NO_HASHES,
    ContainmentSearch,
    SmallestHashes,
    count_inside,
)
from nearkin.engine.pair_files import PairSpool, write_pairs
from nearkin.engine.run import Run
from nearkin.engine.stats import ContainmentStats, MissingPairsStats, Stage
from nearkin.engine.verification import Payloads, documents_in_pairs, split_pairs
from nearkin.engine.wilson import total_interval
from nearkin.engine.work_folder import map_file
from nearkin.errors import UsageError
from nearkin.runtime.threads import ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.packed_pairs import (
    isin_sorted,
    meets_threshold,
    pack_pairs,
    unpack_pairs,
)

CANDIDATES = "contained-candidates"
"""File of the candidate pairs: (a << 32) | b, for a document a that b may contain."""
MISSING_CANDIDATES = "missing-candidates"
"""File of the candidate pairs from which the missing pairs are counted."""
CONTAINED_FOLDER = "contained"
"""Folder of the verified pairs."""
SAMPLED_DOCUMENTS = 256
"""Number of documents whose missing pairs are counted."""
SEED = 0x6D697373696E67
"""The seed of the sample."""
FIELDS = {"a": np.int64, "b": np.int64, "shared": np.int64, "size": np.int64, "union": np.int64}


class Contained(NamedTuple):
    """The verified pairs, ordered by (a, b). Document a is contained in document b."""

    a: np.ndarray
    """The numbers of the contained documents, int64 (m,)."""
    b: np.ndarray
    """The numbers of the documents that contain them, int64 (m,). They are not smaller."""
    shared: np.ndarray
    """The sizes |A ∩ B|, int64 (m,)."""
    size: np.ndarray
    """The sizes |A|, int64 (m,)."""
    union: np.ndarray
    """The sizes |A ∪ B|, int64 (m,)."""

    @property
    def containment(self) -> np.ndarray:
        """The containments |A ∩ B| / |A|, float64 (m,)."""
        return np.asarray(self.shared / self.size)

    @property
    def jaccard(self) -> np.ndarray:
        """The Jaccard similarities |A ∩ B| / |A ∪ B|, float64 (m,)."""
        return np.asarray(self.shared / self.union)


def require_containable(spec: Spec) -> None:
    """Checks that a Spec describes sets of shingles."""
    if spec.measure != "jaccard":
        raise UsageError(
            f"relation containment compares shingle sets: measure jaccard, not {spec.measure}"
        )


def find_contained(run: Run) -> Contained:
    """Returns the contained documents of a run, and records them in its work folder.

    Only the first document of each exact group is compared.
    """
    require_containable(run.options.spec)
    if run.work.done(Stage.CONTAINMENT) is None:
        with run.work.stage(Stage.CONTAINMENT) as record:
            record.update(_ContainmentRun.prepare(run).search().to_dict())
    return _read_contained(run)


def estimate_missing_contained(run: Run) -> MissingPairsStats | None:
    """Estimates the missing pairs of a search for contained documents, and records the estimate."""
    if not ContainmentStats.from_dict(run.recorded(Stage.CONTAINMENT)).hot_shingles:
        return None
    recorded = run.work.done(Stage.MISSING_PAIRS)
    if recorded is not None:
        return MissingPairsStats.from_dict(recorded)
    with run.work.stage(Stage.MISSING_PAIRS) as record:
        stats = _ContainmentRun.prepare(run).estimate_missing()
        record.update(stats.to_dict())
    return stats


def _read_contained(run: Run) -> Contained:
    folder = run.work.path / CONTAINED_FOLDER
    return Contained._make(map_file(folder / name, dtype) for name, dtype in FIELDS.items())


@dataclass(frozen=True)
class _ContainmentRun:
    """The search for contained documents in a run.

    Attributes:
        local_run: Run, after the stage collapse.
        lookup: Search for candidate pairs among its documents.
    """

    local_run: Run
    lookup: ContainmentSearch

    @classmethod
    def prepare(cls, run: Run) -> "_ContainmentRun":
        """Reads the smallest hashes of the documents of a run."""
        lookup = ContainmentSearch.prepare(
            run.payload_source,
            run.options,
            run.options.contained_threshold,
            run.progress,
            run.active(),
            run.pair_scope,
            run.work.path / "smallest-hashes",
        )
        return cls(run, lookup)

    @property
    def smallest(self) -> SmallestHashes:
        """The smallest hashes of the documents."""
        return self.lookup.smallest

    def search(self) -> ContainmentStats:
        """Writes the contained documents, and returns the statistics of the search."""
        run = self.local_run
        spool = PairSpool(run.work.folder("spool"), len(self.smallest.sizes), run.pairs_in_memory)
        for pairs in self.lookup.find_pairs():
            spool.add(pairs)
        candidates = write_pairs(run.work.path / CANDIDATES, spool)
        pair_count = self._verify(candidates)
        return ContainmentStats(
            candidates=len(candidates), pairs=pair_count, hot_shingles=len(self.smallest.crowded)
        )

    def estimate_missing(self) -> MissingPairsStats:
        """Returns an estimate of the pairs that are missing, because hashes were not looked up."""
        run = self.local_run
        affected = np.flatnonzero(count_inside(self.smallest, self.smallest.crowded))
        drawn = np.random.default_rng(SEED).permutation(affected)[:SAMPLED_DOCUMENTS]
        counts = self._count_missing(np.sort(drawn))[drawn]
        low, high = total_interval(counts, len(affected))
        return MissingPairsStats.from_estimate(
            truncated=len(self.smallest.crowded),
            sampled=len(drawn),
            pairs=float(counts.mean()) * len(affected),
            low=low,
            high=high,
            listed=len(_read_contained(run).a),
        )

    def _count_missing(self, rows: np.ndarray) -> np.ndarray:
        """Returns the number of missing pairs of some documents, int64 (active,); 0 for others.

        Args:
            rows: Positions of the documents among the active ones, int64 (s,), ascending.
        """
        run = self.local_run
        documents = len(self.smallest.sizes)
        known = map_file(run.work.path / CANDIDATES, np.uint64)
        spool = PairSpool(run.work.folder("missing-spool"), documents, run.pairs_in_memory)
        for pairs in self.lookup.look_up(rows, NO_HASHES):
            spool.add(pairs[~isin_sorted(pairs, known)])
        candidates = write_pairs(run.work.path / MISSING_CANDIDATES, spool)
        score = self._scorer(run.build_payloads(documents_in_pairs(candidates, documents)))
        counts = np.zeros(len(self.smallest.active), np.int64)
        for portion in split_pairs(candidates):
            contained = score(portion).a
            positions = np.searchsorted(self.smallest.active, contained)
            counts += np.bincount(positions, minlength=len(counts))
        return counts

    def _verify(self, candidates: np.ndarray) -> int:
        """Writes the candidate pairs of contained documents, and returns their number.

        Args:
            candidates: Packed pairs, sorted, uint64 (m,).
        """
        run = self.local_run
        documents = documents_in_pairs(candidates, len(self.smallest.sizes))
        score = self._scorer(run.build_payloads(documents))
        folder = run.work.folder(CONTAINED_FOLDER)
        count = 0
        with ExitStack() as stack:
            files = [stack.enter_context((folder / name).open("wb")) for name in FIELDS]
            for contained in ordered_map(score, split_pairs(candidates), run.options.workers):
                count += len(contained.a)
                for file, column, dtype in zip(files, contained, FIELDS.values(), strict=True):
                    file.write(np.ascontiguousarray(column, dtype).data)
        return count

    def _scorer(self, payloads: Payloads) -> Callable[[np.ndarray], Contained]:
        """Returns what selects the packed pairs, (a << 32) | b, of which a is contained in b."""
        sizes = self.smallest.sizes
        options = self.local_run.options
        acceptance = None
        if options.acceptance is not None:
            rank = _rank_by_size(sizes)
            acceptance = self.local_run.create_pair_acceptance(options.acceptance, rank)

        def score(pairs: np.ndarray) -> Contained:
            a, b = unpack_pairs(pairs)
            scored = payloads.compare(pack_pairs(a, b))
            is_enough = meets_threshold(scored.intersection, sizes[a], options.contained_threshold)
            rows = np.flatnonzero(is_enough)
            if acceptance is not None:
                rows = rows[acceptance.find_accepted(scored.select(rows))]
            enough = scored.select(rows)
            return Contained(
                a=a[rows],
                b=b[rows],
                shared=enough.intersection.astype(np.int64),
                size=sizes[a[rows]],
                union=enough.union.astype(np.int64),
            )

        return score


def _rank_by_size(sizes: np.ndarray) -> np.ndarray:
    """Returns the position of each document in the order of decreasing size, int64 (n,).

    Of two documents of one size, the one with the larger number comes first, as the search takes it
    for the containing one.

    Args:
        sizes: Number of shingles of each document, int64 (n,).
    """
    numbers = np.arange(len(sizes))
    rank = np.empty(len(sizes), np.int64)
    rank[np.lexsort((-numbers, -sizes))] = numbers
    return rank
