"""Banding of signs: runs of bits, samples of bits where runs do not suffice, blocks that find every pair within a distance.

A run of r bits is a band as in MinHash. A signature of f bits has only f / r; where more tables are needed, each takes r
bits at random, so that tables overlap (bit sampling: Indyk, Motwani, STOC 1998). A band of r bits has only 2^r buckets, so r is
chosen with the corpus size in view.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nearkin.errors import UsageError
from nearkin.lsh.bands import BandLayout, sign_layout
from nearkin.lsh.curve import MAX_PASS, UNRELATED_PAIRS, Banding, margin_for
from nearkin.sketch.minhash import splitmix64

MOST_TABLES = 256
KEY_COST = 4.0
"""What making, sorting and cutting one key costs, in comparisons of two signatures."""
FULL_BUCKET = 50
"""Members that a bucket may be expected to have at most: larger ones would be clustered inside themselves."""
STREAM = 0x5369676E73
"""Seed of the samples of bits."""


def sign_collision(similarity: float) -> float:
    """1 − θ/π: the chance that two vectors of cosine `similarity` have the same sign on a random hyperplane (Charikar 2002).

    Examples:
        >>> sign_collision(1.0), sign_collision(0.0), round(sign_collision(0.8), 3)
        (1.0, 0.5, 0.795)
    """
    return 1 - math.acos(max(-1.0, min(1.0, similarity))) / math.pi


@cache
def log_factorials(most: int) -> np.ndarray:
    """ln x! for x = 0 … most."""
    return np.array([math.lgamma(x + 1) for x in range(most + 1)])


def sampled_probability(agreeing: np.ndarray, bits: int, bands: int, rows: int) -> np.ndarray:
    """P(candidate) of pairs that agree in a of f bits, each band being r of them at random: 1 − (1 − C(a, r)/C(f, r))^b."""
    logs = log_factorials(bits)
    a = np.asarray(agreeing)
    whole = a >= rows
    room = np.where(whole, a - rows, 0)
    log_share = logs[a] - logs[room] - (logs[bits] - logs[bits - rows])
    share = np.where(whole, np.exp(np.minimum(log_share, 0.0)), 0.0)
    return np.asarray(-np.expm1(bands * np.log1p(-np.minimum(share, 1 - 1e-15))))


@cache
def agreement_chances(bits: int, collision: float) -> np.ndarray:
    """P(a of f bits agree) for a = 0 … f: binomial."""
    if collision >= 1:
        return np.eye(bits + 1)[bits]
    a, logs = np.arange(bits + 1), log_factorials(bits)
    return np.asarray(
        np.exp(logs[bits] - logs[a] - logs[bits - a] + a * math.log(collision) + (bits - a) * math.log1p(-collision))
    )


@dataclass(frozen=True)
class SignBanding(Banding):
    """b bands of r bits of a signature of f signs (k = f).

    Attributes:
        documents: The corpus size that r was chosen for.
        blocks: Of the block scheme; 0 where bands are runs or samples of bits.
    """

    documents: int = 0
    blocks: int = 0

    @property
    def sampled(self) -> bool:
        """Whether bands take bits at random, for there are more of them than runs of bits."""
        return not self.blocks and self.bands * self.rows > self.k

    def candidate_probability(self, collision: float) -> float:
        """P(candidate); of tables that share bits, over how many bits agree."""
        if not self.sampled:
            return super().candidate_probability(collision)
        return sampled_recall(self.k, collision, self.bands, self.rows)

    @property
    def candidate_recall(self) -> float:
        """P(candidate) at the threshold; 1 for blocks, which find every pair within their distance."""
        return 1.0 if self.blocks else self.candidate_probability(self.collision)

    @property
    def expected_bucket(self) -> float:
        """Documents that share a band's key with a given one if none is near it: n / 2^r."""
        return self.documents / 2.0**self.rows

    @property
    def recall(self) -> float:
        return 1.0 if self.blocks else super().recall

    @property
    def band_layout(self) -> BandLayout:
        """The bits of each band, as kernels take them."""
        if self.blocks:
            return sign_layout(masks_of(block_bits(self.k, self.k - self.margin, self.blocks), self.k))
        if self.sampled:
            draws = splitmix64(STREAM, self.bands * self.k).reshape(self.bands, self.k)
            return sign_layout(masks_of(list(np.argsort(draws, axis=1, kind="stable")[:, : self.rows]), self.k))
        return sign_layout(masks_of([np.arange(i * self.rows, (i + 1) * self.rows) for i in range(self.bands)], self.k))


