"""Random sets of numbers, as Python sets and as arrays."""

import numpy as np


def random_sets(n: int, universe: int, seed: int) -> list[set[int]]:
    """Returns n sets of up to 29 numbers below `universe`."""
    rng = np.random.default_rng(seed)
    return [set(rng.integers(0, universe, rng.integers(0, 30)).tolist()) for _ in range(n)]


def flatten_sets(sets: list[set[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sorted numbers of the sets, one set after the other, and where each begins."""
    starts = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    return np.array([x for s in sets for x in sorted(s)], np.uint64), starts
