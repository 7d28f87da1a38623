"""The shingle hashes of the first reading, which spare the verification a second one.

The sketch stage puts the hashes of every document in, truncated to the bits that are compared. The
verification gets the sets of the documents that it wants. Hashes are kept in memory up to a bound,
and those of later documents in a file, which is mapped when sets are wanted.

Other processes that sketch documents have a file each. If a run is resumed, or the files would take
too much of the disk, texts are read again. That gives the same sets, so the result does not depend
on it.
"""

import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np

from nearkin.engine.payload_batches import PayloadBatch, wanted_rows
from nearkin.engine.work_folder import map_file
from nearkin.runtime.executor import Task
from nearkin.runtime.files import write_at
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.measures import Payload
from nearkin.stages.measures.compared_sets import compares_sets
from nearkin.stages.shingle import Shingles
from nearkin.stages.verify import kernels
from nearkin.stages.verify.jaccard import SORT_BUCKETS, ShingleSets

Result = TypeVar("Result")

WORDS_PER_HASH = 3
"""Number of 16-bit words of a hash, of which COMPARED_BITS are kept."""
BYTES_PER_HASH = 2 * WORDS_PER_HASH
HASHES = "hashes"
"""The beginning of the names of the files."""
MEMORY_SHARE = 4
"""Hashes in memory take at most one part in so many of the memory bound of a run."""
DISK_SHARE = 2
"""Hashes on disk take at most one part in so many of the disk space that is free without them."""


class HashSlice(NamedTuple):
    """The truncated shingle hashes of some documents."""

    documents: int
    """The number of documents."""
    words: np.ndarray
    """uint16: The hashes in the order of the texts, with repetitions. First come the upper 32 bits
    of each hash, then the lower 16 bits of each. The number of words is even, so that the upper
    bits of the next slice of a file are aligned."""


class HashCollector:
    """A receiver of the shingles of one batch, which `Sketcher.sketch` calls for each slice.

    Each slice has an array of its own. Arrays of 4 MB and more would be put on huge pages, for
    which the system may have to move other memory.
    """

    def __init__(self) -> None:
        self.slices: list[HashSlice] = []

    def __call__(self, shingles: Shingles) -> None:
        """Truncates and copies the shingles of the next slice."""
        count = len(shingles.hashes)
        words = np.empty(_word_count(count), np.uint16)
        upper, lower = _halves(words, count)
        kernels.truncate_hashes(shingles.hashes, upper, lower)
        # Numba compiles kernels only for read-only arrays then, as those of a mapped file are.
        words.flags.writeable = False
        self.slices.append(HashSlice(len(shingles.offsets) - 1, words))


class _KeptSlice(NamedTuple):
    """A slice in memory, or its place in a file."""

    documents: int
    words: np.ndarray | None
    position: int = 0
    """The first word in the file."""
    file: str = ""
    """The name of the file."""


StoredHashes: TypeAlias = list[_KeptSlice] | None
"""The slices of a batch that were stored, or None if that was not possible."""


class _KeptBatch(NamedTuple):
    """The slices of a batch of the corpus."""

    first: int
    slices: list[_KeptSlice]


