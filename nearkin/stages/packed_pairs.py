"""Pairs of documents as packed integers, their similarities, and sorted sets of them.

A packed pair is one uint64: the smaller document number in the high 32 bits and the larger one in
the low 32 bits. Sorting packed pairs orders them by their first document, then by their second one.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

PAIRS_PER_BATCH = 1 << 20
"""The number of pairs that a step compares, reads or writes at once.

Results do not depend on it.
"""


def pack_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Packs pairs of document numbers, uint64 (m,).

    The smaller number is shifted left by 32 bits, and or'ed with the larger one.

    Examples:
        >>> [hex(pair) for pair in pack_pairs(np.array([7, 1]), np.array([2, 3])).tolist()]
        ['0x200000007', '0x100000003']
    """
    smaller = np.minimum(a, b).astype(np.uint64, copy=False)
    larger = np.maximum(a, b).astype(np.uint64, copy=False)
    return (smaller << np.uint64(32)) | larger


def unpack_pairs(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unpacks pairs into the smaller and the larger document number of each, int64 (m,).

    Examples:
        >>> [numbers.tolist() for numbers in unpack_pairs(np.array([0x2_00000007], np.uint64))]
        [[2], [7]]
    """
    smaller = (pairs >> np.uint64(32)).astype(np.int64)
    larger = (pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return smaller, larger


def sorted_unique(values: np.ndarray) -> np.ndarray:
    """Returns the distinct values in ascending order.

    NumPy's `unique` hashes integers, which takes ten times as long on millions of values.

    Examples:
        >>> sorted_unique(np.array([3, 1, 3])).tolist()
        [1, 3]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def merge_sorted_pairs(streams: Sequence[Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    """Yields the distinct pairs of several streams in ascending order.

    The packed pairs of a stream ascend, also from one array to the next. One array of each stream
    is in memory at a time.

    Examples:
        >>> streams = [iter([np.array([1, 4]), np.array([6])]), iter([np.array([2, 4, 9])])]
        >>> np.concatenate(list(merge_sorted_pairs(streams))).tolist()
        [1, 2, 4, 6, 9]
    """
    pending = [next(stream, None) for stream in streams]
    while any(part is not None for part in pending):
        for at, part in enumerate(pending):
            while part is not None and not len(part):
                part = pending[at] = next(streams[at], None)
        ends = [part[-1] for part in pending if part is not None]
        if not ends:
            return
        # What follows in a stream is greater than the end of its array.
        end = min(ends)
        ready = []
        for at, part in enumerate(pending):
            if part is not None:
                cut = int(np.searchsorted(part, end, "right"))
                ready.append(part[:cut])
                pending[at] = part[cut:]
        yield sorted_unique(np.concatenate(ready))


def isin_sorted(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Returns for each value if it occurs in an ascending array, bool (n,).

    Examples:
        >>> isin_sorted(np.array([5, 2, 9]), np.array([2, 5])).tolist()
        [True, True, False]
    """
    if not len(ordered):
        return np.zeros(len(values), bool)
    positions = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[positions] == values)


class ScoredPairs(NamedTuple):
    """Packed pairs and the two numbers whose quotient is their similarity."""

    pairs: np.ndarray
    """uint64 (m,): The packed pairs."""
    intersection: np.ndarray
    """The size or weight of A ∩ B, int64 or float64 of shape (m,).

    It is the number of agreeing slots if the similarity is estimated.
    """
    union: np.ndarray
    """The size or weight of A ∪ B, int64 or float64 of shape (m,).

    It is the number of slots if the similarity is estimated.
    """

    @property
    def similarity(self) -> np.ndarray:
        """The similarity of each pair, float64 (m,). Two empty sets have a similarity of 0."""
        return np.divide(
            self.intersection, self.union, out=np.zeros(len(self.pairs)), where=self.union > 0
        )

    def select(self, rows: "np.ndarray | slice") -> "ScoredPairs":
        """Returns some of the pairs."""
        return ScoredPairs(self.pairs[rows], self.intersection[rows], self.union[rows])

    def meets_threshold(self, threshold: float) -> np.ndarray:
        """Returns which pairs reach a threshold, bool (m,). See the function `meets_threshold`."""
        return meets_threshold(self.intersection, self.union, threshold)

    @staticmethod
    def concatenate(parts: "list[ScoredPairs]") -> "ScoredPairs":
        """Returns the pairs of all parts, in order."""
        if not parts:
            return ScoredPairs(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
        return ScoredPairs(
            np.concatenate([part.pairs for part in parts]),
            np.concatenate([part.intersection for part in parts]),
            np.concatenate([part.union for part in parts]),
        )


def meets_threshold(
    intersection: np.ndarray, union: np.ndarray, threshold: float | np.ndarray
) -> np.ndarray:
    """Returns which similarities reach a threshold.

    The result is that of exact arithmetic with the decimal threshold.

    A product `threshold * union` would be rounded: 0.55 · 20 is 11.000000000000002. The quotient is
    rounded too, but in the same way as the threshold was when it was parsed. IEEE 754 division is
    correctly rounded, hence monotonic: intersection / union ≥ p / q implies float(intersection /
    union) ≥ float(p / q). The reverse fails only if the fractions differ by less than 2^-53, and
    different fractions differ by at least 1 / (union · q). So the test is exact while union · q <
    2^53: for sets of up to 2^32 shingles and thresholds of up to six decimals.

    Args:
        intersection: The sizes or weights of the intersections, (m,).
        union: The sizes or weights of the unions, (m,).
        threshold: The minimum similarity, in (0, 1]: one number, or one for each pair, float64
            (m,).

    Returns:
        bool (m,).

    Examples:
        >>> meets_threshold(np.array([4, 3]), np.array([5, 5]), 0.8).tolist()
        [True, False]
        >>> intersection = np.array([11, 14, 81])
        >>> union = np.array([20, 25, 100])
        >>> meets_threshold(intersection, union, np.array([0.55, 0.56, 0.81])).tolist()
        [True, True, True]
    """
    quotients = np.divide(intersection, union, out=np.full(np.shape(union), -1.0), where=union > 0)
    return np.asarray(quotients >= threshold)
