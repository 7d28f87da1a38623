"""A table of the weights of shingles with open addressing."""

import numpy as np

from nearkin.stages.sketch import kernels

MIN_TABLE = 64
"""The smallest number of places of a weight table."""


class WeightTable:
    """A table of weights with open addressing, in which a lookup reads one cache line.

    Args:
        keys: Hashes, uint64 (m,), with 0 in free places. m is a power of two.
        values: Weights, int64 (m,).
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray, rare: int) -> None:
        self.keys = keys
        self.values = values
        self.rare = np.int64(rare)

    @classmethod
    def of(cls, hashes: np.ndarray, weights: np.ndarray, rare: int) -> "WeightTable":
        """Returns the table of some shingles, at most half full.

        Args:
            hashes: Distinct hashes, uint64 (n,).
            weights: Weights, int64 (n,).
        """
        size = max(MIN_TABLE, 1 << (2 * len(hashes)).bit_length())
        keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        kernels.fill_table(hashes, weights, keys, values)
        return cls(keys, values, rare)

    def look_up(self, hashes: np.ndarray) -> np.ndarray:
        """Returns the weight of each shingle hash, int64 (n,)."""
        out = np.empty(len(hashes), np.int64)
        kernels.look_up(hashes, self.keys, self.values, self.rare, out)
        return out
