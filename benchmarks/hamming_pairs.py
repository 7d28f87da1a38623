"""Search for all pairs of signatures within a Hamming distance, in a batch.

The search uses the block scheme and verifies candidates by counting differing bits. It is exact by
the pigeonhole principle (Manku, Jain, Das Sarma, WWW 2007, section 3). See
`nearkin.stages.lsh.sign_bands.block_bits`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.runtime.threads import ordered_map
from nearkin.stages.hashing.kernels import mix64
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import EVERY_LATER, NEVER_HOT, BucketRows, split_buckets
from nearkin.stages.lsh.buckets import find_buckets
from nearkin.stages.lsh.sign_bands import SignBanding, as_words, block_banding
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, unpack_pairs


@kernel
def sign_band(signatures: np.ndarray, mask: np.ndarray, out: np.ndarray) -> None:
    """Computes keys of one band into out, uint64 (n,). They are valid only in one process.

    Args:
        signatures: Signatures, (n, w).
        mask: Bits of the band, uint64 (words,).
        out: Receives the keys, uint64 (n,).
    """
    for i in range(signatures.shape[0]):
        h = np.uint64(0)
        for w in range(mask.shape[0]):
            h = kernels.fold(h, signatures[i, w] & mask[w])
        out[i] = mix64(h)


class HammingPairs(NamedTuple):
    """Pairs of signatures within a distance, a < b, ordered by (a, b)."""

    a: np.ndarray
    """int64 (m,): The positions of the first signatures."""
    b: np.ndarray
    """int64 (m,): The positions of the second signatures."""
    distance: np.ndarray
    """int64 (m,): The Hamming distances."""


def all_pairs(
    signatures: np.ndarray, distance: int, blocks: int | None = None, workers: int = 1
) -> HammingPairs:
    """Returns all pairs of signatures within a Hamming distance.

    Args:
        signatures: The signatures, uint64 (n,) or (n, words).
        distance: Maximum Hamming distance d, less than half of the bits.

    Examples:
        >>> pairs = all_pairs(np.array([0b0000, 0b0111, 0b1111, 2**63], np.uint64), 1)
        >>> [tuple(column.tolist()) for column in pairs]
        [(0, 1), (3, 2), (1, 1)]
    """
    words = as_words(signatures)
    banding = block_banding(64 * words.shape[1], distance, len(words), blocks)
    parts = [np.empty(0, np.uint64)]
    for band in range(banding.bands):
        parts.extend(_new_pairs_of_band(words, banding, band, workers))
    packed = np.sort(np.concatenate(parts))
    agreeing = np.empty(len(packed), np.int64)
    kernels.pair_agreements(packed, words, banding.band_layout.layout, agreeing)
    a, b = unpack_pairs(packed)
    return HammingPairs(a, b, banding.k - agreeing)


def _new_pairs_of_band(
    words: np.ndarray, banding: SignBanding, band: int, workers: int
) -> Iterator[np.ndarray]:
    """Yields the packed pairs of a band that no earlier band yields."""
    n = len(words)
    band_layout = banding.band_layout
    keys = np.empty(n, np.uint64)
    sign_band(words, band_layout.masks_or_keys[band], keys)
    buckets = find_buckets(keys, np.ones(n, bool))

    def pairs_of(rows: BucketRows) -> np.ndarray:
        out = np.empty(rows.pairs, np.uint64)
        histogram = np.zeros(banding.k + 1, np.int64)
        pair_count = kernels.bucket_pairs(
            buckets.ordinals,
            rows.starts,
            rows.stops,
            rows.ends,
            EVERY_LATER,
            words,
            NEVER_HOT,
            band,
            band_layout.layout,
            band_layout.masks_or_keys,
            banding.margin,
            histogram,
            out,
        )
        return out[:pair_count].copy()

    portions = split_buckets(buckets.starts, buckets.ends, PAIRS_PER_BATCH)
    yield from ordered_map(pairs_of, portions, workers)
