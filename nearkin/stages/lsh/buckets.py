"""Buckets: the documents with equal band keys."""

from typing import NamedTuple

import numpy as np

from nearkin.stages.lsh import kernels

MARKS_PER_KEY = 16
"""The largest number of bits of a bitmap of marks for each key. Two bitmaps are in memory."""
LEAST_BITS = 6
"""The number of bits that give the position of a mark if there are hardly any keys."""


class Buckets(NamedTuple):
    """The buckets of two or more documents of one band."""

    ordinals: np.ndarray
    """The numbers of documents. Those of a bucket follow each other in ascending order, uint64."""
    starts: np.ndarray
    """The position of each bucket's first document, int64 (m,)."""
    ends: np.ndarray
    """The position after the last document of each bucket, int64 (m,)."""
    keys: int
    """The number of keys of active documents, those that occur once included."""

    def select_with(self, documents: np.ndarray) -> "Buckets":
        """Returns the buckets with at least one of some documents, bool (n,)."""
        counted = np.zeros(len(self.ordinals) + 1, np.int64)
        np.cumsum(documents[self.ordinals], out=counted[1:])
        has_some = counted[self.ends] > counted[self.starts]
        return self._replace(starts=self.starts[has_some], ends=self.ends[has_some])


def have_keys_of(documents: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Returns which keys some documents, bool (n,), have, and hardly any others, bool (n,).

    Keys are compared by marks, which different keys can share.

    Examples:
        >>> keys = np.array([7, 9, 7, 5], np.uint64) << np.uint64(60)
        >>> have_keys_of(np.array([True, False, False, False]), keys).tolist()
        [True, False, True, False]
    """
    wanted = keys[documents]
    bits = max(LEAST_BITS, (len(wanted) * MARKS_PER_KEY).bit_length())
    shift = np.uint64(64 - bits)
    marks = np.zeros(1 << bits, bool)
    marks[wanted >> shift] = True
    return marks[keys >> shift]


def find_buckets(
    keys: np.ndarray, active: np.ndarray, part: int = 0, part_bits: int = 0
) -> Buckets:
    """Returns the buckets of active documents, bool (n,), by their band keys, uint64 (n,).

    Only the keys that begin with the `part_bits` of a part count. Most keys occur once. Two bitmaps
    find most of these in two passes, so that only the keys that may occur again are sorted.
    Different keys can share a mark, which costs time only: buckets are made of equal whole keys.

    Examples:
        >>> keys = np.array([7, 9, 7, 5, 9], np.uint64) << np.uint64(60)
        >>> buckets = find_buckets(keys, np.array([True, True, True, True, False]))
        >>> [buckets.ordinals[a:b].tolist() for a, b in zip(buckets.starts, buckets.ends)]
        [[0, 2]]
        >>> buckets.keys
        4
    """
    expected = len(keys) >> part_bits
    mark_bits = max(LEAST_BITS, (expected * MARKS_PER_KEY // 2).bit_length())
    shift = np.uint64(64 - mark_bits)
    first_bits = np.uint64(part)
    once = np.zeros(1 << (mark_bits - LEAST_BITS), np.uint64)
    again = np.zeros_like(once)
    count = kernels.mark_keys(keys, active, first_bits, part_bits, shift, once, again)
    ordinal_bits = max(1, (len(keys) - 1).bit_length())
    # Only the pages of words that are packed take memory.
    packed = np.empty(count + 1, np.uint64)
    repeated = kernels.pack_repeated_keys(
        keys, active, first_bits, part_bits, ordinal_bits, shift, again, packed
    )
    packed = packed[:repeated]
    packed.sort()
    starts = np.empty(repeated // 2 + 1, np.int64)
    ends = np.empty(repeated // 2 + 1, np.int64)
    buckets = kernels.find_buckets(packed, keys, ordinal_bits, starts, ends)
    return Buckets(packed, starts[:buckets], ends[:buckets], count)
