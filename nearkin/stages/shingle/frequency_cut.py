"""The frequency cut: the removal of shingles that too many documents contain (boilerplate)."""

from functools import cached_property

import numpy as np

from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.shingle import kernels


class Cut:
    """A list of shingles that are removed from documents.

    Each shingle is removed or kept independently. So the signature of a union is still the minimum
    of two signatures.

    Args:
        hashes: Sorted distinct hashes of the shingles, uint64 (m,).

    Examples:
        >>> cut = Cut(np.array([5, 9], np.uint64))
        >>> hashes, offsets = np.array([9, 4, 5, 5, 7], np.uint64), np.array([0, 2, 4, 5])
        >>> [column.tolist() for column in cut.apply(hashes, offsets)]
        [[4, 7], [0, 1, 1, 2]]
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self.hashes = hashes

    @cached_property
    def _index(self) -> PrefixIndex:
        return PrefixIndex.of(self.hashes)

    def apply(self, hashes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Removes the listed shingles from documents, and returns their hashes and offsets."""
        kept = np.empty_like(hashes)
        ends = np.empty_like(offsets)
        index = self._index
        kernels.remove_listed(hashes, offsets, self.hashes, index.first, index.shift, kept, ends)
        return kept[: ends[-1]], ends
