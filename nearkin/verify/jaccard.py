"""Exact Jaccard similarity on recomputed shingle sets, for candidate pairs."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.packed_pairs import PAIRS_PER_BATCH, ScoredPairs
from nearkin.shingle import Shingler
from nearkin.sketch.sketcher import iterate_shingles
from nearkin.verify import kernels


class Sets(NamedTuple):
    """Sorted distinct shingle hashes of documents, one after the other."""

    hashes: np.ndarray
    """uint64 (total,)"""
    sizes: np.ndarray
    """int64 (n,)"""


def distinct_sets(hashes: np.ndarray, offsets: np.ndarray) -> Sets:
    """The distinct hashes of each document.

    Examples:
        >>> [part.tolist() for part in distinct_sets(np.array([7, 5, 7, 9], np.uint64), np.array([0, 3, 3, 4]))]
        [[5, 7, 9], [2, 0, 1]]
    """
    out, sizes = np.empty(len(hashes), np.uint64), np.empty(len(offsets) - 1, np.int64)
    return Sets(out[: kernels.distinct_sets(hashes, offsets, np.empty(1 << 16, np.int64), sizes, out)], sizes)


class SetBuilder:
    """Documents to their exact payload; one for each thread."""

    def __init__(self, shingler: Shingler) -> None:
        self.shingler = shingler
        self.ends = np.empty(1 << 16, np.int64)

    def sets(self, documents: pa.Array) -> Sets:
        """The payloads of text (large_string) or token lists (large_list)."""
        parts, sizes = [], np.empty(len(documents), np.int64)
        for start, shingles in iterate_shingles(self.shingler, documents):
            out = np.empty(len(shingles.hashes), np.uint64)
            into = sizes[start : start + len(shingles.offsets) - 1]
            total = kernels.distinct_sets(shingles.hashes, shingles.offsets, self.ends, into, out)
            parts.append(out[:total])
        return Sets(np.concatenate(parts) if parts else np.empty(0, np.uint64), sizes)


def overlaps(pairs: np.ndarray, place: np.ndarray, starts: np.ndarray, hashes: np.ndarray) -> ScoredPairs:
    """Exact overlap of each pair.

    Args:
        pairs: uint64 (m,), packed.
        place: int64 or uint32 (documents,): where each document's set stands among the stored ones.
        starts: int64 (stored + 1,).
        hashes: uint64 (starts[-1],).
    """
    out = ScoredPairs(pairs, np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64))
    kernels.overlaps(pairs, place, starts, hashes, out.intersection, out.union)
    return out


def slabs(starts: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of documents whose pairs with all later ones fit PAIRS_PER_BATCH and whose payloads fit some rows.

    A range holds one document at least, however large it is.

    Args:
        starts: int64 (n + 1,): where the payload of each document begins.
        rows: Maximum number of rows of the payloads of a range.

    Examples:
        >>> list(slabs(np.array([0, 3, 4, 9, 10]), 5))
        [(0, 2), (2, 3), (3, 4)]
    """
    n = len(starts) - 1
    later = np.concatenate([[0], np.cumsum(np.arange(n - 1, -1, -1))])
    first = 0
    while first < n:
        by_rows = np.searchsorted(starts, starts[first] + rows, side="right") - 1
        by_pairs = np.searchsorted(later, later[first] + PAIRS_PER_BATCH, side="right") - 1
        last = max(first + 1, int(min(by_rows, by_pairs, n)))
        yield first, last
        first = last
