"""Stage 3 of a run: from band keys on disk to candidate pairs.

The keys of each band are in a file. A task sorts one partition of them into buckets, which are
written to a file. Then the pairs of portions of buckets are compared by their signatures, and hot
buckets are clustered. The outcome depends on the documents of each bucket alone.

A worker may finish a task long after others did it again. So what it writes has a name of its own,
or the name of a folder that is gone by then.
"""

import itertools
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from nearkin.engine.banding import AgreementLimits, build_band_keys
from nearkin.engine.documents import Documents, signatures_file
from nearkin.engine.exact_groups import load_pair_scope
from nearkin.engine.hot_buckets import (
    GROUPING_LEVELS,
    JOINS_NO_LEADER,
    shuffle_keys,
    split_left_over,
)
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_files import BucketWriter, PairSpool
from nearkin.engine.stats import ClusteredBucket
from nearkin.engine.work_folder import SPOOL, WorkFolder, map_file
from nearkin.runtime.executor import Executor, Task, limit_threads
from nearkin.runtime.files import write_at
from nearkin.runtime.progress import Progress
from nearkin.settings.spec import Spec
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import (
    EVERY_LATER,
    NEVER_HOT,
    BandLayout,
    BucketRows,
    SourceBuckets,
    split_buckets,
)
from nearkin.stages.lsh.buckets import Buckets, find_buckets, have_keys_of
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import band_layout_of
from nearkin.stages.packed_pairs import (
    PAIRS_PER_BATCH,
    pack_pairs,
    sorted_unique,
    unpack_pairs,
)
from nearkin.stages.pair_scope import PairScope

BYTES_PER_KEY = 52
"""Anonymous memory of a key while its partition is sorted and cut, in bytes: packed words, bounds,
and their copies, and 4 bytes for the bitmaps of keys that occur again."""
ROWS_AT_ONCE = 1 << 16
"""Number of signatures that are read at a time."""
NOT_HOT = np.uint16(0xFFFF)
"""The first hot band of a document that is in no hot bucket. There are fewer bands."""
BUCKETS = "buckets-"
"""The beginning of the names of the files of buckets in the folder `SPOOL`."""
KEYS = "keys-"
"""The beginning of the names of the folders of unfinished band keys in the folder `SPOOL`."""
FIRST_HOT = f"{SPOOL}/first-hot"
"""The name of the array of each document's first hot band."""


@dataclass
class CandidateCounts:
    """The counts of a banding.

    Attributes:
        histogram: Candidate pairs by the number of agreeing slots, int64 (k + 1,).
        is_hot: Which documents were in a hot bucket, bool (n,).
        sizes: Number of buckets by their size. Buckets of one document are included.
        hot: Hot buckets.
        incomplete: Number of hot buckets whose documents were not all compared with each other.
    """

    histogram: np.ndarray
    is_hot: np.ndarray
    sizes: Counter[int] = field(default_factory=Counter)
    hot: list[ClusteredBucket] = field(default_factory=list)
    incomplete: int = 0


@dataclass(frozen=True)
class SignatureComparison(Task):
    """The way in which signatures are banded and compared.

    Attributes:
        number: Number of the candidate field that the signatures are of.
    """

    spec: Spec
    banding: Banding
    limits: AgreementLimits
    documents: Documents
    number: int = 0

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
        limits = AgreementLimits.create(measure, banding, options)
        return cls(measure.spec, banding, limits, documents, number)

    @property
    def signatures(self) -> np.ndarray:
        """The signatures of all documents, (n, width), mapped."""
        return self.documents.arrays[signatures_file(self.number)]

    @property
    def sketched_keys(self) -> np.ndarray | None:
        """The band keys that were built while sketching, uint64 (n, key_count), or None."""
        return None if self.number else self.documents.keys

    @cached_property
    def band_layout(self) -> BandLayout:
        """The layout of the signatures for kernels."""
        return band_layout_of(self.spec, self.banding, self.sketched_keys)

    @property
    def keys_folder(self) -> str:
        """The name of the folder of the band keys in the work folder."""
        return f"keys-{self.number}" if self.number else "keys"

    @property
    def keys_per_document(self) -> int:
        """The number of keys that a document has in each band."""
        return 1 + self.banding.probes