class KeptHashes:
    """The shingle hashes of the first documents of a corpus, in memory and in a file.

    A copy in another process has a file of its own, and none in memory.

    Args:
        memory: Largest size of the hashes in memory, in bytes.
        processes: Number of other processes that write hashes at a time.
    """

    def __init__(self, folder: Path, memory: int, workers: int, processes: int = 0) -> None:
        self._folder = folder
        self._memory = memory
        self._workers = workers
        self._processes = processes
        self._name = f"{HASHES}-{uuid4().hex}" if processes else HASHES
        self._batches: list[_KeptBatch] = []
        self._documents = 0
        self._bytes_in_memory = 0
        self._words_in_file = 0
        self._file: BinaryIO | None = None
        self._lock = Lock()
        self.is_open = True
        """True if hashes of further documents are kept."""

    def __reduce__(self) -> tuple[type["KeptHashes"], tuple[object, ...]]:
        return KeptHashes, (self._folder, 0, 1, self._processes)

    @classmethod
    def serves(cls, spec: Spec) -> bool:
        """Returns whether documents are compared by hashes that are worth keeping.

        Weights of shingles are looked up by whole hashes, and shingles of characters take six
        bytes for each byte of text. Both are made from the texts again.
        """
        return compares_sets(spec.measure) and spec.unit == "words"

    @property
    def bytes_on_disk(self) -> int:
        """The size of the file."""
        return 2 * self._words_in_file

    def store(self, slices: list[HashSlice]) -> StoredHashes:
        """Puts the hashes of a batch into memory or into the file, which threads may do at a time.

        Returns:
            Where they are, or None if that is not possible.
        """
        words = sum(len(part.words) for part in slices)
        with self._lock:
            if not self.is_open:
                return None
            if self._bytes_in_memory + 2 * words <= self._memory:
                self._bytes_in_memory += 2 * words
                return [_KeptSlice(part.documents, part.words) for part in slices]
            # Later batches that are smaller go to the file as well.
            self._memory = 0
            try:
                file = self._open_file(2 * words)
            except OSError:
                return None
            position = self._words_in_file
            self._words_in_file += words
        kept = []
        for part in slices:
            try:
                write_at(file, part.words.data, 2 * position)
            except OSError:
                return None
            kept.append(_KeptSlice(part.documents, None, position, self._name))
            position += len(part.words)
        return kept

    def _open_file(self, size: int) -> BinaryIO:
        """Returns the file, which has room for some bytes more. Raises OSError without room."""
        self._folder.mkdir(exist_ok=True)
        free = shutil.disk_usage(self._folder).free
        share = DISK_SHARE * max(1, self._processes)
        if self.bytes_on_disk + size > (free + self.bytes_on_disk) // share:
            raise OSError(errno.ENOSPC, "the disk lacks space for shingle hashes")
        if self._file is None:
            self._file = (self._folder / self._name).open("wb")
        return self._file

    def append(self, first: int, batches: Sequence[StoredHashes]) -> None:
        """Keeps the next batches, which were stored, or releases all if that is not possible."""
        if not self.is_open:
            return
        if first != self._documents:
            self.release()
            return
        for slices in batches:
            if slices is None:
                self.release()
                return
            self._batches.append(_KeptBatch(self._documents, slices))
            self._documents += sum(part.documents for part in slices)

    def release(self) -> None:
        """Releases the memory and deletes the file. Further hashes are not kept."""
        with self._lock:
            self.is_open = False
            self._batches = []
            self._documents = 0
            self._words_in_file = 0
            # A thread that still writes keeps the file open.
            self._file = None
            shutil.rmtree(self._folder, ignore_errors=True)

    def covers(self, documents: int) -> bool:
        """Returns whether the hashes of the first `documents` documents are kept."""
        return self.is_open and self._documents == documents

    def source(self, shingles: np.ndarray) -> "KeptPayloads":
        """Returns the payloads of the documents.

        Args:
            shingles: Number of shingles of each document, with repetitions, uint32 (n,).
        """
        return KeptPayloads(BuildKept(self._folder), self._batches, shingles, self._workers)


class _KeptPart(NamedTuple):
    """A batch whose wanted documents' sets a task builds."""

    batch: _KeptBatch
    shingles: np.ndarray
    """The number of shingles of each document of the batch, with repetitions, uint32 (n,)."""
    wanted: np.ndarray | None
    """The positions of the wanted documents in the batch, int64 (m,), or None for all."""

    @property
    def documents(self) -> int:
        """The number of documents, whether they are wanted or not."""
        return len(self.shingles)


