"""Query-directed probing of signs: the buckets next to a vector's own, the likeliest first.

A neighbour's bit differs most likely where the query's projection is smallest, so the buckets to look into are those whose bits
differ from the query's in sets of small projections (Lv, Josephson, Wang, Charikar, Li, *Multi-probe LSH*, VLDB 2007).
"""

import heapq

import numpy as np

from nearkin.errors import UsageError


def perturbations(margins: np.ndarray, count: int) -> list[tuple[int, ...]]:
    """Sets of bits to flip, by the sum of their squared margins, least first; the empty set (the own bucket) is not among them.

    Args:
        margins: float (r,): distances from the hyperplanes of a band's bits, |projection| over the plane's length.
        count: How many sets; fewer if there are no more.

    Examples:
        >>> perturbations(np.array([0.5, 0.1, 0.2]), 4)
        [(1,), (2,), (1, 2), (0,)]
    """
    if count < 0:
        raise UsageError(f"count={count} probes are below 0")
    order = np.argsort(margins, kind="stable")
    scores = np.asarray(margins, np.float64)[order] ** 2
    heap: list[tuple[float, tuple[int, ...]]] = [(float(scores[0]), (0,))] if len(scores) else []
    found: list[tuple[int, ...]] = []
    while heap and len(found) < count:
        score, chosen = heapq.heappop(heap)
        found.append(tuple(sorted(int(order[i]) for i in chosen)))
        last = chosen[-1]
        if last + 1 < len(scores):
            # Shift the last one up, or take one more: each set is reached in one way, in the order of its score.
            heapq.heappush(heap, (score - float(scores[last]) + float(scores[last + 1]), (*chosen[:-1], last + 1)))
            heapq.heappush(heap, (score + float(scores[last + 1]), (*chosen, last + 1)))
    return found


def probe_words(word: int, margins: np.ndarray, count: int) -> list[int]:
    """A band's bits as a number (bit i is the sign of projection i), then those of the likeliest other buckets.

    Examples:
        >>> [f"{w:03b}" for w in probe_words(0b101, np.array([0.5, 0.1, 0.2]), 3)]
        ['101', '111', '001', '011']
    """
    return [word, *(word ^ sum(1 << bit for bit in bits) for bits in perturbations(margins, count))]
