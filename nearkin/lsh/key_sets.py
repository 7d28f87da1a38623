"""Sets of band keys, in which the keys of other documents are looked up."""

from dataclasses import dataclass

import numpy as np

from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.lsh import kernels
from nearkin.packed_pairs import sorted_unique

BYTES_PER_KEY = 20
"""Anonymous memory of a key of a set, in bytes: the key, its copy while it is sorted, its share of
the prefixes, and its mark."""


@dataclass(frozen=True)
class KeySet:
    """The distinct keys of some documents in one band, with a mark for each key that was looked up.

    Attributes:
        keys: Distinct keys, ascending, uint64 (m,).
        prefixes: Positions of the first key of each prefix.
        is_seen: Whether a document that was looked up has the key, bool (m,).

    Examples:
        >>> keys = np.array([[7], [9]], np.uint64) << np.uint64(60)
        >>> key_set = KeySet.of(keys)
        >>> is_matched = np.zeros(3, bool)
        >>> key_set.mark(np.array([[5], [7], [7]], np.uint64) << np.uint64(60), is_matched)
        >>> is_matched.tolist(), len(key_set.seen().keys)
        ([False, True, True], 1)
    """

    keys: np.ndarray
    prefixes: PrefixIndex
    is_seen: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> "KeySet":
        """Returns the set of some keys.

        Args:
            keys: Keys, uint64 of any shape.
        """
        distinct = sorted_unique(keys.ravel())
        return cls(distinct, PrefixIndex.of(distinct), np.zeros(len(distinct), bool))

    def mark(self, keys: np.ndarray, is_matched: np.ndarray) -> None:
        """Marks the documents that have a key of the set, and the keys that they have.

        Several threads may mark documents of their own at the same time.

        Args:
            keys: Keys of each document, uint64 (n, keys).
            is_matched: Marks of the documents, which are added to, bool (n,).
        """
        first, shift = self.prefixes
        kernels.mark_common_keys(
            np.ascontiguousarray(keys), self.keys, first, shift, self.is_seen, is_matched
        )

    def seen(self) -> "KeySet":
        """Returns the set of the keys that were seen."""
        return KeySet.of(self.keys[self.is_seen])