@dataclass(frozen=True)
class BuildKept(Task):
    """A task that builds sets from kept hashes.

    Attributes:
        folder: Folder of the files of hashes.
    """

    folder: Path

    @cached_property
    def _builders(self) -> "ObjectPool[_SetBuilder]":
        return ObjectPool(_SetBuilder)

    def __call__(self, part: _KeptPart) -> Iterator[Payload]:
        """Yields the sets of the wanted documents of a batch."""
        yield self._builders.use(lambda builder: self._build(part, builder))

    def _build(self, part: _KeptPart, builder: "_SetBuilder") -> Payload:
        sizes = [np.empty(0, np.int64)]
        hashes = [np.empty(0, np.uint64)]
        first = 0
        for kept in part.batch.slices:
            rows = np.arange(kept.documents)
            if part.wanted is not None:
                rows = wanted_rows(part.wanted, first, kept.documents)
            if len(rows):
                counts = part.shingles[first : first + kept.documents]
                sets = self._build_sets(kept, counts, rows, builder)
                sizes.append(sets.sizes)
                hashes.append(sets.hashes)
            first += kept.documents
        return Payload(np.concatenate(sizes), (np.concatenate(hashes),))

    def _build_sets(
        self, kept: _KeptSlice, counts: np.ndarray, rows: np.ndarray, builder: "_SetBuilder"
    ) -> ShingleSets:
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        count = int(offsets[-1])
        words = kept.words
        if words is None:
            mapped = map_file(self.folder / kept.file, np.uint16)
            words = mapped[kept.position : kept.position + _word_count(count)]
        upper, lower = _halves(words, count)
        return builder.build(upper, lower, offsets, rows)


@dataclass(frozen=True)
class KeptPayloads:
    """A source of payloads that makes sets from kept hashes, see `PayloadSource`.

    Attributes:
        shingles: Number of shingles of each document, uint32 (n,).
    """

    task: BuildKept
    batches: list[_KeptBatch]
    shingles: np.ndarray
    workers: int

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`."""

        def build(part: _KeptPart) -> Result:
            (payload,) = self.task(part)
            return work(PayloadBatch(part.batch.first, part.documents, payload))

        yield from ordered_map(build, self.parts(wanted), self.workers)

    def parts(self, wanted: np.ndarray | None) -> Iterator[_KeptPart]:
        """Yields the parts of the source, as described in `DividedSource`."""
        for batch in self.batches:
            documents = sum(part.documents for part in batch.slices)
            rows = None if wanted is None else wanted_rows(wanted, batch.first, documents)
            counts = np.asarray(self.shingles[batch.first : batch.first + documents])
            yield _KeptPart(batch, counts, rows)


class _SetBuilder:
    """A builder of sets from truncated hashes. It owns buffers, so each thread needs its own."""

    def __init__(self) -> None:
        self._bucket_ends = np.empty(SORT_BUCKETS, np.int64)
        self._document = np.empty(1 << 14, np.uint64)

    def build(
        self, upper: np.ndarray, lower: np.ndarray, offsets: np.ndarray, rows: np.ndarray
    ) -> ShingleSets:
        """Returns the sets of some documents of a slice.

        Args:
            upper: Upper 32 bits of the hashes, uint32 (total,).
            lower: Lower 16 bits of the hashes, uint16 (total,).
            offsets: First hash of each document, and the end, int64 (n + 1,).
            rows: Positions of the documents in the slice, int64 (r,).
        """
        counts = offsets[rows + 1] - offsets[rows]
        longest = int(counts.max())
        if longest > len(self._document):
            self._document = np.empty(longest, np.uint64)
        sizes = np.empty(len(rows), np.int64)
        hashes = np.empty(int(counts.sum()), np.uint64)
        total = kernels.sets_of_truncated(
            upper, lower, offsets, rows, self._bucket_ends, self._document, sizes, hashes
        )
        return ShingleSets(hashes[:total], sizes)


def _word_count(hashes: int) -> int:
    """Returns the number of 16-bit words of a slice, which is even."""
    words = WORDS_PER_HASH * hashes
    return words + words % 2


def _halves(words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the upper 32 bits and the lower 16 bits of the hashes of a slice, as views.

    Args:
        words: Words of the slice, uint16.
    """
    return words[: 2 * count].view(np.uint32), words[2 * count : WORDS_PER_HASH * count]
