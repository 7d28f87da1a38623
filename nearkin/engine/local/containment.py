"""Documents that are contained in larger documents.

The smallest shingle hashes of each document are looked up among all shingles of the others. If a
share c of document A's shingles is in B, each of A's m smallest shingle hashes is in B with
probability c, however large B is. So the number of A's hits in B is binomial, and a margin at the
quantile of the recall decides which pairs are compared exactly. MinHash cannot be used here,
because the Jaccard similarity approaches 0 as B grows.

A hash that more documents have than the pair budget allows is not looked up. The pairs that are
missing for this reason are estimated: all hashes are looked up for some of the documents that have
such a hash, drawn at random.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.engine.local.pair_files import PairSpool, write_pairs
from nearkin.engine.local.payload_batches import PayloadBatch
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.verification import Payloads, documents_in_pairs, split_pairs
from nearkin.engine.local.work_folder import map_file
from nearkin.engine.options import RunOptions
from nearkin.engine.stats import ContainmentStats, MissingPairsStats, Stage
from nearkin.engine.wilson import NORMAL_QUANTILE, wilson_interval
from nearkin.errors import UsageError
from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.lsh.band_keys import SourceBuckets
from nearkin.lsh.solve import MAX_PASS_RATE, largest_margin
from nearkin.measures.base import row_starts
from nearkin.packed_pairs import (
    isin_sorted,
    meets_threshold,
    pack_pairs,
    sorted_unique,
    unpack_pairs,
)
from nearkin.pair_scope import PairScope
from nearkin.runtime.threads import ordered_map
from nearkin.spec import Spec
from nearkin.verify import kernels

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
ROWS_AT_ONCE = 1 << 15
"""Number of documents whose smallest hashes are read at a time."""
NO_HASHES = np.empty(0, np.uint64)
SMALLEST = 64
"""Number of hashes of a document that are looked up (m)."""
BYTES_PER_HASH = 64
"""Anonymous memory of a hash while it is looked up, in bytes."""
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
    """Checks that a Spec describes sets of shingles.

    Raises:
        UsageError: If the Spec has another measure.
    """
    if spec.measure != "jaccard":
        raise UsageError(
            f"relation containment compares shingle sets: measure jaccard, not {spec.measure}"
        )


def find_contained(run: LocalRun) -> Contained:
    """Returns the contained documents of a run, and records them in its work folder.

    Only the first document of each exact group is compared.

    Args:
        run: Run, after the stage collapse.

    Raises:
        UsageError: If the Spec has another measure than jaccard.
    """
    require_containable(run.options.spec)
    if run.work.done(Stage.CONTAINMENT) is None:
        with run.work.stage(Stage.CONTAINMENT) as record:
            record.update(_ContainmentSearch.prepare(run).search().to_dict())
    return _read_contained(run)


def estimate_missing_contained(run: LocalRun) -> MissingPairsStats | None:
    """Estimates the missing pairs of a search for contained documents, and records the estimate.

    Args:
        run: Run, after `find_contained`.

    Returns:
        The estimate, or None if no hash exceeds the pair budget.
    """
    if not ContainmentStats.from_dict(run.recorded(Stage.CONTAINMENT)).hot_shingles:
        return None
    recorded = run.work.done(Stage.MISSING_PAIRS)
    if recorded is not None:
        return MissingPairsStats.from_dict(recorded)
    with run.work.stage(Stage.MISSING_PAIRS) as record:
        stats = _ContainmentSearch.prepare(run).estimate_missing()
        record.update(stats.to_dict())
    return stats


def _read_contained(run: LocalRun) -> Contained:
    folder = run.work.path / CONTAINED_FOLDER
    return Contained._make(map_file(folder / name, dtype) for name, dtype in FIELDS.items())


class _SmallestHashes(NamedTuple):
    """The smallest shingle hashes of the documents that are compared."""

    active: np.ndarray
    """The numbers of these documents, int64 (a,)."""
    sizes: np.ndarray
    """The number of shingles of each document of the corpus, int64 (n,)."""
    hashes: np.ndarray
    """The smallest hashes, filled up with all ones, uint64 (a, SMALLEST), mapped from disk."""
    crowded: np.ndarray
    """The hashes that are among the smallest of too many documents, sorted, uint64 (c,)."""


@dataclass(frozen=True)
class _ContainmentSearch:
    """The search for contained documents.

    Attributes:
        local_run: Run, after the stage collapse.
        smallest: Smallest hashes of its documents.
        is_active: Which documents are compared, bool (n,).
        scope: Pairs that are compared.
    """

    local_run: LocalRun
    smallest: _SmallestHashes
    is_active: np.ndarray
    scope: PairScope

    @classmethod
    def prepare(cls, run: LocalRun) -> "_ContainmentSearch":
        """Reads the smallest hashes of the documents of a run."""
        is_active = run.active()
        smallest = _read_smallest_hashes(run, np.flatnonzero(is_active))
        return cls(run, smallest, is_active, run.pair_scope)

    def search(self) -> ContainmentStats:
        """Writes the contained documents, and returns the statistics of the search."""
        run = self.local_run
        spool = PairSpool(run.work.folder("spool"), len(self.smallest.sizes), run.pairs_in_memory)
        rows = np.arange(len(self.smallest.active))
        for portion in np.array_split(rows, max(1, -(-len(rows) // self._documents_at_once))):
            for pairs in self._look_up(portion, self.smallest.crowded):
                spool.add(pairs)
        candidates = write_pairs(run.work.path / CANDIDATES, spool)
        pair_count = self._verify(candidates)
        return ContainmentStats(
            candidates=len(candidates), pairs=pair_count, hot_shingles=len(self.smallest.crowded)
        )

    @property
    def _documents_at_once(self) -> int:
        return max(1, self.local_run.options.memory // 3 // BYTES_PER_HASH // SMALLEST)

    def estimate_missing(self) -> MissingPairsStats:
        """Returns an estimate of the pairs that are missing, because hashes were not looked up."""
        run = self.local_run
        affected = np.flatnonzero(_count_inside(self.smallest, self.smallest.crowded))
        drawn = np.random.default_rng(SEED).permutation(affected)[:SAMPLED_DOCUMENTS]
        counts = self._count_missing(np.sort(drawn))[drawn]
        low, high = _total_interval(counts, len(affected))
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
        for pairs in self._look_up(rows, NO_HASHES):
            spool.add(pairs[~isin_sorted(pairs, known)])
        candidates = write_pairs(run.work.path / MISSING_CANDIDATES, spool)
        payloads = run.build_payloads(documents_in_pairs(candidates, documents))
        counts = np.zeros(len(self.smallest.active), np.int64)
        for portion in split_pairs(candidates):
            contained = self._score(payloads, portion).a
            positions = np.searchsorted(self.smallest.active, contained)
            counts += np.bincount(positions, minlength=len(counts))
        return counts

    def _look_up(self, rows: np.ndarray, crowded: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the candidate pairs of some documents with all, packed: (a << 32) | b.

        Args:
            rows: Positions of the documents among the active ones, int64 (s,), ascending.
            crowded: Hashes that are not looked up, sorted, uint64.
        """
        run = self.local_run
        sizes = self.smallest.sizes
        searched = self.smallest.active[rows]
        looked_up = np.minimum(sizes[searched], SMALLEST)
        positions = np.repeat(np.arange(len(searched)), looked_up)
        hashes = self.smallest.hashes[rows][np.arange(SMALLEST) < looked_up[:, None]]
        order = np.argsort(hashes, kind="stable")
        keys = sorted_unique(hashes)
        prefixes = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)
        posted = positions[order]
        is_crowded = isin_sorted(keys, crowded)
        skipped = np.bincount(
            posted[np.repeat(is_crowded, np.diff(firsts))], minlength=len(searched)
        )
        margins = self._margins(looked_up - skipped)
        run.progress.stage("look up", len(sizes))

        def find_pairs(batch: PayloadBatch) -> tuple[np.ndarray, int]:
            a, b = kernels.contained_pairs(
                batch.first,
                batch.payload.columns[0],
                row_starts(batch.payload),
                self.is_active,
                keys,
                prefixes.first,
                prefixes.shift,
                firsts,
                posted,
                is_crowded,
                searched,
                margins,
                sizes,
                self.scope,
            )
            return (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64), batch.documents

        for pairs, documents in run.payload_source().map_batches(find_pairs):
            yield pairs
            run.progress.advance(documents)

    def _margins(self, looked_up: np.ndarray) -> np.ndarray:
        """Returns the number of hits that a candidate pair needs, int64, by the looked-up hashes.

        It cannot be reached by a document of which no hash is looked up.
        """
        options = self.local_run.options
        pass_rate = min(options.recall, MAX_PASS_RATE)
        margin_of = [
            largest_margin(hashes, options.threshold, pass_rate) for hashes in range(SMALLEST + 1)
        ]
        margin_of[0] = SMALLEST + 1
        return np.maximum(np.array(margin_of, np.int64)[looked_up], 1)

    def _verify(self, candidates: np.ndarray) -> int:
        """Writes the candidate pairs that reach the threshold, and returns their number.

        Args:
            candidates: Packed pairs, sorted, uint64 (m,).
        """
        run = self.local_run
        payloads = run.build_payloads(documents_in_pairs(candidates, len(self.smallest.sizes)))

        def score(pairs: np.ndarray) -> Contained:
            return self._score(payloads, pairs)

        folder = run.work.folder(CONTAINED_FOLDER)
        count = 0
        with ExitStack() as stack:
            files = [stack.enter_context((folder / name).open("wb")) for name in FIELDS]
            for contained in ordered_map(score, split_pairs(candidates), run.options.workers):
                count += len(contained.a)
                for file, column, dtype in zip(files, contained, FIELDS.values(), strict=True):
                    file.write(np.ascontiguousarray(column, dtype).data)
        return count

    def _score(self, payloads: Payloads, pairs: np.ndarray) -> Contained:
        """Returns the pairs that reach the threshold.

        Args:
            payloads: Shingle sets of the documents.
            pairs: Packed pairs, uint64 (m,): (a << 32) | b.
        """
        a, b = unpack_pairs(pairs)
        scored = payloads.compare(pack_pairs(a, b))
        size = self.smallest.sizes[a]
        is_enough = meets_threshold(scored.intersection, size, self.local_run.options.threshold)
        enough = scored.select(is_enough)
        return Contained(
            a=a[is_enough],
            b=b[is_enough],
            shared=enough.intersection.astype(np.int64),
            size=size[is_enough],
            union=enough.union.astype(np.int64),
        )


