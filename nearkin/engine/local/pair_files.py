"""Pairs between stages: a spool that keeps them in memory up to a bound, then on disk in partitions, and scored pairs."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nearkin.engine.local.work_folder import map_file
from nearkin.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, isin_sorted, sorted_unique

SCORED_FILES = {"pairs": np.uint64, "shared": np.float64, "joint": np.float64}
"""The files of scored pairs, in the order of the fields of ScoredPairs. float64 holds the whole numbers of sets exactly."""


class PairSpool:
    """Collects packed pairs, gives them back sorted and distinct, one partition (a range of smaller ordinals) at a time.

    Args:
        folder: Where partitions go when they do not fit.
        documents: How many ordinals there are.
        limit: Pairs kept in memory.
    """

    def __init__(self, folder: Path, documents: int, limit: int) -> None:
        self._folder = folder
        self._limit = max(1, limit)
        self._documents = max(1, documents)
        self._held: list[np.ndarray] = []
        self._count = 0
        self._spilled = 0
        self.partitions = 1
        for stale in folder.glob("part-*"):
            stale.unlink()

    def add(self, pairs: np.ndarray) -> None:
        """Takes some pairs; spills everything held once there are more than the limit."""
        if len(pairs):
            self._held.append(pairs)
            self._count += len(pairs)
        if self._count > self._limit:
            self._compact()

    def _compact(self) -> None:
        """Dropping repeats often makes room; what is still too much goes to disk."""
        held = sorted_unique(np.concatenate(self._held))
        self._held, self._count = [held], len(held)
        if len(held) > self._limit // 2:
            self._spill(held)

    def _spill(self, pairs: np.ndarray) -> None:
        if self.partitions == 1:
            self.partitions = 64
        for part, chunk in self._split(pairs):
            with self._file(part).open("ab") as file:
                file.write(chunk.data)
        self._spilled += len(pairs)
        self._held, self._count = [], 0

    def _split(self, pairs: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        bounds = np.linspace(0, self._documents, self.partitions + 1).astype(np.uint64) << np.uint64(32)
        cuts = np.searchsorted(pairs, bounds)
        for part, (low, high) in enumerate(itertools.pairwise(cuts)):
            if high > low:
                yield part, pairs[low:high]

    def _file(self, part: int) -> Path:
        return self._folder / f"part-{part:04d}"

    def sorted(self) -> Iterator[np.ndarray]:
        """The distinct pairs in order, as arrays."""
        if self._spilled:
            if self._held:
                self._spill(sorted_unique(np.concatenate(self._held)))
            for part in range(self.partitions):
                if self._file(part).exists():
                    yield sorted_unique(np.fromfile(self._file(part), np.uint64))
        elif self._held:
            yield sorted_unique(np.concatenate(self._held))


class ScoredWriter:
    """Appends scored pairs to three files."""

    def __init__(self, folder: Path) -> None:
        self.pairs = 0
        self._files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in SCORED_FILES}

    def __enter__(self) -> "ScoredWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, scored: ScoredPairs) -> None:
        """Appends in order."""
        self.pairs += len(scored.pairs)
        for (name, dtype), column in zip(SCORED_FILES.items(), scored, strict=True):
            self._files[name].write(np.ascontiguousarray(column, dtype).data)


def merge_scored(folder: Path, fresh: ScoredPairs) -> int:
    """Adds scored pairs (sorted) to those of a folder, in order; returns how many were new."""
    held, count = read_scored(folder), 0
    staged = folder.with_name(folder.name + ".next")
    staged.mkdir(exist_ok=True)
    with ScoredWriter(staged) as writer:
        cuts = [*range(0, len(held.pairs), PAIRS_PER_BATCH)][1:]
        places = np.searchsorted(fresh.pairs, held.pairs[cuts]) if cuts else np.empty(0, np.int64)
        bounds = zip([0, *cuts], [*cuts, len(held.pairs)], [0, *places], [*places, len(fresh.pairs)], strict=True)
        for low, high, first, last in bounds:
            known, some = held.select(slice(low, high)), fresh.select(slice(first, last))
            some = some.select(~isin_sorted(some.pairs, np.asarray(known.pairs)))
            count += len(some.pairs)
            joint = ScoredPairs.concatenate([known, some])
            writer.add(joint.select(np.argsort(joint.pairs)))
    for name in SCORED_FILES:
        (staged / name).replace(folder / name)
    staged.rmdir()
    return count


def read_scored(folder: Path) -> ScoredPairs:
    """The scored pairs of a folder, mapped."""
    return ScoredPairs(*(map_file(folder / name, dtype) for name, dtype in SCORED_FILES.items()))
