"""Look-ups among sorted hashes."""

from typing import NamedTuple

import numpy as np


class PrefixIndex(NamedTuple):
    """Where sorted hashes of each prefix begin: a look-up costs two cache misses, not one for each halving."""

    first: np.ndarray
    """int64 (2^bits + 1,)"""
    shift: np.uint64
    """64 − bits"""

    @classmethod
    def of(cls, keys: np.ndarray) -> "PrefixIndex":
        """Of sorted distinct hashes, about four of them to a prefix.

        Examples:
            >>> PrefixIndex.of(np.array([1, 2**63], np.uint64)).first.tolist()
            [0, 1, 2]
        """
        bits = max(1, len(keys).bit_length() - 2)
        shift = np.uint64(64 - bits)
        counts = np.bincount((keys >> shift).astype(np.int64), minlength=1 << bits)
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), shift)
