"""Exact cosine of vectors, in double precision, in blocks through BLAS."""

from collections.abc import Iterator

import numpy as np

from nearkin.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.runtime.threads import ordered_map
from nearkin.verify.jaccard import slabs

VECTOR_PAIRS_PER_BATCH = 1 << 14
SLACK = 1e-9
"""Far more than a product of unit vectors in double precision is off: what it leaves out cannot reach the threshold."""


def compare(pairs: np.ndarray, place: np.ndarray, values: np.ndarray) -> ScoredPairs:
    """Dot product and product of lengths of each packed pair; document d is values[place[d]], float32 (stored, d)."""
    out = ScoredPairs(pairs, np.empty(len(pairs)), np.empty(len(pairs)))
    for start in range(0, len(pairs), VECTOR_PAIRS_PER_BATCH):
        rows = slice(start, start + VECTOR_PAIRS_PER_BATCH)
        first, second = unpack_pairs(pairs[rows])
        a = values[place[first]].astype(np.float64)
        b = values[place[second]].astype(np.float64)
        out.union[rows] = np.sqrt(np.vecdot(a, a) * np.vecdot(b, b))
        out.intersection[rows] = np.minimum(np.vecdot(a, b), out.union[rows])
    return out


def compare_all(values: np.ndarray, blocks: np.ndarray, threshold: float, workers: int) -> Iterator[ScoredPairs]:
    """Yields every pair of one block that reaches the threshold, in order: brute force, recall 1."""
    unit = values.astype(np.float64)
    unit /= np.sqrt(np.vecdot(unit, unit))[:, None]
    own = np.arange(len(values), dtype=np.uint32)

    def slab(bounds: tuple[int, int]) -> ScoredPairs:
        first, last = bounds
        near = unit[first:last] @ unit[first:].T >= threshold - SLACK
        a, b = np.nonzero(near & (blocks[first:last, None] == blocks[first:]))
        later = b > a
        found = compare(pack_pairs(a[later] + first, b[later] + first), own, values)
        return found.select(found.meets_threshold(threshold))

    yield from ordered_map(slab, slabs(np.arange(len(values) + 1), len(values)), workers, 0)