def _read_smallest_hashes(run: LocalRun, active: np.ndarray) -> _SmallestHashes:
    """Reads the sizes and the smallest hashes of the documents of a corpus.

    Args:
        run: Run, after the stage collapse.
        active: Numbers of the documents that are compared, int64 (a,).
    """
    sizes = np.zeros(len(run.documents()), np.int64)
    path = run.work.path / "smallest-hashes"
    path.write_bytes(b"")
    with path.open("r+b") as file:
        file.truncate(8 * SMALLEST * len(active))
    smallest = np.empty((0, SMALLEST), np.uint64)
    if len(active):
        smallest = np.memmap(path, np.uint64, "r+", shape=(len(active), SMALLEST))
    run.progress.stage("smallest hashes", len(sizes))
    for batch in run.payload_source().map_batches(lambda batch: batch):
        payload = batch.payload
        last = batch.first + batch.documents
        sizes[batch.first : last] = payload.sizes
        low, high = np.searchsorted(active, [batch.first, last])
        rows = np.full((high - low, SMALLEST), np.uint64(2**64 - 1))
        kernels.smallest_hashes(
            payload.columns[0], row_starts(payload), active[low:high] - batch.first, rows
        )
        smallest[low:high] = rows
        run.progress.advance(batch.documents)
    hashes = _SmallestHashes(active, sizes, smallest, NO_HASHES)
    return hashes._replace(crowded=_find_crowded(hashes, run.options, run.pair_scope.sources))


