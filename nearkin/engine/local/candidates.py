"""Stage 3 of the local engine: from band keys on disk to candidate pairs.

One partition of one band is in memory at a time. Its keys are sorted into buckets, and the pairs of
each bucket are compared by their signatures.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.engine.banding import AgreementLimits, build_band_keys
from nearkin.engine.hot_buckets import (
    GROUPING_LEVELS,
    JOINS_NO_LEADER,
    shuffle_keys,
    split_left_over,
)
from nearkin.engine.local.documents import Documents, signatures_file
from nearkin.engine.local.exact_groups import load_pair_scope
from nearkin.engine.local.pair_files import BucketWriter, PairSpool
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.options import RunOptions
from nearkin.engine.stats import ClusteredBucket
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ordered_map
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import (
    EVERY_LATER,
    BandLayout,
    BucketRows,
    SourceBuckets,
    split_buckets,
)
from nearkin.stages.lsh.buckets import Buckets, find_buckets
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import band_layout_of
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, pack_pairs, sorted_unique

BYTES_PER_KEY = 52
"""Anonymous memory of a key while its partition is sorted and cut, in bytes: packed words, bounds,
and their copies, and 4 bytes for the bitmaps of keys that occur again."""
ROWS_AT_ONCE = 1 << 16
"""Number of signatures that are read at a time."""


@dataclass
class CandidateCounts:
    """The counts of a banding.

    Attributes:
        histogram: Candidate pairs by the number of agreeing slots, int64 (k + 1,).
        sizes: Number of buckets by their size. Buckets of one document are included.
        hot: Hot buckets.
        incomplete: Number of hot buckets whose documents were not all compared with each other.
    """

    histogram: np.ndarray
    sizes: Counter[int]
    hot: list[ClusteredBucket]
    incomplete: int = 0

    @classmethod
    def empty(cls, k: int) -> "CandidateCounts":
        """Returns counts of zero for signatures of k slots."""
        return cls(np.zeros(k + 1, np.int64), Counter(), [])


class SignatureComparison(NamedTuple):
    """The way in which signatures are banded and compared."""

    banding: Banding
    band_layout: BandLayout
    limits: AgreementLimits
    signatures: np.ndarray
    """The signatures of all documents, (n, width), mapped."""
    sketched_keys: np.ndarray | None
    """The band keys that were built while sketching, uint64 (n, key_count), or None."""
    keys_folder: str = "keys"
    """The name of the folder of the band keys in the work folder."""

    @classmethod
    def create(
        cls,
        measure: Measure,
        banding: Banding,
        documents: Documents,
        options: RunOptions,
        number: int = 0,
    ) -> "SignatureComparison":
        """Returns the comparison of a run's signatures."""
        sketched_keys = None if number else documents.keys
        return cls(
            banding=banding,
            band_layout=band_layout_of(measure.spec, banding, sketched_keys),
            limits=AgreementLimits.create(measure, banding, options),
            signatures=documents.arrays[signatures_file(number)],
            sketched_keys=sketched_keys,
            keys_folder=f"keys-{number}" if number else "keys",
        )


def write_keys(
    documents: Documents,
    blocks: np.ndarray,
    comparison: SignatureComparison,
    work: WorkFolder,
    workers: int,
) -> None:
    """Writes the band keys of each band to a file of its own, uint64 (n × (1 + probes),).

    The keys of a document follow each other.

    Args:
        blocks: Hash of each document's block, uint64 (n,).
    """
    folder = work.folder(comparison.keys_folder)

    def build_keys(bounds: tuple[int, int]) -> np.ndarray:
        rows = slice(*bounds)
        sketched_keys = None
        if comparison.sketched_keys is not None:
            sketched_keys = np.ascontiguousarray(comparison.sketched_keys[rows])
        keys = build_band_keys(
            comparison.band_layout,
            comparison.banding,
            np.ascontiguousarray(comparison.signatures[rows]),
            sketched_keys,
            np.ascontiguousarray(blocks[rows]),
        )
        return keys.reshape(len(keys), -1)

    files = [(folder / f"{band:04d}").open("wb") for band in range(comparison.banding.bands)]
    try:
        for keys in ordered_map(build_keys, documents.chunks(), workers):
            for file, band_keys in zip(files, keys, strict=True):
                file.write(band_keys.data)
    finally:
        for file in files:
            file.close()


