"""The documents of a run and of a reference, and those of both sides that have keys in common.

The keys are band keys, or words that are equal if contents or values of columns are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearkin.engine.candidates import SignatureComparison, write_keys
from nearkin.engine.documents import Documents
from nearkin.engine.exact_groups import hash_copy_keys
from nearkin.engine.options import RunOptions
from nearkin.engine.work_folder import WorkFolder, map_file
from nearkin.runtime.executor import Executor, Task
from nearkin.stages.lsh.key_sets import BYTES_PER_KEY, KeySet
from nearkin.stages.packed_pairs import isin_sorted

MEMORY_SHARE = 4
"""Band keys of the run's documents take at most one part in so many of the memory bound."""
DOCUMENTS_AT_ONCE = 1 << 16
"""The number of documents whose keys or facts are processed at a time."""


class Side(NamedTuple):
    """Some documents of the run, or of a reference."""

    documents: Documents
    blocks: np.ndarray
    """The hash of each document's block, uint64 (n,)."""
    copy_keys: np.ndarray
    """The hash of what exact duplicates share beside their content, uint64 (n,)."""
    selected: np.ndarray
    """The numbers of the documents that are compared, ascending, int64 (m,)."""

    @classmethod
    def of(
        cls,
        documents: Documents,
        options: RunOptions,
        blocks: np.ndarray,
        is_selected: np.ndarray,
    ) -> "Side":
        """Returns a side.

        Args:
            blocks: Hash of each document's block, uint64 (n,).
            is_selected: Which documents are compared, bool (n,).
        """
        copy_keys = hash_copy_keys(documents, options, blocks)
        return cls(documents, blocks, copy_keys, np.flatnonzero(is_selected))

    def select(self, is_selected: np.ndarray) -> "Side":
        """Returns the side with some of its documents, by a mask over all documents."""
        return self._replace(selected=self.selected[is_selected[self.selected]])


@dataclass(frozen=True)
class KeyedSide(Task):
    """The band keys of a side, in files.

    Attributes:
        comparison: The bands of its signatures.
        work: Folder of the keys.
    """

    comparison: SignatureComparison
    work: WorkFolder

    @classmethod
    def write(
        cls,
        side: Side,
        comparison: SignatureComparison,
        options: RunOptions,
        folder: Path,
        executor: Executor,
    ) -> "KeyedSide":
        """Writes the band keys of a side into a folder."""
        work = WorkFolder.create(folder, {}, durable=False)
        work.save("selected", side.selected)
        if options.bands_by_block:
            work.save("blocks", side.blocks)
        write_keys(comparison, work, executor, is_salted=options.bands_by_block)
        return cls(comparison, work)

    @cached_property
    def selected(self) -> np.ndarray:
        """The numbers of the documents that are compared, ascending, int64 (m,)."""
        return self.work.load("selected")

    def open_keys(self, band: int) -> np.ndarray:
        """Returns the keys of all documents in a band, uint64 (n, 1 + probes), mapped."""
        path = self.work.path / self.comparison.keys_folder / f"{band:04d}"
        return map_file(path, np.uint64, self.comparison.keys_per_document)


class _BandPortion(NamedTuple):
    """Some of the selected documents of the run in one band."""

    band: int
    rows: slice


@dataclass(frozen=True)
class MatchKeys(Task):
    """A task that finds documents of both sides that have a key in common in one band."""

    own: KeyedSide
    other: KeyedSide

    def __call__(self, portion: _BandPortion) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of some documents of the run, and of documents of the reference."""
        numbers = self.own.selected[portion.rows]
        own_keys = self.own.open_keys(portion.band)
        key_set = KeySet.of(own_keys[numbers])
        other_keys = self.other.open_keys(portion.band)
        others = _find_keys(key_set, other_keys, self.other.selected)
        return _find_keys(key_set.seen(), own_keys, numbers), others


def mark_common_keys(
    own: KeyedSide,
    other: KeyedSide,
    is_own: np.ndarray,
    is_other: np.ndarray,
    memory: int,
    executor: Executor,
) -> None:
    """Marks the documents of both sides that have a band key in common.

    Args:
        is_own: Which documents of the run are marked, bool (n,).
        memory: Memory bound of the run, in bytes.
    """
    comparison = own.comparison
    keys_at_once = memory // MEMORY_SHARE // executor.workers // BYTES_PER_KEY
    step = max(1, keys_at_once // comparison.keys_per_document)
    portions = (
        _BandPortion(band, slice(start, start + step))
        for band in range(comparison.banding.bands)
        for start in range(0, len(own.selected), step)
    )
    for own_numbers, other_numbers in executor.map(MatchKeys(own, other), portions):
        is_own[own_numbers] = True
        is_other[other_numbers] = True


def _find_keys(key_set: KeySet, keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Returns those of some documents that have a key of a set, and marks the keys.

    Args:
        keys: Keys of all documents, uint64 (n, 1 + probes).
        numbers: Numbers of the documents, ascending, int64 (m,).
    """
    found = [numbers[:0]]
    for portion in split_numbers(numbers):
        is_matched = np.zeros(len(portion), bool)
        key_set.mark(keys[portion], is_matched)
        found.append(portion[is_matched])
    return np.concatenate(found)


def find_equal(
    ours: Side, theirs: Side, own_words: np.ndarray, other_words: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns all pairs of documents of both sides that have equal words.

    Documents whose copy keys differ make no pair.

    Args:
        own_words: Words of all documents of the run, uint64 (n, 2).
        other_words: Words of all documents of the reference, uint64 (m, 2).

    Returns:
        The numbers of the documents of the run, ascending, and those of the reference, int64 each.
    """
    key_set = KeySet.of(np.asarray(own_words[ours.selected, 0]))
    is_matched = np.zeros(len(theirs.documents), bool)
    for start, end in theirs.documents.chunks():
        key_set.mark(np.asarray(other_words[start:end, :1]), is_matched[start:end])
    equals = theirs.select(is_matched).selected
    seen = key_set.seen().keys
    candidates = ours.selected[isin_sorted(np.asarray(own_words[ours.selected, 0]), seen)]
    own_keys = combine_keys(ours, candidates, own_words)
    their_keys = combine_keys(theirs, equals, other_words)
    order = np.argsort(their_keys, kind="stable")
    ordered = their_keys[order]
    first = np.searchsorted(ordered, own_keys, "left")
    counts = np.searchsorted(ordered, own_keys, "right") - first
    rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return np.repeat(candidates, counts), equals[order[rows]]


def combine_keys(side: Side, numbers: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Returns words and copy keys of documents as values that can be sorted.

    Args:
        numbers: Numbers of the documents, int64 (m,).
        words: Words of all documents of the side, uint64 (n, 2).
    """
    keys = np.empty(len(numbers), [("first", "u8"), ("second", "u8"), ("copy", "u8")])
    keys["first"] = words[numbers, 0]
    keys["second"] = words[numbers, 1]
    keys["copy"] = side.copy_keys[numbers]
    return keys


def split_numbers(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Yields numbers of documents in portions that are small enough to process at a time."""
    for start in range(0, len(numbers), DOCUMENTS_AT_ONCE):
        yield numbers[start : start + DOCUMENTS_AT_ONCE]
