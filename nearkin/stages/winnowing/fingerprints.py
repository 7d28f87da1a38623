"""Fingerprints of passages: which anchors may occur twice in a corpus, in filters of fixed size."""

import numpy as np

from nearkin.stages.winnowing import kernels
from nearkin.stages.winnowing.tokens import TokenPiece

LEAST_WORDS = 1 << 10
BITS_PER_BYTE = 2
"""The bits of a filter for each byte of input. A byte of text has about 0.01 anchors of windows of
50 words, so that one in 70 bits is set, and one word in three has an anchor."""
MEMORY_SHARE = 4
"""Both filters together take at most one part in so many of the memory bound."""


class Buffers:
    """The buffers of a thread, as large as the longest document of a piece."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, dtype: type, size: int) -> np.ndarray:
        """Returns a reused array of at least `size` elements, with undefined content."""
        array = self._arrays.get(name)
        if array is None or len(array) < size:
            array = np.empty(size, dtype)
            self._arrays[name] = array
        return array


def anchor_width(least: int) -> int:
    """Returns the number of tokens of an anchor.

    Half a window: about 4 in `least` tokens of a text begin an anchor, and so long a run rarely
    occurs twice outside of a passage.
    """
    return (least + 1) // 2


def collect_anchors(piece: TokenPiece, least: int, buffers: Buffers) -> np.ndarray:
    """Returns the hashes of the anchors of documents, uint64 (m,)."""
    longest = piece.longest
    out = np.empty(len(piece.hashes), np.uint64)
    count = kernels.collect_anchors(
        piece.hashes,
        piece.offsets,
        np.uint64(least),
        np.uint64(anchor_width(least)),
        buffers.array("hashes", np.uint64, longest),
        buffers.array("suffix", np.uint32, longest),
        buffers.array("anchors", np.uint32, longest),
        out,
    )
    return out[: int(count)].copy()


class AnchorFilter:
    """A Bloom filter of the anchors that occur twice, and of a few that do not.

    A hash whose bits were all set by others counts as seen. So the filter never misses an anchor
    that occurs twice, and its size decides only how many others it contains.

    Args:
        words: Number of words of 64 bits, a power of two.
    """

    def __init__(self, words: int) -> None:
        self._once = np.zeros(words, np.uint64)
        self.twice = np.zeros(words, np.uint64)

    @classmethod
    def for_corpus(cls, text_bytes: int, memory: int) -> "AnchorFilter":
        """Returns an empty filter for about some bytes of texts and the memory of a run."""
        wanted = max(LEAST_WORDS, text_bytes * BITS_PER_BYTE // 64)
        most = memory // MEMORY_SHARE // 16
        return cls(1 << (min(wanted, most).bit_length() - 1))

    def add(self, hashes: np.ndarray) -> None:
        """Adds the hashes of the anchors of documents, each once for each place, uint64 (m,)."""
        kernels.count_anchors(hashes, self._once, self.twice)
