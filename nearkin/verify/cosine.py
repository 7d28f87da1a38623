"""Exact cosine of vectors, in double precision, in blocks through BLAS."""

from collections.abc import Iterator

import numpy as np

from nearkin.runtime.threads import ordered_map
from nearkin.verify.jaccard import Overlaps, slabs

PAIRS_AT_ONCE = 1 << 14
SLACK = 1e-9
"""Far more than a product of unit vectors in double precision is off: what it leaves out cannot reach the threshold."""


def compare(pairs: np.ndarray, place: np.ndarray, values: np.ndarray) -> Overlaps:
    """Dot product and product of lengths of each packed pair; document d is values[place[d]], float32 (stored, d)."""
    out = Overlaps(pairs, np.empty(len(pairs)), np.empty(len(pairs)))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        rows = slice(start, start + PAIRS_AT_ONCE)
        a = values[place[pairs[rows] >> np.uint64(32)]].astype(np.float64)
        b = values[place[pairs[rows] & np.uint64(0xFFFFFFFF)]].astype(np.float64)
        out.joint[rows] = np.sqrt(np.vecdot(a, a) * np.vecdot(b, b))
        out.shared[rows] = np.minimum(np.vecdot(a, b), out.joint[rows])
    return out


def compare_all(values: np.ndarray, blocks: np.ndarray, threshold: float, workers: int) -> Iterator[Overlaps]:
    """Yields every pair of one block that reaches the threshold, in order: brute force, recall 1."""
    unit = values.astype(np.float64)
    unit /= np.sqrt(np.vecdot(unit, unit))[:, None]
    own = np.arange(len(values), dtype=np.uint32)

    def slab(bounds: tuple[int, int]) -> Overlaps:
        first, last = bounds
        near = unit[first:last] @ unit[first:].T >= threshold - SLACK
        a, b = np.nonzero(near & (blocks[first:last, None] == blocks[first:]))
        later = b > a
        found = compare(pack(a[later] + first, b[later] + first), own, values)
        return found.where(found.at_least(threshold))

    yield from ordered_map(slab, slabs(np.arange(len(values) + 1), len(values)), workers, 0)


def pack(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns packed pairs, a < b: a << 32 | b, uint64."""
    return (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64)
