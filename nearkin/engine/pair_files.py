"""Files of pairs between the stages: a spool of candidate pairs, and scored pairs."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from nearkin.engine.work_folder import map_file
from nearkin.stages.packed_pairs import (
    PAIRS_PER_BATCH,
    ScoredPairs,
    isin_sorted,
    sorted_unique,
    unpack_pairs,
)

SCORED_FILES = {"pairs": np.uint64, "shared": np.float64, "joint": np.float64}
"""The files of scored pairs, in the order of the fields of ScoredPairs. float64 holds the whole
numbers of sets exactly."""
SPILL_PARTITIONS = 64
RANGE_SAMPLES = 1000
"""Number of sampled pairs for each range into which a partition is divided."""


class PairSpool:
    """A collection of packed pairs, which is returned sorted and without repetitions.

    Pairs that do not fit into memory are written to disk, in partitions by their smaller number.
    """

    def __init__(self, folder: Path, documents: int, limit: int) -> None:
        self._folder = folder
        self._limit = max(1, limit)
        self._documents = max(1, documents)
        self._pending: list[np.ndarray] = []
        self._count = 0
        self._spilled = 0
        self.partitions = 1
        for stale in folder.glob("part-*"):
            stale.unlink()

    def add(self, pairs: np.ndarray) -> None:
        """Adds packed pairs, uint64 (m,), and spills to disk if there are more than the limit."""
        if len(pairs):
            self._pending.append(pairs)
            self._count += len(pairs)
        if self._count > self._limit:
            self._compact()

    def _compact(self) -> None:
        """Drops repeated pairs, which often makes room. Spills if this is not enough."""
        pairs = sorted_unique(np.concatenate(self._pending))
        self._pending = [pairs]
        self._count = len(pairs)
        if len(pairs) > self._limit // 2:
            self._spill(pairs)

    def _spill(self, pairs: np.ndarray) -> None:
        if self.partitions == 1:
            self.partitions = SPILL_PARTITIONS
        for number, chunk in self._split(pairs):
            with self._partition_path(number).open("ab") as file:
                file.write(chunk.data)
        self._spilled += len(pairs)
        self._pending = []
        self._count = 0

    def _split(self, pairs: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        numbers = np.linspace(0, self._documents, self.partitions + 1).astype(np.uint64)
        cuts = np.searchsorted(pairs, numbers << np.uint64(32))
        for partition, (low, high) in enumerate(itertools.pairwise(cuts)):
            if high > low:
                yield partition, pairs[low:high]

    def _partition_path(self, number: int) -> Path:
        return self._folder / f"part-{number:04d}"

    def sorted(self) -> Iterator[np.ndarray]:
        """Yields the distinct pairs in order, in arrays of a bounded size."""
        if not self._spilled:
            if self._pending:
                yield sorted_unique(np.concatenate(self._pending))
            return
        if self._pending:
            self._spill(sorted_unique(np.concatenate(self._pending)))
        for number in range(self.partitions):
            path = self._partition_path(number)
            if path.exists():
                yield from self._sorted_partition(map_file(path, np.uint64))

    def _sorted_partition(self, pairs: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the distinct pairs of a partition in order, in ranges that fit into memory.

        A sample decides the ranges, because the pairs of a large bucket are not spread evenly over
        the documents. Each range is selected by one pass over the partition.
        """
        ranges = -(-len(pairs) // self._limit)
        sample = np.sort(pairs[:: max(1, len(pairs) // (ranges * RANGE_SAMPLES))])
        cuts = sorted_unique(sample[len(sample) * np.arange(1, ranges) // ranges])
        for number in range(len(cuts) + 1):
            parts = []
            for start in range(0, len(pairs), PAIRS_PER_BATCH):
                portion = np.asarray(pairs[start : start + PAIRS_PER_BATCH])
                parts.append(portion[np.searchsorted(cuts, portion, "right") == number])
            yield sorted_unique(np.concatenate(parts))


def write_pairs(path: Path, spool: PairSpool) -> np.ndarray:
    """Writes the pairs of a spool, and returns them sorted and mapped from disk, uint64 (m,)."""
    with path.open("wb") as file:
        for pairs in spool.sorted():
            file.write(pairs.data)
    return map_file(path, np.uint64)


class BucketWriter:
    """A writer of the documents of buckets, one bucket after the other."""

    def __init__(self, folder: Path) -> None:
        self._members = (folder / "members").open("wb")
        self._sizes = (folder / "sizes").open("wb")

    def __enter__(self) -> "BucketWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._members.close()
        self._sizes.close()

    def add(self, members: np.ndarray) -> None:
        """Appends a bucket, given by the numbers of its documents, uint64 (m,)."""
        self._members.write(members.astype(np.uint32).data)
        self._sizes.write(np.int64(len(members)).tobytes())


class StoredBuckets(NamedTuple):
    """The documents of buckets, mapped from disk."""

    members: np.ndarray
    """The numbers of the documents, one bucket after the other, uint32 (m,)."""
    starts: np.ndarray
    """The position of each bucket's first document, and the total, int64 (buckets + 1,)."""

    @classmethod
    def read(cls, folder: Path) -> "StoredBuckets":
        """Returns the buckets that a `BucketWriter` wrote into a folder."""
        sizes = map_file(folder / "sizes", np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return cls(map_file(folder / "members", np.uint32), starts)

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return len(self.starts) - 1

    def bucket(self, number: int) -> np.ndarray:
        """Returns the documents of one bucket, uint32 (m,)."""
        return np.asarray(self.members[self.starts[number] : self.starts[number + 1]])


class ScoredWriter:
    """A writer of scored pairs, one file for each of their columns."""

    def __init__(self, folder: Path) -> None:
        self.pairs = 0
        """The number of pairs that were written."""
        self._files: dict[str, BinaryIO] = {
            name: (folder / name).open("wb") for name in SCORED_FILES
        }

    def __enter__(self) -> "ScoredWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, scored: ScoredPairs) -> None:
        """Appends scored pairs, which follow those that were written before."""
        self.pairs += len(scored.pairs)
        for (name, dtype), column in zip(SCORED_FILES.items(), scored, strict=True):
            self._files[name].write(np.ascontiguousarray(column, dtype).data)


class KnownPairs(NamedTuple):
    """The scored pairs of documents that another run has compared."""

    compared: np.ndarray
    """Which documents it compared with each other, bool (n,)."""
    scored: ScoredPairs

    def among(self, documents: np.ndarray) -> ScoredPairs:
        """Returns the scored pairs of which both documents are among some, bool (n,)."""
        first, second = unpack_pairs(self.scored.pairs)
        return self.scored.select(documents[first] & documents[second])


def merge_scored(folder: Path, new: ScoredPairs) -> int:
    """Merges scored pairs into those of a folder."""
    known = read_scored(folder)
    added = 0
    staged = folder.with_name(folder.name + ".next")
    staged.mkdir(exist_ok=True)
    known_cuts = list(range(PAIRS_PER_BATCH, len(known.pairs), PAIRS_PER_BATCH))
    new_cuts = np.searchsorted(new.pairs, known.pairs[known_cuts]).tolist() if known_cuts else []
    known_bounds = itertools.pairwise([0, *known_cuts, len(known.pairs)])
    new_bounds = itertools.pairwise([0, *new_cuts, len(new.pairs)])
    with ScoredWriter(staged) as writer:
        for (low, high), (first, last) in zip(known_bounds, new_bounds, strict=True):
            known_part = known.select(slice(low, high))
            new_part = new.select(slice(first, last))
            is_new = ~isin_sorted(new_part.pairs, np.asarray(known_part.pairs))
            new_part = new_part.select(is_new)
            added += len(new_part.pairs)
            merged = ScoredPairs.concatenate([known_part, new_part])
            writer.add(merged.select(np.argsort(merged.pairs)))
    for name in SCORED_FILES:
        (staged / name).replace(folder / name)
    staged.rmdir()
    return added


def read_scored(folder: Path) -> ScoredPairs:
    """Returns the scored pairs of a folder, mapped from disk."""
    return ScoredPairs._make(map_file(folder / name, dtype) for name, dtype in SCORED_FILES.items())
