"""The frequency cut: shingles that too many documents have (boilerplate) are left out of every comparison."""

from functools import cached_property

import numpy as np

from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.shingle import kernels


class Cut:
    """Shingles to leave out.

    Each goes or stays by itself, so the signature of a union is still the minimum of two signatures.

    Args:
        hashes: uint64 (m,), sorted, distinct.

    Examples:
        >>> cut = Cut(np.array([5, 9], np.uint64))
        >>> [rest.tolist() for rest in cut.apply(np.array([9, 4, 5, 5, 7], np.uint64), np.array([0, 2, 4, 5]))]
        [[4, 7], [0, 1, 1, 2]]
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self.hashes = hashes

    @cached_property
    def _index(self) -> PrefixIndex:
        return PrefixIndex.of(self.hashes)

    def apply(self, hashes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What stays of documents' shingles, uint64 (total,), and int64 (n + 1,): where each document's begin."""
        kept, ends = np.empty_like(hashes), np.empty_like(offsets)
        kernels.leave_out(hashes, offsets, self.hashes, *self._index, kept, ends)
        return kept[: ends[-1]], ends