@dataclass(frozen=True)
class WriteKeys(Task):
    """A task that writes the band keys of consecutive documents to their places.

    Attributes:
        folder: Folder with a file for each band, uint64 (n × (1 + probes),), or None to return the
            keys. The keys of a document follow each other.
    """

    comparison: SignatureComparison
    work: WorkFolder
    folder: Path | None
    is_salted: bool

    def __call__(self, bounds: tuple[int, int]) -> np.ndarray | None:
        """Writes or returns the keys of the documents from one number to another."""
        rows = slice(*bounds)
        comparison = self.comparison
        blocks = np.zeros(bounds[1] - bounds[0], np.uint64)
        if self.is_salted:
            blocks = np.ascontiguousarray(self.work.load("blocks")[rows])
        sketched_keys = comparison.sketched_keys
        if sketched_keys is not None:
            sketched_keys = np.ascontiguousarray(sketched_keys[rows])
        keys = build_band_keys(
            comparison.band_layout,
            comparison.banding,
            np.ascontiguousarray(comparison.signatures[rows]),
            sketched_keys,
            blocks,
        )
        if self.folder is None:
            return keys
        offset = 8 * bounds[0] * comparison.keys_per_document
        for band, band_keys in enumerate(keys):
            with (self.folder / f"{band:04d}").open("r+b") as file:
                write_at(file, np.ascontiguousarray(band_keys).data, offset)
        return None


def write_keys(
    comparison: SignatureComparison, work: WorkFolder, executor: Executor, *, is_salted: bool
) -> None:
    """Writes the band keys of each band to a file of its own.

    Args:
        is_salted: Whether documents of different blocks have different keys.
    """
    folder = work.folder(SPOOL) / f"{KEYS}{uuid4().hex}"
    folder.mkdir()
    size = 8 * len(comparison.documents) * comparison.keys_per_document
    for band in range(comparison.banding.bands):
        with (folder / f"{band:04d}").open("wb") as file:
            file.truncate(size if executor.shares_files else 0)
    task = WriteKeys(comparison, work, folder if executor.shares_files else None, is_salted)
    for keys in executor.map(task, comparison.documents.chunks()):
        for band, band_keys in enumerate(() if keys is None else keys):
            with (folder / f"{band:04d}").open("ab") as file:
                file.write(np.ascontiguousarray(band_keys).data)
    complete = work.path / comparison.keys_folder
    shutil.rmtree(complete, ignore_errors=True)
    folder.rename(complete)


class _Partition(NamedTuple):
    """A partition of the keys of a band."""

    band: int
    number: int


class _Piece(NamedTuple):
    """A portion of the ordinary buckets of a partition, or one of its hot buckets."""

    partition: _Partition
    path: Path
    """The file of the buckets of the partition."""
    number: int


class _FoundBuckets(NamedTuple):
    """The buckets of a partition, which are in a file."""

    partition: _Partition
    path: Path
    sizes: Counter[int]
    """The number of buckets by their size."""
    portions: int
    """The number of portions of ordinary buckets."""
    hot: int
    """The number of hot buckets."""

    def list_pieces(self, count: int) -> list[_Piece]:
        """Returns pieces of the partition by their numbers."""
        return [_Piece(self.partition, self.path, number) for number in range(count)]


class _ClusteredPairs(NamedTuple):
    """The pairs of a hot bucket with its leaders."""

    pairs: np.ndarray
    histogram: np.ndarray
    bucket: ClusteredBucket
    members: np.ndarray
    is_incomplete: bool


