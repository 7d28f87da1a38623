"""Banding of signs: runs of bits, samples of bits, and the block scheme.

A run of r bits is a band, as with MinHash. A signature of f bits has only f / r runs. If more bands
are needed, each takes r bits at random, so that bands overlap (bit sampling: Indyk, Motwani, STOC
1998). A band of r bits has only 2^r buckets, so r depends on the size of the corpus. The block
scheme finds every pair within a Hamming distance.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from nearkin.errors import UsageError
from nearkin.runtime.number_range import OPEN_SHARE, NumberRange
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.lsh.band_keys import BandLayout, sign_layout
from nearkin.stages.lsh.curve import UNRELATED_BETA, sampled_recall, sign_collision
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.lsh.solve import MAX_PASS_RATE, prefilter_margin, smallest_integer
from nearkin.stages.sketch.minhash import splitmix64

MAX_BANDS = 256
"""The largest number of bands that is chosen for signs."""
KEY_COST = 4.0
"""The cost of building, sorting and grouping one band key, in comparisons of two signatures."""
MAX_EXPECTED_BUCKET = 50
"""The largest expected number of documents of a bucket. Larger buckets would become hot."""
SAMPLING_SEED = 0x5369676E73
"""The seed of the stream that selects bits at random."""


@dataclass(frozen=True)
class SignBanding(Banding):
    """A banding of a signature of f signs (k = f) into b bands of r bits.

    Attributes:
        documents: Number of documents of the corpus for which r was chosen.
        blocks: Number of blocks of the block scheme; 0 if bands are runs or samples of bits.
    """

    documents: int = 0
    blocks: int = 0

    @property
    def sampled(self) -> bool:
        """True if bands take bits at random, because there are too few runs of bits."""
        return not self.blocks and self.bands * self.rows > self.k

    def candidate_probability(self, collision: float) -> float:
        """Returns the probability that a pair becomes a candidate.

        Bands that share bits are not independent. Their probability is computed for each number
        of agreeing bits.
        """
        if not self.sampled:
            return super().candidate_probability(collision)
        return sampled_recall(self.k, collision, self.bands, self.rows)

    @property
    def candidate_recall(self) -> float:
        """The candidate probability at the threshold; 1 for the block scheme."""
        return 1.0 if self.blocks else self.candidate_probability(self.collision)

    @property
    def expected_bucket(self) -> float:
        """The expected number of unrelated documents in a bucket, n / 2^r."""
        return self.documents / 2.0**self.rows

    @property
    def recall(self) -> float:
        """The probability that a pair at the threshold is found; 1 for the block scheme."""
        return 1.0 if self.blocks else super().recall

    @property
    def band_layout(self) -> BandLayout:
        """The bits of each band, in the form that kernels take."""
        return sign_layout(masks_of(self._band_bits(), self.k))

    def _band_bits(self) -> list[np.ndarray]:
        if self.blocks:
            return block_bits(self.k, self.k - self.margin, self.blocks)
        if self.sampled:
            draws = splitmix64(SAMPLING_SEED, self.bands * self.k).reshape(self.bands, self.k)
            return list(np.argsort(draws, axis=1, kind="stable")[:, : self.rows])
        starts = range(0, self.bands * self.rows, self.rows)
        return [np.arange(start, start + self.rows) for start in starts]


def masks_of(bands: list[np.ndarray], bits: int) -> np.ndarray:
    """Returns one mask for each band of positions of f bits, uint64 (b, f / 64)."""
    masks = np.zeros((len(bands), bits // 64), np.uint64)
    for band, positions in enumerate(bands):
        for position in np.asarray(positions).tolist():
            masks[band, position // 64] |= np.uint64(1 << position % 64)
    return masks


def solve_sign_banding(threshold: float, recall: float, bits: int, documents: int) -> SignBanding:
    """Returns the cheapest banding of signs of f bits that reaches a recall.

    Examples:
        >>> small, large = (solve_sign_banding(0.9, 0.95, 512, n) for n in (10_000, 10_000_000))
        >>> small.rows < large.rows, min(small.recall, large.recall) >= 0.95
        (True, True)
    """
    OPEN_SHARE.require("recall", recall)
    collision = sign_collision(threshold)
    fewest_rows = max(1, math.ceil(math.log2(max(documents, 2) / MAX_EXPECTED_BUCKET)))
    best: tuple[float, SignBanding] | None = None
    reachable = 0.0
    for rows in range(fewest_rows, min(bits, 64) + 1):
        most = SignBanding(MAX_BANDS, rows, bits, 0, collision, documents=documents)
        reachable = max(reachable, most.candidate_recall)
        if most.candidate_recall < recall / MAX_PASS_RATE:
            continue
        banding = _with_fewest_bands(most, recall)
        cost = comparison_cost(banding)
        if best is None or cost < best[0]:
            best = (cost, banding)
    if best is None:
        raise UsageError(
            f"recall {recall} at cosine {threshold} cannot be reached with {bits} bits, "
            f"{MAX_BANDS} tables and {documents:,} documents (at most {reachable:.3f}); raise "
            f"{name_setting('k')} or {name_setting('threshold')}, lower {name_setting('recall')}, "
            f"or run with {name_setting('distance')}"
        )
    return _with_margin(best[1], recall)


def _with_fewest_bands(most: SignBanding, recall: float) -> SignBanding:
    """Returns a banding with as few bands as the recall allows."""

    def suffices(bands: int) -> bool:
        return replace(most, bands=bands).candidate_recall >= recall / MAX_PASS_RATE

    return replace(most, bands=smallest_integer(suffices, 1, most.bands))


def _with_margin(banding: SignBanding, recall: float) -> SignBanding:
    margin = prefilter_margin(banding.k, banding.collision, recall, banding.candidate_recall)
    return replace(banding, margin=margin)


def comparison_cost(banding: SignBanding) -> float:
    """Returns the cost of a banding, in comparisons of two signatures.

    It counts the band keys and the comparisons of unrelated pairs, whose cosines are assumed to
    follow Beta(1, 20).
    """
    similarities = (np.arange(100) + 0.5) / 100
    density = UNRELATED_BETA * (1 - similarities) ** (UNRELATED_BETA - 1)
    collisions = 1 - np.arccos(similarities) / math.pi
    share = float(np.mean(collisions**banding.rows * density))
    n = banding.documents
    return banding.bands * (n * KEY_COST + n * n / 2 * share)


def fixed_sign_banding(
    threshold: float, recall: float, bits: int, documents: int, bands: int, rows: int
) -> SignBanding:
    """Returns a banding of signs of f bits with given bands and rows."""
    if not (1 <= rows <= bits and 1 <= bands <= 1 << 12):
        raise UsageError(
            f"{name_setting('bands', bands)} and {name_setting('rows', rows)} do not fit "
            f"signatures of {bits} bits; "
            f"use 1 to {1 << 12} bands and 1 to {bits} rows"
        )
    collision = sign_collision(threshold)
    return _with_margin(SignBanding(bands, rows, bits, 0, collision, documents=documents), recall)


def block_bits(bits: int, distance: int, blocks: int) -> list[np.ndarray]:
    """Returns the bits of each band of the block scheme (Manku, Jain, Das Sarma 2007, section 3).

    The f bits are split into B > d blocks. If a pair differs in d bits, at least B − d blocks
    agree. So a band for each choice of B − d blocks finds every pair within distance d. There are
    C(B, d) bands of about f·(B − d)/B bits.

    Args:
        bits: Number of bits f.
        distance: Hamming distance d.
        blocks: Number of blocks B.

    Returns:
        The positions of the bits of each band, int64 arrays.

    Raises:
        UsageError: If the number of blocks is not above the distance, or exceeds the bits.

    Examples:
        >>> [len(band) for band in block_bits(64, 3, 4)], len(block_bits(64, 3, 5))
        ([16, 16, 16, 16], 10)
    """
    if not 0 <= distance < blocks <= bits:
        raise UsageError(
            f"{blocks} blocks cannot find distance {distance} in {bits} bits; "
            "use more blocks than the distance and at most as many as bits"
        )
    parts = np.array_split(np.arange(bits), blocks)
    return [np.concatenate(chosen) for chosen in itertools.combinations(parts, blocks - distance)]


def block_banding(
    bits: int, distance: int, documents: int, blocks: int | None = None
) -> SignBanding:
    """Returns the cheapest block scheme for a Hamming distance of signatures of f bits.

    A number of blocks whose buckets are expected to become hot is chosen only if there is no other,
    because a hot bucket does not yield all its pairs.

    Examples:
        >>> [(n, block_banding(64, 3, n).bands) for n in (1000, 10_000_000)]
        [(1000, 4), (10000000, 10)]
    """
    NumberRange(0, bits // 2 - 1).require("distance", distance)
    if blocks is not None:
        NumberRange(distance + 1, bits).require("blocks", blocks)
    choices = range(distance + 1, distance + 5) if blocks is None else [blocks]
    bandings = []
    for count in choices:
        bands = math.comb(count, distance)
        if count > bits or bands > MAX_BANDS:
            continue
        rows = min(len(band) for band in block_bits(bits, distance, count))
        bandings.append(
            SignBanding(
                bands,
                rows,
                bits,
                margin=bits - distance,
                collision=1 - distance / bits,
                documents=documents,
                blocks=count,
            )
        )
    if not bandings:
        raise UsageError(
            f"distance {distance} needs more than {MAX_BANDS} tables; "
            f"lower {name_setting('distance')} or use {name_setting('threshold')}"
        )

    def cost(banding: SignBanding) -> tuple[float, float]:
        compared = documents**2 / 2.0 ** (banding.rows + 1)
        work = banding.bands * (documents * KEY_COST + compared)
        return max(banding.expected_bucket, MAX_EXPECTED_BUCKET), work

    return min(bandings, key=cost)


def as_words(signatures: np.ndarray) -> np.ndarray:
    """Returns signatures as a two-dimensional array, uint64 (n, w)."""
    words = np.ascontiguousarray(signatures)
    if words.dtype != np.uint64 or words.ndim not in (1, 2):
        raise UsageError(
            f"invalid signatures: {words.dtype} {words.shape}; pass uint64 (n,) or (n, words)"
        )
    return words[:, np.newaxis] if words.ndim == 1 else words
