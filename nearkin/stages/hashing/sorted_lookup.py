"""Lookups among sorted hashes."""

from typing import NamedTuple

import numpy as np


class PrefixIndex(NamedTuple):
    """The position of the first sorted hash of each prefix.

    A lookup with it has about two cache misses, fewer than a binary search.
    """

    first: np.ndarray
    """int64 (2^bits + 1,): The first position of each prefix, and the end."""
    shift: np.uint64
    """The number of bits that a hash is shifted to give its prefix, 64 − bits."""

    @classmethod
    def of(cls, keys: np.ndarray) -> "PrefixIndex":
        """Returns the index of sorted distinct hashes, with about four hashes for each prefix.

        Args:
            keys: Sorted distinct hashes, uint64 (n,).

        Examples:
            >>> PrefixIndex.of(np.array([1, 2**63], np.uint64)).first.tolist()
            [0, 1, 2]
        """
        bits = max(1, len(keys).bit_length() - 2)
        shift = np.uint64(64 - bits)
        counts = np.bincount((keys >> shift).astype(np.int64), minlength=1 << bits)
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), shift)
