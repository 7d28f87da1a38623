"""Query-directed probing of signs: the buckets near that of a query, the most likely ones first.

A bit of a neighbour differs most likely where the projection of the query is smallest. So the
buckets to probe are those whose bits differ from the query's in sets of small projections (Lv,
Josephson, Wang, Charikar, Li, *Multi-probe LSH*, VLDB 2007).
"""

import heapq

import numpy as np

from nearkin.errors import UsageError


def perturbations(margins: np.ndarray, count: int) -> list[tuple[int, ...]]:
    """Returns up to `count` sets of bits to flip, ordered by the sum of their squared margins.

    The margin of a bit is its distance from the hyperplane, |projection| divided by the length of
    the plane's vector. The empty set, which stands for the query's own bucket, is not among the
    sets.

    Examples:
        >>> perturbations(np.array([0.5, 0.1, 0.2]), 4)
        [(1,), (2,), (1, 2), (0,)]
    """
    if count < 0:
        raise UsageError(f"count={count} is negative; pass the number of probes, 0 or more")
    order = np.argsort(margins, kind="stable")
    scores = np.asarray(margins, np.float64)[order] ** 2
    heap: list[tuple[float, tuple[int, ...]]] = []
    if len(scores):
        heap.append((float(scores[0]), (0,)))
    position_sets: list[tuple[int, ...]] = []
    while heap and len(position_sets) < count:
        score, chosen = heapq.heappop(heap)
        position_sets.append(tuple(sorted(int(order[i]) for i in chosen)))
        last = chosen[-1]
        if last + 1 < len(scores):
            # Either the last bit is replaced by its successor, or the successor is added. So each
            # set is reached in exactly one way, in the order of the scores.
            following = float(scores[last + 1])
            replaced = (*chosen[:-1], last + 1)
            heapq.heappush(heap, (score - float(scores[last]) + following, replaced))
            heapq.heappush(heap, (score + following, (*chosen, last + 1)))
    return position_sets
