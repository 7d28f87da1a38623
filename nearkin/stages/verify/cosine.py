"""The exact cosine of vectors, in double precision, computed in blocks with BLAS."""

from collections.abc import Iterator

import numpy as np

from nearkin.runtime.threads import ordered_map
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.verify.jaccard import document_ranges

VECTOR_PAIRS_PER_BATCH = 1 << 14
"""The number of pairs of vectors that are compared at once."""
SLACK = 1e-9
"""A generous bound of the rounding error of a product of unit vectors in double precision."""


def compare_vectors(pairs: np.ndarray, place: np.ndarray, values: np.ndarray) -> ScoredPairs:
    """Computes the dot product and the product of the lengths of the vectors of packed pairs.

    `values` are the stored vectors, float32 (stored, dimensions), and `place` their rows.
    """
    scored = ScoredPairs(pairs, np.empty(len(pairs)), np.empty(len(pairs)))
    for start in range(0, len(pairs), VECTOR_PAIRS_PER_BATCH):
        rows = slice(start, start + VECTOR_PAIRS_PER_BATCH)
        first, second = unpack_pairs(pairs[rows])
        a = values[place[first]].astype(np.float64)
        b = values[place[second]].astype(np.float64)
        lengths = np.sqrt(np.vecdot(a, a) * np.vecdot(b, b))
        scored.union[rows] = lengths
        scored.intersection[rows] = np.minimum(np.vecdot(a, b), lengths)
    return scored


def compare_all(
    values: np.ndarray, scope: PairScope, threshold: float, workers: int
) -> Iterator[ScoredPairs]:
    """Yields every pair of a scope that reaches the threshold, in order (brute force)."""
    unit = values.astype(np.float64)
    unit /= np.sqrt(np.vecdot(unit, unit))[:, None]
    place = np.arange(len(values), dtype=np.uint32)

    def compare_range(bounds: tuple[int, int]) -> ScoredPairs:
        first, last = bounds
        is_near = unit[first:last] @ unit[first:].T >= threshold - SLACK
        a, b = np.nonzero(np.triu(is_near, 1))
        is_allowed = scope.allows(a + first, b + first)
        pairs = pack_pairs(a[is_allowed] + first, b[is_allowed] + first)
        scored = compare_vectors(pairs, place, values)
        return scored.select(scored.meets_threshold(threshold))

    ranges = document_ranges(np.arange(len(values) + 1), len(values))
    yield from ordered_map(compare_range, ranges, workers, 0)