def _find_crowded(
    smallest: _SmallestHashes, options: RunOptions, sources: np.ndarray
) -> np.ndarray:
    """Returns the hashes that are among the smallest of too many documents, sorted, uint64.

    Ranges of hashes are counted one after the other, so that each of them fits into memory.

    Args:
        smallest: Smallest hashes of the documents.
        options: Options of the run.
        sources: Source of each document of the corpus, uint64 (n,), or an empty array. Pairs of
            documents of one source do not count.
    """
    parts = [NO_HASHES]
    in_memory = max(1, options.memory // 3 // BYTES_PER_HASH)
    range_bits = max(0, (smallest.hashes.size - 1) // in_memory).bit_length()
    for number in range(1 << range_bits):
        values = [NO_HASHES]
        owners = [np.empty(0, np.int64)]
        for rows, hashes in _iterate_hashes(smallest):
            ranges = hashes >> np.uint64(64 - range_bits) if range_bits else np.zeros_like(hashes)
            values.append(hashes[ranges == number])
            if len(sources):
                owners.append(smallest.active[rows[ranges == number]])
        ordered = np.concatenate(values)
        order = np.argsort(ordered, kind="stable")
        ordered = ordered[order]
        distinct, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
        if len(sources):
            documents = np.concatenate(owners)[order].astype(np.uint64)
            ends = starts + counts
            counts = SourceBuckets.order(documents, starts, ends, sources).sizes
        parts.append(distinct[counts > options.complete_bucket_size])
    return np.concatenate(parts)


def _iterate_hashes(smallest: _SmallestHashes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the smallest hashes in portions, each with the positions of their documents."""
    for start in range(0, len(smallest.active), ROWS_AT_ONCE):
        hashes = np.asarray(smallest.hashes[start : start + ROWS_AT_ONCE])
        counts = np.minimum(smallest.sizes[smallest.active[start : start + ROWS_AT_ONCE]], SMALLEST)
        rows = start + np.repeat(np.arange(len(hashes)), counts)
        yield rows, hashes[np.arange(SMALLEST) < counts[:, None]]


def _count_inside(smallest: _SmallestHashes, values: np.ndarray) -> np.ndarray:
    """Returns for each active document how many of its smallest hashes are in a sorted array."""
    counts = np.zeros(len(smallest.active), np.int64)
    for rows, hashes in _iterate_hashes(smallest):
        counts += np.bincount(rows[isin_sorted(hashes, values)], minlength=len(counts))
    return counts


def _total_interval(counts: np.ndarray, documents: int) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of a total, from a sample of its parts.

    It is the normal interval of a sample without replacement. Its upper end is raised to that of
    the share of the documents with a count above 0 (Wilson), because a sample of zeros has no
    variance.

    Args:
        counts: Counts of the sampled documents, int64 (s,).
        documents: Number of documents from which they were drawn.
    """
    sampled = len(counts)
    total = float(counts.mean()) * documents
    if sampled == documents:
        return total, total
    correction = math.sqrt(1 - sampled / documents)
    deviation = float(counts.std(ddof=1)) / math.sqrt(sampled) * correction
    half = NORMAL_QUANTILE * deviation * documents
    positive = counts[counts > 0]
    share_high = wilson_interval(len(positive) / sampled, sampled)[1]
    mean_positive = float(positive.mean()) if len(positive) else 1.0
    return max(0.0, total - half), max(total + half, share_high * mean_positive * documents)
