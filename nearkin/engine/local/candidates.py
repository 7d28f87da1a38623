"""Stage 3: band keys on disk, one partition of one band in memory at a time, buckets to candidates, scored by estimate."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.engine.banding import Limits, band_keys
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.pair_files import PairSpool
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.options import RunOptions
from nearkin.lsh import kernels
from nearkin.lsh.band_keys import BandLayout, split_buckets
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure
from nearkin.measures.base import band_layout_of
from nearkin.packed_pairs import PAIRS_PER_BATCH, sorted_unique
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ordered_map

BYTES_PER_KEY = 48
"""Anonymous bytes that one key costs while its partition is sorted and cut: packed words, bounds, and their copies."""


class Bucket(NamedTuple):
    """A bucket that was clustered inside itself."""

    band: int
    members: int
    first: int
    """Ordinal of its first member in keep order."""


@dataclass
class CandidateCounts:
    """What banding did."""

    histogram: np.ndarray
    """int64 (k + 1,): candidates by agreeing slots."""
    sizes: Counter[int]
    """Buckets by their size, those of a single document included."""
    hot: list[Bucket]

    @classmethod
    def none(cls, k: int) -> "CandidateCounts":
        """No candidate yet."""
        return cls(np.zeros(k + 1, np.int64), Counter(), [])

    @property
    def candidates(self) -> int:
        """Pairs of documents that shared a bucket and were scored."""
        return int(self.histogram.sum())


class Banded(NamedTuple):
    """How signatures are banded and compared."""

    banding: Banding
    band_layout: BandLayout
    limits: Limits

    @classmethod
    def of(cls, measure: Measure, banding: Banding, documents: Documents, options: RunOptions) -> "Banded":
        """For a measure's signatures."""
        return cls(banding, band_layout_of(measure.spec, banding, documents.keys), Limits.of(measure, banding, options))


def write_band_keys(documents: Documents, blocks: np.ndarray, banded: Banded, work: WorkFolder, workers: int) -> None:
    """`keys/BB`, uint64 (n·(1 + probes),) for each band: the keys of a document one after the other."""
    folder = work.folder("keys")

    def keys_of(bounds: tuple[int, int]) -> np.ndarray:
        rows = slice(*bounds)
        kept = None if documents.keys is None else np.ascontiguousarray(documents.keys[rows])
        signatures, salts = (np.ascontiguousarray(array[rows]) for array in (documents.signatures, blocks))
        keys = band_keys(banded.band_layout, banded.banding, signatures, kept, salts)
        return keys.reshape(len(keys), -1)

    files = [(folder / f"{band:04d}").open("wb") for band in range(banded.banding.bands)]
    try:
        for keys in ordered_map(keys_of, documents.chunks(), workers):
            for file, column in zip(files, keys, strict=True):
                file.write(column.data)
    finally:
        for file in files:
            file.close()


class CandidateFinder:
    """Walks the bands in order; the outcome depends on the documents of each bucket alone."""

    def __init__(self, documents: Documents, work: WorkFolder, options: RunOptions, active: np.ndarray, banded: Banded) -> None:
        self.documents = documents
        self.options = options
        self.banding, self.band_layout, self.limits = banded
        self.per = 1 + self.banding.probes
        self.active = np.repeat(active, self.per) if self.per > 1 else active
        self.rank = work.load("rank")
        self.keys = work.path / "keys"
        self.hot = np.zeros(len(documents), bool)
        entries = len(self.active)
        self.ordinal_bits = max(1, (entries - 1).bit_length())
        self.counts = CandidateCounts.none(options.spec.k)
        room = max(1, options.memory // 4 // BYTES_PER_KEY)
        self.part_bits = max(0, (entries - 1) // room).bit_length()

    def run(self, spool: PairSpool, progress: Progress) -> CandidateCounts:
        """All bands; surviving candidates go to the spool."""
        for band in range(self.banding.bands):
            keys = map_file(self.keys / f"{band:04d}", np.uint64)
            for part in range(1 << self.part_bits):
                self._band_part(band, keys, part, spool)
            progress.advance(1)
        return self.counts

    def _band_part(self, band: int, keys: np.ndarray, part: int, spool: PairSpool) -> None:
        ordinals, starts, ends = self._buckets(keys, part)
        sizes = ends - starts
        values, times = np.unique(sizes, return_counts=True)
        self.counts.sizes.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
        self.counts.sizes[1] += len(ordinals) - int(sizes.sum())
        if not len(sizes):
            return
        hot = sizes > self.options.hot_bucket_size
        for pairs, histogram in ordered_map(
            lambda some: self._cold(band, ordinals, *some),
            split_buckets(starts[~hot], ends[~hot], PAIRS_PER_BATCH),
            self.options.workers,
        ):
            self.counts.histogram += histogram
            spool.add(pairs)
        for start, end in zip(starts[hot].tolist(), ends[hot].tolist(), strict=True):
            spool.add(self._hot(band, ordinals[start:end]))

    def _buckets(self, keys: np.ndarray, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        packed = np.empty(int(np.count_nonzero(self.active)) if self.part_bits == 0 else len(keys), np.uint64)
        count = kernels.pack_keys(keys, self.active, np.uint64(part), self.part_bits, self.ordinal_bits, packed)
        packed = packed[:count].copy() if self.part_bits else packed
        packed.sort()
        bounds = np.empty((2, count // 2 + 1), np.int64)
        found = kernels.find_buckets(packed, keys, self.ordinal_bits, bounds[0], bounds[1])
        if self.per > 1:
            packed //= np.uint64(self.per)
        return packed, bounds[0, :found], bounds[1, :found]

    def _cold(self, band: int, ordinals: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes = ends - starts
        out = np.empty(int((sizes * (sizes - 1) // 2).sum()), np.uint64)
        histogram = np.zeros(self.options.spec.k + 1, np.int64)
        found = kernels.bucket_pairs(
            ordinals,
            starts,
            ends,
            self.documents.signatures,
            self.hot,
            band,
            *self.band_layout,
            self.limits.margin,
            histogram,
            out,
        )
        return out[:found].copy(), histogram

    def _hot(self, band: int, members: np.ndarray) -> np.ndarray:
        members = sorted_unique(members) if self.per > 1 else members
        ordered = members[np.argsort(self.rank[members])]
        leaders, out = np.empty(self.options.fanout, np.uint64), np.empty(2 * len(members), np.uint64)
        found, _ = kernels.hot_bucket_pairs(
            ordered, self.documents.signatures, self.band_layout.layout, *self.limits, leaders, 0, self.counts.histogram, out
        )
        self.hot[members] = True
        self.counts.hot.append(Bucket(band, len(members), int(ordered[0])))
        return out[:found]