class CandidateFinder:
    """A search for candidate pairs, band by band.

    The outcome depends on the documents of each bucket alone.

    Args:
        active: Which documents are compared, bool (n,).
    """

    def __init__(
        self,
        documents: Documents,
        work: WorkFolder,
        options: RunOptions,
        active: np.ndarray,
        comparison: SignatureComparison,
        round_number: int = 0,
    ) -> None:
        self.hot = np.zeros(len(documents), bool)
        """Which documents were in a hot bucket, bool (n,)."""
        self._hot_members: BucketWriter | None = None
        self._documents = documents
        self._work = work
        self._options = options
        self.comparison = comparison
        """The bands and the layout of the signatures."""
        self._round_number = round_number
        self._keys_per_document = 1 + comparison.banding.probes
        self.active = active
        """Which documents are compared, bool (n,)."""
        self._active = active
        self._scope = load_pair_scope(work, options)
        self._sources = self._scope.sources
        if self._keys_per_document > 1:
            self._active = np.repeat(active, self._keys_per_document)
        self._rank = work.load("rank")
        entries = len(self._active)
        self._counts = CandidateCounts.empty(options.spec.k)
        self._keys_in_memory = max(1, options.memory // 4 // BYTES_PER_KEY)
        self._partition_bits = max(0, (entries - 1) // self._keys_in_memory).bit_length()

    def among(self, active: np.ndarray, round_number: int) -> "CandidateFinder":
        """Returns a new search among other documents, for a round of the hot-bucket loop.

        Args:
            active: Which documents are compared, bool (n,).
        """
        return CandidateFinder(
            self._documents, self._work, self._options, active, self.comparison, round_number
        )

    def find_pairs(
        self, spool: PairSpool, progress: Progress, hot_members: BucketWriter | None = None
    ) -> CandidateCounts:
        """Searches all bands."""
        self._hot_members = hot_members
        last = (1 << self._partition_bits) - 1
        for band, partition, buckets in self._partitions():
            self._search_partition(band, buckets, spool)
            if partition == last:
                progress.advance(1)
        return self._counts

    def find_pairs_with(self, sampled: np.ndarray, spool: PairSpool) -> None:
        """Searches the hot buckets for all pairs of sampled documents and others.

        Args:
            sampled: Which documents were sampled, bool (n,).
        """
        for _, _, buckets in self._partitions():
            sizes, _ = self._measure_buckets(buckets)
            hot = sizes > self._options.complete_bucket_size
            for start, end in zip(buckets.starts[hot], buckets.ends[hot], strict=True):
                members = sorted_unique(buckets.ordinals[start:end])
                for document in members[sampled[members]]:
                    pairs = self._pair_with(document, members[members != document])
                    spool.add(self._select_allowed(pairs))

    def _pair_with(self, document: np.uint64, others: np.ndarray) -> np.ndarray:
        """Returns the packed pairs of a document and others that pass the prefilter.

        Args:
            others: Numbers of the others, uint64 (m,).
        """
        pairs = pack_pairs(np.full(len(others), document), others)
        if len(self._sources):
            pairs = pairs[self._sources[others] != self._sources[document]]
        agreeing = np.empty(len(pairs), np.int64)
        kernels.pair_agreements(
            pairs, self.comparison.signatures, self.comparison.band_layout.layout, agreeing
        )
        return pairs[agreeing >= self.comparison.limits.margin]

    def _partitions(self) -> Iterator[tuple[int, int, Buckets]]:
        """Yields the buckets of the partitions of each band, which several workers find."""
        keys_of_partition = max(1, len(self._active) >> self._partition_bits)
        workers = max(1, min(self._options.workers, self._keys_in_memory // keys_of_partition))

        def find(place: tuple[int, int]) -> tuple[int, int, Buckets]:
            band, partition = place
            path = self._work.path / self.comparison.keys_folder / f"{band:04d}"
            return band, partition, self._find_buckets(map_file(path, np.uint64), partition)

        bands = range(self.comparison.banding.bands)
        places = itertools.product(bands, range(1 << self._partition_bits))
        yield from ordered_map(find, places, workers, ahead=0)

    def _measure_buckets(self, buckets: Buckets) -> tuple[np.ndarray, SourceBuckets | None]:
        """Returns the sizes that decide which buckets are hot, int64 (m,), and those by source.

        With the option `across`, the documents of each bucket are sorted by source, in place.
        """
        if not len(self._sources):
            return buckets.ends - buckets.starts, None
        by_source = SourceBuckets.order(
            buckets.ordinals, buckets.starts, buckets.ends, self._sources
        )
        return by_source.sizes, by_source

    def _search_partition(self, band: int, buckets: Buckets, spool: PairSpool) -> None:
        ordinals = buckets.ordinals
        starts = buckets.starts
        ends = buckets.ends
        in_buckets = int((ends - starts).sum())
        sizes, source_buckets = self._measure_buckets(buckets)
        values, times = np.unique(sizes, return_counts=True)
        self._counts.sizes.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
        self._counts.sizes[1] += buckets.keys - in_buckets
        if not len(sizes):
            return
        is_hot = sizes > self._options.complete_bucket_size

        partners = EVERY_LATER
        portions = split_buckets(starts[~is_hot], ends[~is_hot], PAIRS_PER_BATCH)
        if source_buckets is not None:
            partners = source_buckets.partners
            portions = source_buckets.split(starts[~is_hot], ends[~is_hot], PAIRS_PER_BATCH)

        def compare(rows: BucketRows) -> tuple[np.ndarray, np.ndarray]:
            return self._compare_buckets(band, ordinals, rows, partners)

        for pairs, histogram in ordered_map(compare, portions, self._options.workers):
            self._counts.histogram += histogram
            spool.add(self._select_allowed(pairs))
        for start, end in zip(starts[is_hot].tolist(), ends[is_hot].tolist(), strict=True):
            spool.add(self._select_allowed(self._cluster_hot_bucket(band, ordinals[start:end])))

    def _select_allowed(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the packed pairs that may be compared, if the bands do not decide it."""
        if self._options.bands_by_block:
            return pairs
        return pairs[self._scope.allows_packed(pairs)]

    def _find_buckets(self, keys: np.ndarray, partition: int) -> Buckets:
        """Returns the buckets of a partition of a band's keys, with the numbers of documents."""
        buckets = find_buckets(keys, self._active, partition, self._partition_bits)
        if self._keys_per_document > 1:
            np.floor_divide(
                buckets.ordinals, np.uint64(self._keys_per_document), out=buckets.ordinals
            )
        return buckets

    def _compare_buckets(
        self, band: int, ordinals: np.ndarray, rows: BucketRows, partners: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs of ordinary buckets that pass the prefilter, and their histogram."""
        out = np.empty(rows.pairs, np.uint64)
        histogram = np.zeros(self._options.spec.k + 1, np.int64)
        layout = self.comparison.band_layout
        count = kernels.bucket_pairs(
            ordinals,
            rows.starts,
            rows.stops,
            rows.ends,
            partners,
            self.comparison.signatures,
            self.hot,
            band,
            layout.layout,
            layout.masks_or_keys,
            self.comparison.limits.margin,
            histogram,
            out,
        )
        return out[:count].copy(), histogram

    def _cluster_hot_bucket(self, band: int, members: np.ndarray) -> np.ndarray:
        """Clusters a hot bucket internally, and returns the pairs of members and leaders."""
        if self._keys_per_document > 1 or len(self._sources):
            members = sorted_unique(members)
        ordered = members[self.order(members)]
        pairs: list[np.ndarray] = []
        groups = [ordered]
        for level in range(GROUPING_LEVELS):
            groups = [part for group in groups for part in self._compare_with_leaders(group, pairs)]
            if not level and groups:
                self._counts.incomplete += 1
        self.hot[members] = True
        if self._hot_members is not None:
            self._hot_members.add(members)
        first = members[np.argmin(self._rank[members])]
        self._counts.hot.append(ClusteredBucket(band, len(members), int(first)))
        return np.concatenate(pairs)

    def order(self, members: np.ndarray) -> np.ndarray:
        """Returns the positions of documents in the order in which they become leaders, int64 (m,).

        Args:
            members: Numbers of the documents, uint64 (m,).
        """
        rank = self._rank[members]
        if not self._round_number:
            return np.argsort(rank)
        keys = [
            shuffle_keys(self.comparison.signatures[portion], self._round_number)
            for portion in np.split(members, range(ROWS_AT_ONCE, len(members), ROWS_AT_ONCE))
        ]
        return np.lexsort((rank, np.concatenate(keys)))

    def _compare_with_leaders(
        self, members: np.ndarray, pairs: list[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Compares documents with leaders among them, and yields groups of those left over.

        Args:
            members: Documents in the order in which they become leaders, uint64 (m,).
        """
        leaders = np.empty(self._options.fanout, np.uint64)
        nearest = np.empty(len(members), np.int64)
        out = np.empty(2 * len(members), np.uint64)
        limits = self.comparison.limits
        count, _ = kernels.hot_bucket_pairs(
            members,
            self._sources,
            self.comparison.signatures,
            self.comparison.band_layout.layout,
            limits.margin,
            JOINS_NO_LEADER if self._round_number else limits.join,
            leaders,
            0,
            self._counts.histogram,
            nearest,
            out,
        )
        pairs.append(out[:count].copy())
        return split_left_over(members, nearest)