def masks_of(bands: "list[np.ndarray]", bits: int) -> np.ndarray:
    """uint64 (b, bits / 64): the given bits of each band."""
    masks = np.zeros((len(bands), bits // 64), np.uint64)
    for band, places in enumerate(bands):
        for place in np.asarray(places).tolist():
            masks[band, place // 64] |= np.uint64(1 << place % 64)
    return masks


def sampled_recall(bits: int, collision: float, bands: int, rows: int) -> float:
    """P(candidate) at a collision probability, over the number of bits that agree."""
    return float((agreement_chances(bits, collision) * sampled_probability(np.arange(bits + 1), bits, bands, rows)).sum())


def solve_signs(threshold: float, recall: float, bits: int, documents: int) -> SignBanding:
    """Among bandings that reach the asked recall, the cheapest for a corpus of so many documents.

    Args:
        threshold: Cosine from which two documents are near-duplicates.
        recall: Asked share of the pairs at the threshold to be found.
        bits: f.
        documents: Corpus size.

    Raises:
        UsageError: No setting reaches it.

    Examples:
        >>> small, large = (solve_signs(0.9, 0.95, 512, n) for n in (10_000, 10_000_000))
        >>> small.rows < large.rows, min(small.recall, large.recall) >= 0.95
        (True, True)
    """
    if not 0 < recall < 1:
        raise UsageError(f"recall {recall} is outside 0 to 1 (exclusive); 0.95 is usual")
    collision = sign_collision(threshold)
    least = max(1, math.ceil(math.log2(max(documents, 2) / FULL_BUCKET)))
    best: tuple[float, SignBanding] | None = None
    reached = 0.0
    for rows in range(least, min(bits, 64) + 1):
        most = SignBanding(MOST_TABLES, rows, bits, 0, collision, documents=documents)
        reached = max(reached, most.candidate_recall)
        if most.candidate_recall < recall / MAX_PASS:
            continue
        found = _fewest(rows, bits, collision, recall, documents)
        cost = work_of(found)
        if best is None or cost < best[0]:
            best = (cost, found)
    if best is None:
        raise UsageError(
            f"recall {recall} at cosine {threshold} is out of reach with {bits} bits, {MOST_TABLES} tables and {documents:,} "
            f"documents (at most {reached:.3f}): raise --k or the threshold, ask for less recall, or use --distance"
        )
    return with_margin(best[1], recall)


def _fewest(rows: int, bits: int, collision: float, recall: float, documents: int) -> SignBanding:
    low, high = 1, MOST_TABLES
    while low < high:
        middle = (low + high) // 2
        if SignBanding(middle, rows, bits, 0, collision, documents=documents).candidate_recall >= recall / MAX_PASS:
            high = middle
        else:
            low = middle + 1
    return SignBanding(low, rows, bits, 0, collision, documents=documents)


def with_margin(banding: SignBanding, recall: float) -> SignBanding:
    """The same bands, with the margin that keeps the asked recall where they can reach it at all."""
    reached = banding.candidate_recall
    passed = min(recall / reached, MAX_PASS) if reached > recall else MAX_PASS
    margin = margin_for(banding.k, banding.collision, passed)
    return replace(banding, margin=margin)


def work_of(banding: SignBanding) -> float:
    """Keys and comparisons, in comparisons: unrelated pairs have cosines like Beta(1, 20)."""
    s = (np.arange(100) + 0.5) / 100
    density = UNRELATED_PAIRS * (1 - s) ** (UNRELATED_PAIRS - 1)
    chance = float(np.mean((1 - np.arccos(s) / math.pi) ** banding.rows * density))
    n = banding.documents
    return banding.bands * (n * KEY_COST + n * n / 2 * chance)


def fixed_signs(threshold: float, recall: float, bits: int, documents: int, bands: int, rows: int) -> SignBanding:
    """The caller's bands and rows."""
    if not (1 <= rows <= bits and 1 <= bands <= 1 << 12):
        raise UsageError(f"bands={bands} × rows={rows} does not fit signatures of {bits} bits: rows are 1 to {bits} of them")
    return with_margin(SignBanding(bands, rows, bits, 0, sign_collision(threshold), documents=documents), recall)


def block_bits(bits: int, distance: int, blocks: int) -> "list[np.ndarray]":
    """The bits of each table of the block scheme (Manku, Jain, Das Sarma 2007, section 3).

    f bits are cut into B > d blocks. Whichever d bits of a pair differ, B − d blocks agree whole; so a table for each choice of
    B − d blocks finds every pair within distance d: C(B, d) tables of about f·(B − d)/B bits.

    Examples:
        >>> [len(t) for t in block_bits(64, 3, 4)], len(block_bits(64, 3, 5)), len(block_bits(64, 3, 6)[0])
        ([16, 16, 16, 16], 10, 33)
    """
    if not 0 <= distance < blocks <= bits:
        raise UsageError(f"{blocks} blocks do not find distance {distance} in {bits} bits: more blocks than the distance")
    parts = np.array_split(np.arange(bits), blocks)
    return [np.concatenate(chosen) for chosen in itertools.combinations(parts, blocks - distance)]


def block_banding(bits: int, distance: int, documents: int, blocks: int | None = None) -> SignBanding:
    """The block scheme for a distance: the number of blocks that costs least for a corpus of so many documents.

    Numbers whose buckets are expected to overflow (FULL_BUCKET) are taken only if there is no other: a bucket that is clustered
    inside itself no longer yields all its pairs.

    Examples:
        >>> [(n, block_banding(64, 3, n).bands, block_banding(64, 3, n).rows) for n in (1000, 10_000_000)]
        [(1000, 4, 16), (10000000, 10, 25)]
    """
    if not 0 <= distance < bits // 2:
        raise UsageError(f"distance {distance} is outside 0 to {bits // 2 - 1}, half of the {bits} bits")
    choices = range(distance + 1, distance + 5) if blocks is None else [blocks]
    found = []
    for count in choices:
        tables = math.comb(count, distance)
        if count <= bits and tables <= MOST_TABLES:
            rows = min(len(table) for table in block_bits(bits, distance, count))
            chance = 1 - distance / bits
            found.append(SignBanding(tables, rows, bits, bits - distance, chance, documents=documents, blocks=count))
    if not found:
        raise UsageError(f"distance {distance} needs more than {MOST_TABLES} tables; ask for a smaller one, or use --threshold")

    def cost(banding: SignBanding) -> tuple[float, float]:
        compared = documents**2 / 2.0 ** (banding.rows + 1)
        return max(banding.expected_bucket, FULL_BUCKET), banding.bands * (documents * KEY_COST + compared)

    return min(found, key=cost)
