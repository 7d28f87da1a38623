"""Random MinHash slots for the tests of bands and buckets."""

import numpy as np


def random_signatures(n: int, k: int, values: int, seed: int) -> np.ndarray:
    """Returns the k slots of n documents, uint32 (n, k), with numbers below `values`."""
    return np.random.default_rng(seed).integers(0, values, (n, k), dtype=np.uint32)
