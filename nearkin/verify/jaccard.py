"""Exact Jaccard similarity on recomputed shingle sets, for candidate pairs."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.shingle import Shingler
from nearkin.sketch.sketcher import iterate_shingles
from nearkin.verify import kernels

PAIRS_AT_ONCE = 1 << 20


class Overlaps(NamedTuple):
    """Packed pairs (smaller ordinal << 32 | larger) and the integers that their similarity is the quotient of."""

    pairs: np.ndarray
    """uint64 (m,)"""
    shared: np.ndarray
    """int64 (m,): |A ∩ B|, or agreeing slots where the similarity is an estimate."""
    joint: np.ndarray
    """int64 (m,): |A ∪ B|, or k."""

    @property
    def similarity(self) -> np.ndarray:
        """float64 (m,); 0 for two empty sets."""
        return np.divide(self.shared, self.joint, out=np.zeros(len(self.pairs)), where=self.joint > 0)

    def where(self, keep: "np.ndarray | slice") -> "Overlaps":
        """The pairs at which `keep` is true, or in its order if it holds positions."""
        return Overlaps(self.pairs[keep], self.shared[keep], self.joint[keep])

    def at_least(self, threshold: float) -> np.ndarray:
        """Returns which pairs reach a threshold, bool (m,); see `reaches`."""
        return reaches(self.shared, self.joint, threshold)

    @staticmethod
    def concatenate(parts: "list[Overlaps]") -> "Overlaps":
        """All the pairs of the parts, in order."""
        if not parts:
            return Overlaps(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
        return Overlaps(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def reaches(shared: np.ndarray, joint: np.ndarray, threshold: float | np.ndarray) -> np.ndarray:
    """Returns which similarities reach a threshold, as exact arithmetic with the fraction that was written would decide.

    A product `threshold * joint` would be rounded: 0.55 · 20 is 11.000000000000002. The quotient is rounded too, but in the
    same way as the threshold was when it was read. IEEE 754 division is correctly rounded, hence monotonic: shared / joint ≥
    p / q implies float(shared / joint) ≥ float(p / q). The reverse fails only if the fractions differ by less than 2^-53, and
    different fractions differ by at least 1 / (joint · q). So the test is exact while joint · q < 2^53: for sets of up to 2^32
    shingles and thresholds of up to six decimals.

    Args:
        shared: Size or weight of the intersection, (m,).
        joint: Size or weight of the union, (m,).
        threshold: Minimum similarity, in (0, 1].

    Examples:
        >>> reaches(np.array([4, 3]), np.array([5, 5]), 0.8).tolist()
        [True, False]
        >>> reaches(np.array([11, 14, 81]), np.array([20, 25, 100]), np.array([0.55, 0.56, 0.81])).tolist()
        [True, True, True]
    """
    quotients = np.divide(shared, joint, out=np.full(np.shape(joint), -1.0), where=joint > 0)
    return np.asarray(quotients >= threshold)


def distinct(values: np.ndarray) -> np.ndarray:
    """Sorted, each once. (np.unique hashes integers, which takes ten times as long on millions.)"""
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def inside(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """bool: which values are among sorted ones."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values)


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


def overlaps(pairs: np.ndarray, place: np.ndarray, starts: np.ndarray, hashes: np.ndarray) -> Overlaps:
    """Exact overlap of each pair.

    Args:
        pairs: uint64 (m,), packed.
        place: int64 or uint32 (documents,): where each document's set stands among the stored ones.
        starts: int64 (stored + 1,).
        hashes: uint64 (starts[-1],).
    """
    out = Overlaps(pairs, np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64))
    kernels.overlaps(pairs, place, starts, hashes, out.shared, out.joint)
    return out


def slabs(starts: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of documents whose pairs with all later ones fit PAIRS_AT_ONCE and whose payloads fit some rows.

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
        by_pairs = np.searchsorted(later, later[first] + PAIRS_AT_ONCE, side="right") - 1
        last = max(first + 1, int(min(by_rows, by_pairs, n)))
        yield first, last
        first = last