class _OpenedPartition(NamedTuple):
    """The buckets of a partition, read from their file."""

    ordinals: np.ndarray
    hot: list[np.ndarray]
    """The documents of each hot bucket, uint64."""
    portions: list[BucketRows]
    """The ordinary buckets in portions."""
    partners: np.ndarray
    sizes: np.ndarray
    """The sizes that decide which buckets are hot, int64 (m,)."""

    @classmethod
    def of(cls, buckets: Buckets, sources: np.ndarray, most: int) -> "_OpenedPartition":
        """Divides buckets.

        With the option `across`, the documents of each bucket are sorted by source, in place.

        Args:
            sources: Source of each document, uint64 (n,), or an empty array.
            most: Largest size of an ordinary bucket.
        """
        ordinals, starts, ends, _ = buckets
        if len(sources):
            by_source = SourceBuckets.order(ordinals, starts, ends, sources)
            sizes = by_source.sizes
            partners = by_source.partners
        else:
            sizes = ends - starts
            partners = EVERY_LATER
        is_hot = sizes > most
        bounds = (starts[~is_hot], ends[~is_hot], PAIRS_PER_BATCH)
        portions = list(by_source.split(*bounds) if len(sources) else split_buckets(*bounds))
        hot = [
            sorted_unique(ordinals[start:end])
            for start, end in zip(starts[is_hot], ends[is_hot], strict=True)
        ]
        return cls(ordinals, hot, portions, partners, sizes)


