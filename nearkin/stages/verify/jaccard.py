"""The exact Jaccard similarity of candidate pairs, from shingle sets that are computed again."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, ScoredPairs
from nearkin.stages.shingle import Shingler
from nearkin.stages.sketch.sketcher import iterate_shingles
from nearkin.stages.verify import kernels

SORT_BUCKETS = 1 << 16
"""The largest number of buckets of the bucket sort of one document's hashes."""


class ShingleSets(NamedTuple):
    """The sorted distinct shingle hashes of documents, one document after the other."""

    hashes: np.ndarray
    """uint64 (total,): The hashes."""
    sizes: np.ndarray
    """int64 (n,): The number of hashes of each document."""


def distinct_sets(hashes: np.ndarray, offsets: np.ndarray) -> ShingleSets:
    """Returns the sorted distinct hashes of each document.

    Examples:
        >>> sets = distinct_sets(np.array([7, 5, 7, 9], np.uint64), np.array([0, 3, 3, 4]))
        >>> [column.tolist() for column in sets]
        [[5, 7, 9], [2, 0, 1]]
    """
    out = np.empty(len(hashes), np.uint64)
    sizes = np.empty(len(offsets) - 1, np.int64)
    total = kernels.distinct_sets(hashes, offsets, np.empty(SORT_BUCKETS, np.int64), sizes, out)
    return ShingleSets(out[:total], sizes)


class SetBuilder:
    """A builder of shingle sets. It owns buffers, so each thread needs its own."""

    def __init__(self, shingler: Shingler) -> None:
        self.shingler = shingler
        self._bucket_ends = np.empty(SORT_BUCKETS, np.int64)

    def build(self, documents: pa.Array) -> ShingleSets:
        """Returns the shingle sets of texts (large_string) or token lists (large_list)."""
        parts = [np.empty(0, np.uint64)]
        sizes = np.empty(len(documents), np.int64)
        for start, shingles in iterate_shingles(self.shingler, documents):
            out = np.empty(len(shingles.hashes), np.uint64)
            sizes_of_slice = sizes[start : start + len(shingles.offsets) - 1]
            total = kernels.distinct_sets(
                shingles.hashes, shingles.offsets, self._bucket_ends, sizes_of_slice, out
            )
            parts.append(out[:total])
        return ShingleSets(np.concatenate(parts), sizes)


def compare_sets(
    pairs: np.ndarray, place: np.ndarray, starts: np.ndarray, hashes: np.ndarray
) -> ScoredPairs:
    """Computes the sizes of the intersection and of the union of each pair of sets.

    Args:
        pairs: Packed pairs of document numbers, uint64 (m,).
        starts: First hash of each stored set, and the end, int64 (stored + 1,).
        hashes: Sorted distinct hashes of the stored sets, uint64 (starts[-1],).

    Returns:
        The pairs with |A ∩ B| and |A ∪ B|, int64 (m,).
    """
    scored = ScoredPairs(pairs, np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64))
    kernels.overlaps(pairs, place, starts, hashes, scored.intersection, scored.union)
    return scored


def document_ranges(starts: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of documents for brute force, by the first row of each payload and the end.

    The pairs of a range with all later documents are at most PAIRS_PER_BATCH, and its payloads have
    at most `rows` rows. A range contains at least one document, however large it is.

    Examples:
        >>> list(document_ranges(np.array([0, 3, 4, 9, 10]), 5))
        [(0, 2), (2, 3), (3, 4)]
    """
    n = len(starts) - 1
    pairs_before = np.concatenate([[0], np.cumsum(np.arange(n - 1, -1, -1))])
    first = 0
    while first < n:
        by_rows = np.searchsorted(starts, starts[first] + rows, side="right") - 1
        most_pairs = pairs_before[first] + PAIRS_PER_BATCH
        by_pairs = np.searchsorted(pairs_before, most_pairs, side="right") - 1
        last = max(first + 1, int(min(by_rows, by_pairs, n)))
        yield first, last
        first = last
