"""Sets of band keys, in which the keys of other documents are looked up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.lsh import kernels
from nearkin.stages.packed_pairs import sorted_unique

BYTES_PER_KEY = 24
"""Anonymous memory of a key of a set, in bytes: the key, its copy while it is sorted, its share of
the prefixes and of the filter, and its mark."""
FILTER_BITS = 4
"""The binary logarithm of the least number of bits of the filter for each key."""


class KeyFilter(NamedTuple):
    """A bit for each prefix of 64-bit keys, which is set if a key of a set has this prefix."""

    words: np.ndarray
    """uint64 (2^bits / 64,)"""
    shift: np.uint64
    """The number of bits by which a key is shifted to give its prefix, 64 − bits."""

    @classmethod
    def of(cls, keys: np.ndarray) -> "KeyFilter":
        """Returns the filter of some keys.

        Args:
            keys: Keys, uint64 (m,). The filter is larger than necessary if they are repeated.

        Examples:
            >>> KeyFilter.of(np.array([3 << 58, 1], np.uint64)).words.tolist()
            [9]
        """
        bits = max(6, len(keys).bit_length() + FILTER_BITS)
        shift = np.uint64(64 - bits)
        words = np.zeros(1 << (bits - 6), np.uint64)
        kernels.set_filter_bits(keys, words, shift)
        return cls(words, shift)


@dataclass(frozen=True)
class KeySet:
    """The distinct keys of some documents in one band, with a mark for each key that was looked up.

    Attributes:
        keys: Distinct keys, ascending, uint64 (m,).
        prefixes: Positions of the first key of each prefix.
        filter: Bits of the keys. Most keys that are not in the set are rejected by their bit, which
            is in the cache of the processor more often than the keys are.
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
    filter: "KeyFilter"
    is_seen: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray) -> "KeySet":
        """Returns the set of some keys.

        Args:
            keys: Keys, uint64 of any shape.
        """
        distinct = sorted_unique(keys.ravel())
        prefixes = PrefixIndex.of(distinct)
        return cls(distinct, prefixes, KeyFilter.of(distinct), np.zeros(len(distinct), bool))

    def mark(self, keys: np.ndarray, is_matched: np.ndarray) -> None:
        """Marks the documents, bool (n,), that have a key of the set, and the keys that they have.

        Several threads may mark documents of their own at the same time.
        """
        first, shift = self.prefixes
        kernels.mark_common_keys(
            np.ascontiguousarray(keys),
            self.keys,
            first,
            shift,
            self.filter.words,
            self.filter.shift,
            self.is_seen,
            is_matched,
        )

    def seen(self) -> "KeySet":
        """Returns the set of the keys that were seen."""
        return KeySet.of(self.keys[self.is_seen])
