"""Every pair of signatures within a Hamming distance, for a batch and for queries: the block scheme, verified by popcount.

Exact by the pigeonhole principle (Manku, Jain, Das Sarma, WWW 2007, section 3): see `nearkin.lsh.signs.block_bits`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.errors import UsageError
from nearkin.lsh import kernels
from nearkin.lsh.bands import even_slabs
from nearkin.lsh.signs import SignBanding, block_banding
from nearkin.packed_pairs import PAIRS_PER_BATCH, unpack_pairs
from nearkin.runtime.threads import ordered_map


class HammingPairs(NamedTuple):
    """Pairs within the distance, a < b, in order."""

    a: np.ndarray
    """int64 (m,)"""
    b: np.ndarray
    """int64 (m,)"""
    distance: np.ndarray
    """int64 (m,)"""


def as_words(signatures: np.ndarray) -> np.ndarray:
    """uint64 (n, w) of signatures (n,) or (n, w)."""
    words = np.ascontiguousarray(signatures)
    if words.dtype != np.uint64 or words.ndim not in (1, 2):
        raise UsageError(f"signatures are uint64 (n,) or (n, words), not {words.dtype} {words.shape}")
    return words.reshape(len(words), -1)


def all_pairs(signatures: np.ndarray, distance: int, blocks: int | None = None, workers: int = 1) -> HammingPairs:
    """All pairs within a Hamming distance.

    Args:
        signatures: uint64 (n,) or (n, words).
        distance: d, less than half of the bits.
        blocks: More than d + 1 make more tables of smaller buckets; the cheapest number by default.
        workers: Threads.

    Examples:
        >>> found = all_pairs(np.array([0b0000, 0b0111, 0b1111, 2**63], np.uint64), 1)
        >>> [tuple(x.tolist()) for x in found]
        [(0, 1), (3, 2), (1, 1)]
    """
    words = as_words(signatures)
    banding = block_banding(64 * words.shape[1], distance, len(words), blocks)
    found = [
        np.empty(0, np.uint64),
        *(pairs for band in range(banding.bands) for pairs in _band(words, banding, band, workers)),
    ]
    packed = np.sort(np.concatenate(found))
    agreeing = np.empty(len(packed), np.int64)
    kernels.pair_agreements(packed, words, banding.band_layout.layout, agreeing)
    a, b = unpack_pairs(packed)
    return HammingPairs(a, b, banding.k - agreeing)


def _band(words: np.ndarray, banding: SignBanding, band: int, workers: int) -> Iterator[np.ndarray]:
    """The pairs of one table that no earlier one has."""
    n, band_layout = len(words), banding.band_layout
    keys = np.empty(n, np.uint64)
    kernels.sign_band(words, band_layout.masks_or_keys[band], keys)
    packed = np.empty(n, np.uint64)
    bits = max(1, (n - 1).bit_length())
    kernels.pack(keys, np.ones(n, bool), np.uint64(0), 0, bits, packed)
    packed.sort()
    bounds = np.empty((2, n // 2 + 1), np.int64)
    found = kernels.find_buckets(packed, keys, bits, bounds[0], bounds[1])
    never = np.zeros(n, bool)

    def pairs(some: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        starts, ends = some
        sizes = ends - starts
        out = np.empty(int((sizes * (sizes - 1) // 2).sum()), np.uint64)
        histogram = np.zeros(banding.k + 1, np.int64)
        count = kernels.bucket_pairs(packed, starts, ends, words, never, band, *band_layout, banding.margin, histogram, out)
        return out[:count].copy()

    yield from ordered_map(pairs, even_slabs(bounds[0, :found], bounds[1, :found], PAIRS_PER_BATCH), workers)


class Neighbour(NamedTuple):
    """A stored signature within the distance of a query."""

    id: int
    distance: int


class HammingIndex:
    """Signatures that come and go, and those within a distance of a query: exact.

    Args:
        bits: f, a multiple of 64.
        distance: d.
        blocks: More than d + 1 make more tables of smaller buckets.
        expected: How many signatures it will hold; decides the number of blocks if that is not given.

    Examples:
        >>> index = HammingIndex(64, 3)
        >>> index.add(7, 0b1011), index.add(8, 0b0100)
        (None, None)
        >>> index.query(0b1010)
        [Neighbour(id=7, distance=1), Neighbour(id=8, distance=3)]
        >>> index.remove(7)
        >>> index.query(0b1010), len(index)
        ([Neighbour(id=8, distance=3)], 1)
    """

    def __init__(self, bits: int, distance: int, blocks: int | None = None, expected: int = 1_000_000) -> None:
        if bits % 64 or bits < 64:
            raise UsageError(f"signatures have a multiple of 64 bits, not {bits}")
        banding = block_banding(bits, distance, expected, blocks)
        self.bits, self.distance = bits, distance
        self._masks = [sum(int(word) << 64 * w for w, word in enumerate(row)) for row in banding.band_layout.masks_or_keys]
        self._tables: list[dict[int, list[int]]] = [{} for _ in self._masks]
        self._held: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, id: int, signature: int) -> None:
        """Stores a signature under an id of the caller's; one that the id had before is replaced."""
        self._check(signature)
        if id in self._held:
            self.remove(id)
        self._held[id] = signature
        for mask, table in zip(self._masks, self._tables, strict=True):
            table.setdefault(signature & mask, []).append(id)

    def remove(self, id: int) -> None:
        """Forgets an id.

        Raises:
            UsageError: There is none.
        """
        if id not in self._held:
            raise UsageError(f"no signature is stored under the id {id}")
        signature = self._held.pop(id)
        for mask, table in zip(self._masks, self._tables, strict=True):
            members = table[signature & mask]
            members.remove(id)
            if not members:
                del table[signature & mask]

    def query(self, signature: int) -> list[Neighbour]:
        """All stored signatures within the distance, nearest first, then by id."""
        self._check(signature)
        found: dict[int, int] = {}
        for mask, table in zip(self._masks, self._tables, strict=True):
            for id in table.get(signature & mask, ()):
                if id not in found:
                    found[id] = (self._held[id] ^ signature).bit_count()
        near = [Neighbour(id, distance) for id, distance in found.items() if distance <= self.distance]
        return sorted(near, key=lambda neighbour: (neighbour.distance, neighbour.id))

    def _check(self, signature: int) -> None:
        if not 0 <= signature < 1 << self.bits:
            raise UsageError(f"{signature} is not a signature of {self.bits} bits")


def as_integer(words: np.ndarray) -> int:
    """One signature, uint64 (w,), as the number that `HammingIndex` takes."""
    return int.from_bytes(np.asarray(words, "<u8").tobytes(), "little")