def count_keys_in_memory(options: RunOptions) -> int:
    """Returns the number of keys that are sorted in memory at a time."""
    return max(1, options.memory // 4 // BYTES_PER_KEY)


@dataclass(frozen=True)
class CandidateFinder(Task):
    """A search for candidate pairs in the bands of one kind of signatures.

    Attributes:
        comparison: The bands and the layout of the signatures.
        active_name: Name of the array that says which documents are compared, bool (n,).
        partition_bits: Number of first bits of a key that are those of its partition.
        round_number: Round of the hot-bucket loop.
        fresh_name: Name of the array that says which of these documents were not compared before,
            bool (n,). Pairs without one of them are left out. None if all pairs are compared.
    """

    comparison: SignatureComparison
    work: WorkFolder
    options: RunOptions
    active_name: str
    partition_bits: int
    round_number: int = 0
    fresh_name: str | None = None

    @classmethod
    def create(
        cls,
        comparison: SignatureComparison,
        work: WorkFolder,
        options: RunOptions,
        active_name: str,
        executor: Executor,
        fresh_name: str | None = None,
    ) -> "CandidateFinder":
        """Returns a search whose partitions fit into the memory of a run."""
        keys = len(comparison.documents) * comparison.keys_per_document
        keys_in_memory = count_keys_in_memory(options)
        if not executor.shares_memory:
            keys_in_memory = max(1, keys_in_memory // executor.workers)
        bits = max(0, (keys - 1) // keys_in_memory).bit_length()
        return cls(comparison, work, options, active_name, bits, fresh_name=fresh_name)

    def among(self, active: np.ndarray, round_number: int) -> "CandidateFinder":
        """Returns a new search among other documents, for a round of the hot-bucket loop.

        Args:
            active: Which documents are compared, bool (n,).
        """
        name = f"{self.active_name}-again"
        self.work.save(name, active)
        return CandidateFinder(
            self.comparison, self.work, self.options, name, self.partition_bits, round_number
        )

    @cached_property
    def active(self) -> np.ndarray:
        """The documents that are compared, bool (n,)."""
        return self.work.load(self.active_name)

    @cached_property
    def fresh(self) -> np.ndarray | None:
        """The documents that were not compared before, bool (n,), or None if none were."""
        return None if self.fresh_name is None else self.work.load(self.fresh_name)

    @cached_property
    def scope(self) -> PairScope:
        """The pairs that may be compared."""
        return load_pair_scope(self.work, self.options)

    @cached_property
    def _rank(self) -> np.ndarray:
        return self.work.load("rank")

    def find_pairs(
        self,
        executor: Executor,
        spool: PairSpool,
        progress: Progress,
        hot_members: BucketWriter | None = None,
    ) -> CandidateCounts:
        """Searches all bands."""
        counts = CandidateCounts(
            np.zeros(self.options.spec.k + 1, np.int64), np.zeros(len(self.active), bool)
        )
        portions: list[_Piece] = []
        hot: list[_Piece] = []
        last = (1 << self.partition_bits) - 1
        for found in self._find_buckets(executor):
            if found.partition.number == last:
                progress.advance(1)
            counts.sizes.update(found.sizes)
            portions.extend(found.list_pieces(found.portions))
            hot.extend(found.list_pieces(found.hot))
        first_hot = np.full(len(self.active) if hot else 0, NOT_HOT, np.uint16)
        for piece, clustered in zip(hot, executor.map(ClusterBucket(self), hot), strict=True):
            spool.add(self.select_allowed(clustered.pairs))
            counts.histogram += clustered.histogram
            counts.hot.append(clustered.bucket)
            counts.incomplete += clustered.is_incomplete
            members = clustered.members
            counts.is_hot[members] = True
            first_hot[members] = np.minimum(first_hot[members], piece.partition.band)
            if hot_members is not None:
                hot_members.add(members)
        self.work.save(FIRST_HOT, first_hot)
        done = 0
        for piece, (pairs, histogram) in zip(
            portions, executor.map(ComparePortion(self), portions), strict=True
        ):
            spool.add(pairs)
            counts.histogram += histogram
            progress.advance(piece.partition.band - done)
            done = piece.partition.band
        progress.advance(self.comparison.banding.bands - done)
        self._delete_buckets()
        return counts

    def find_pairs_with(self, sampled: np.ndarray, executor: Executor, spool: PairSpool) -> None:
        """Searches the hot buckets for all pairs of sampled documents and others.

        Args:
            sampled: Which documents were sampled, bool (n,).
        """
        for found in self._find_buckets(executor):
            for members in self.open(found.path).hot if found.hot else ():
                for document in members[sampled[members]]:
                    pairs = self._pair_with(document, members[members != document])
                    spool.add(self.select_allowed(pairs))
        self._delete_buckets()

    def _pair_with(self, document: np.uint64, others: np.ndarray) -> np.ndarray:
        """Returns the packed pairs of a document and others that pass the prefilter.

        Args:
            others: Numbers of the others, uint64 (m,).
        """
        pairs = pack_pairs(np.full(len(others), document), others)
        sources = self.scope.sources
        if len(sources):
            pairs = pairs[sources[others] != sources[document]]
        agreeing = np.empty(len(pairs), np.int64)
        kernels.pair_agreements(
            pairs, self.comparison.signatures, self.comparison.band_layout.layout, agreeing
        )
        return pairs[agreeing >= self.comparison.limits.margin]

    def _delete_buckets(self) -> None:
        for path in (self.work.path / SPOOL).glob(f"{BUCKETS}*"):
            path.unlink(missing_ok=True)

    def _find_buckets(self, executor: Executor) -> Iterator[_FoundBuckets]:
        """Writes the buckets of all partitions, and yields their facts band by band."""
        keys = len(self.active) * self.comparison.keys_per_document
        keys_of_partition = max(1, keys >> self.partition_bits)
        executor = limit_threads(executor, count_keys_in_memory(self.options) // keys_of_partition)
        bands = range(self.comparison.banding.bands)
        numbers = range(1 << self.partition_bits)
        partitions = itertools.starmap(_Partition, itertools.product(bands, numbers))
        yield from executor.map(FindBuckets(self), partitions)

    def select_allowed(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the packed pairs that may be compared, if the bands do not decide it."""
        if self.fresh is not None:
            first, second = unpack_pairs(pairs)
            pairs = pairs[self.fresh[first] | self.fresh[second]]
        if self.options.bands_by_block:
            return pairs
        return pairs[self.scope.allows_packed(pairs)]

    def sort_keys(self, partition: _Partition) -> Buckets:
        """Returns the buckets of a partition of a band's keys, with the numbers of documents."""
        folder = self.work.path / self.comparison.keys_folder
        keys = map_file(folder / f"{partition.band:04d}", np.uint64)
        per_document = self.comparison.keys_per_document
        active = self.active
        fresh = self.fresh
        if per_document > 1:
            active = np.repeat(active, per_document)
            fresh = None if fresh is None else np.repeat(fresh, per_document)
        if fresh is not None:
            active = active & have_keys_of(fresh, keys)
            # Kernels are compiled for the read-only array of a file.
            active.flags.writeable = False
        buckets = find_buckets(keys, active, partition.number, self.partition_bits)
        if per_document > 1:
            np.floor_divide(buckets.ordinals, np.uint64(per_document), out=buckets.ordinals)
        return buckets if self.fresh is None else buckets.select_with(self.fresh)

    def divide(self, buckets: Buckets) -> _OpenedPartition:
        """Returns ordinary buckets in portions, and hot ones apart."""
        return _OpenedPartition.of(buckets, self.scope.sources, self.options.complete_bucket_size)

    def create_path(self, partition: _Partition) -> Path:
        """Returns the path of a new file of the buckets of a partition."""
        name = f"{BUCKETS}{partition.band:04d}-{partition.number}-{uuid4().hex}"
        return self.work.path / SPOOL / name

    def open(self, path: Path) -> _OpenedPartition:
        """Reads the buckets of a partition from their file."""
        return self.divide(_read_buckets(path))

    def order(self, members: np.ndarray) -> np.ndarray:
        """Returns the positions of documents in the order in which they become leaders, int64 (m,).

        Args:
            members: Numbers of the documents, uint64 (m,).
        """
        rank = self._rank[members]
        if not self.round_number:
            return np.argsort(rank)
        keys = [
            shuffle_keys(self.comparison.signatures[portion], self.round_number)
            for portion in np.split(members, range(ROWS_AT_ONCE, len(members), ROWS_AT_ONCE))
        ]
        return np.lexsort((rank, np.concatenate(keys)))

    def first_of(self, members: np.ndarray) -> int:
        """Returns the first document in keep order."""
        return int(members[np.argmin(self._rank[members])])


@dataclass(frozen=True)
class FindBuckets(Task):
    """A task that sorts the keys of a partition into buckets, and writes these."""

    finder: CandidateFinder

    def __call__(self, partition: _Partition) -> _FoundBuckets:
        """Sorts one partition."""
        path = self.finder.create_path(partition)
        buckets = self.finder.sort_keys(partition)
        opened = self.finder.divide(buckets)
        values, times = np.unique(opened.sizes, return_counts=True)
        sizes = Counter(dict(zip(values.tolist(), times.tolist(), strict=True)))
        sizes[1] += buckets.keys - int((buckets.ends - buckets.starts).sum())
        if len(buckets.starts):
            _write_buckets(path, buckets)
        return _FoundBuckets(partition, path, sizes, len(opened.portions), len(opened.hot))


class _PartitionTask(Task):
    """A task over a piece of a partition. The partition of the last piece stays open."""

    finder: CandidateFinder

    @cached_property
    def _lock(self) -> Lock:
        return Lock()

    @cached_property
    def _opened(self) -> dict[Path, _OpenedPartition]:
        return {}

    def open(self, path: Path) -> _OpenedPartition:
        """Returns the buckets of a partition from their file."""
        with self._lock:
            if path not in self._opened:
                self._opened.clear()
                self._opened[path] = self.finder.open(path)
            return self._opened[path]


@dataclass(frozen=True)
class ComparePortion(_PartitionTask):
    """A task that compares the documents of ordinary buckets."""

    finder: CandidateFinder

    @cached_property
    def _first_hot(self) -> np.ndarray:
        first_hot = self.finder.work.load(FIRST_HOT)
        return first_hot if len(first_hot) else NEVER_HOT

    def __call__(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray]:
        """Compares a portion of buckets.

        Returns:
            The packed pairs that pass the prefilter and may be compared, uint64 (m,), and the
            compared pairs by the number of agreeing slots, int64 (k + 1,).
        """
        opened = self.open(piece.path)
        rows = opened.portions[piece.number]
        comparison = self.finder.comparison
        out = np.empty(rows.pairs, np.uint64)
        histogram = np.zeros(self.finder.options.spec.k + 1, np.int64)
        layout = comparison.band_layout
        count = kernels.bucket_pairs(
            opened.ordinals,
            rows.starts,
            rows.stops,
            rows.ends,
            opened.partners,
            comparison.signatures,
            self._first_hot,
            piece.partition.band,
            layout.layout,
            layout.masks_or_keys,
            comparison.limits.margin,
            histogram,
            out,
        )
        return self.finder.select_allowed(out[:count].copy()), histogram


@dataclass(frozen=True)
class ClusterBucket(_PartitionTask):
    """A task that clusters a hot bucket."""

    finder: CandidateFinder

    def __call__(self, piece: _Piece) -> _ClusteredPairs:
        """Returns the pairs of members and leaders of one bucket."""
        members = self.open(piece.path).hot[piece.number]
        histogram = np.zeros(self.finder.options.spec.k + 1, np.int64)
        pairs: list[np.ndarray] = []
        groups = [members[self.finder.order(members)]]
        is_incomplete = False
        for level in range(GROUPING_LEVELS):
            groups = [
                part
                for group in groups
                for part in self._compare_with_leaders(group, histogram, pairs)
            ]
            is_incomplete |= not level and bool(groups)
        first = self.finder.first_of(members)
        bucket = ClusteredBucket(piece.partition.band, len(members), first)
        return _ClusteredPairs(np.concatenate(pairs), histogram, bucket, members, is_incomplete)

    def _compare_with_leaders(
        self, members: np.ndarray, histogram: np.ndarray, pairs: list[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Compares documents with leaders among them, and yields groups of those left over.

        Args:
            members: Documents in the order in which they become leaders, uint64 (m,).
        """
        finder = self.finder
        leaders = np.empty(finder.options.fanout, np.uint64)
        nearest = np.empty(len(members), np.int64)
        out = np.empty(2 * len(members), np.uint64)
        limits = finder.comparison.limits
        count, _ = kernels.hot_bucket_pairs(
            members,
            finder.scope.sources,
            finder.comparison.signatures,
            finder.comparison.band_layout.layout,
            limits.margin,
            JOINS_NO_LEADER if finder.round_number else limits.join,
            leaders,
            0,
            histogram,
            nearest,
            out,
        )
        pairs.append(out[:count].copy())
        return split_left_over(members, nearest)


def _write_buckets(path: Path, buckets: Buckets) -> None:
    """Writes the number of buckets, their starts, their ends and their documents, uint64 each."""
    with path.open("wb") as file:
        file.write(np.uint64(len(buckets.starts)).tobytes())
        for column in (buckets.starts, buckets.ends, buckets.ordinals):
            file.write(np.ascontiguousarray(column).data)


def _read_buckets(path: Path) -> Buckets:
    """Returns the buckets that `_write_buckets` wrote."""
    words = np.fromfile(path, np.uint64)
    count = int(words[0])
    bounds = words[1 : 1 + 2 * count].view(np.int64)
    return Buckets(words[1 + 2 * count :], bounds[:count], bounds[count:], 0)
