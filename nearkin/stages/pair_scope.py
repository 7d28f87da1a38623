"""The pairs of documents that a run may compare: those of one block and of different sources."""

from typing import NamedTuple

import numpy as np

from nearkin.stages.packed_pairs import unpack_pairs

NO_BLOCK = np.uint64(0x6E756C6C)
"""The block of documents that are compared with no other."""
EVERY_BLOCK = np.uint64(0x65766572)
"""The block of documents that are compared with those of every block."""
EVERY_SOURCE = np.empty(0, np.uint64)
"""The sources of documents that are compared whatever their source is."""


class PairScope(NamedTuple):
    """The blocks and the sources of documents, which decide which pairs are compared."""

    blocks: np.ndarray
    """The block of each document, uint64 (n,). Only documents of one block are compared, except
    for those of EVERY_BLOCK and NO_BLOCK."""
    sources: np.ndarray = EVERY_SOURCE
    """The source of each document, uint64 (n,). Only documents of different sources are compared.
    If the array is empty, the source does not matter."""

    @classmethod
    def of_all_pairs(cls, documents: int) -> "PairScope":
        """Returns the scope in which every pair is compared."""
        return cls(np.zeros(documents, np.uint64))

    def select(self, documents: np.ndarray) -> "PairScope":
        """Returns the scope of some documents, int64 (m,), by their positions among them."""
        sources = self.sources[documents] if len(self.sources) else EVERY_SOURCE
        return PairScope(
            np.ascontiguousarray(self.blocks[documents]), np.ascontiguousarray(sources)
        )

    def allows(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Returns which pairs of a first and a second document may be compared, bool (m,).

        Examples:
            >>> scope = PairScope(np.zeros(3, np.uint64), np.array([4, 4, 9], np.uint64))
            >>> scope.allows(np.array([0, 0]), np.array([1, 2])).tolist()
            [False, True]
            >>> scope = PairScope(np.array([7, EVERY_BLOCK, NO_BLOCK, EVERY_BLOCK], np.uint64))
            >>> scope.allows(np.array([0, 0, 1, 1]), np.array([1, 2, 2, 3])).tolist()
            [True, False, False, True]
        """
        first = self.blocks[a]
        second = self.blocks[b]
        is_allowed = (first == second) | (first == EVERY_BLOCK) | (second == EVERY_BLOCK)
        is_allowed &= (first != NO_BLOCK) & (second != NO_BLOCK)
        if len(self.sources):
            is_allowed &= self.sources[a] != self.sources[b]
        return np.asarray(is_allowed)

    def allows_packed(self, pairs: np.ndarray) -> np.ndarray:
        """Returns which packed pairs, uint64 (m,), may be compared, bool (m,)."""
        return self.allows(*unpack_pairs(pairs))
