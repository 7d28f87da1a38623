"""The documents of a run and of a reference, and those of both sides that have keys in common.

The keys are band keys, or words that are equal if contents or values of columns are.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nearkin.engine.banding import build_band_keys
from nearkin.engine.candidates import SignatureComparison
from nearkin.engine.documents import Documents
from nearkin.engine.exact_groups import hash_copy_keys
from nearkin.engine.options import RunOptions
from nearkin.runtime.threads import ordered_map
from nearkin.stages.lsh.key_sets import BYTES_PER_KEY, KeySet
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
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


class KeyComparison(NamedTuple):
    """A search for documents of two sides that have a band key in common."""

    own: Side
    """The documents of the run."""
    other: Side
    """The documents of the reference."""
    banding: Banding
    measure: Measure
    """The measure of the run, or of one of the fields that find candidate pairs."""
    options: RunOptions
    """The options of the run, or of a run over this field."""
    number: int
    """The number of the field."""

    def mark(self, is_own: np.ndarray, is_other: np.ndarray) -> None:
        """Marks the documents of both sides that have a band key in common.

        Args:
            is_own: Which documents of the run are marked, bool (n,).
        """
        keys = len(self.own.selected) * (1 + self.banding.probes)
        memory = self.options.memory // MEMORY_SHARE
        bands_at_once = max(1, memory // max(1, keys * BYTES_PER_KEY))
        for first in range(0, self.banding.bands, bands_at_once):
            bands = range(first, min(first + bands_at_once, self.banding.bands))
            key_sets = self._collect_keys(bands)
            self._mark_documents(self.other, bands, key_sets, is_other)
            seen = [key_set.seen() for key_set in key_sets]
            self._mark_documents(self.own, bands, seen, is_own)

    def _collect_keys(self, bands: range) -> list[KeySet]:
        """Returns the set of the keys that the run's documents have in each of some bands."""
        keys_of_bands: list[list[np.ndarray]] = [[] for _ in bands]

        def build_keys(numbers: np.ndarray) -> np.ndarray:
            return self._build_keys(self.own, numbers)[bands.start : bands.stop].copy()

        chunks = split_numbers(self.own.selected)
        for keys in ordered_map(build_keys, chunks, self.options.workers):
            for parts, band_keys in zip(keys_of_bands, keys, strict=True):
                parts.append(band_keys.ravel())
        return [
            KeySet.of(np.concatenate([np.empty(0, np.uint64), *parts])) for parts in keys_of_bands
        ]

    def _mark_documents(
        self, side: Side, bands: range, key_sets: Sequence[KeySet], is_marked: np.ndarray
    ) -> None:
        """Marks the documents of a side that have a key of a set."""

        def mark(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            is_matched = np.zeros(len(numbers), bool)
            keys = self._build_keys(side, numbers)
            for band, key_set in zip(bands, key_sets, strict=True):
                key_set.mark(keys[band], is_matched)
            return numbers, is_matched

        chunks = split_numbers(side.selected)
        for numbers, is_matched in ordered_map(mark, chunks, self.options.workers):
            is_marked[numbers] |= is_matched

    def _build_keys(self, side: Side, numbers: np.ndarray) -> np.ndarray:
        """Returns the band keys of some documents, uint64 (bands, n, 1 + probes)."""
        comparison = SignatureComparison.create(
            self.measure, self.banding, side.documents, self.options, self.number
        )
        sketched_keys = comparison.sketched_keys
        salts = side.blocks[numbers]
        if not self.options.bands_by_block:
            salts = np.zeros_like(salts)
        return build_band_keys(
            comparison.band_layout,
            self.banding,
            np.ascontiguousarray(comparison.signatures[numbers]),
            None if sketched_keys is None else sketched_keys[numbers],
            salts,
        )


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
