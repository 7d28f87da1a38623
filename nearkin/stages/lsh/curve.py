"""Probability formulas of banding, in particular the S-curve.

A pair becomes a candidate with probability 1 − (1 − collision(s)^r)^b (Indyk, Motwani, STOC 1998;
Leskovec, Rajaraman, Ullman, *Mining of Massive Datasets*, 3.4). Here, `collision` is the
probability that one banded slot agrees. For MinHash, it is the Jaccard similarity J itself.
"""

import math
from functools import cache, lru_cache

import numpy as np

UNRELATED_BETA = 20
"""Similarities of unrelated pairs are assumed to follow Beta(1, 20) when bandings are compared."""


def candidate_probability(
    collision: np.ndarray | float, bands: int, rows: int
) -> np.ndarray | float:
    """Returns the probability that at least one of b bands of r slots agrees.

    Examples:
        >>> [round(candidate_probability(collision, 42, 3), 3) for collision in (0.5, 0.05)]
        [0.996, 0.005]
    """
    return 1 - (1 - collision**rows) ** bands


def truncated_collision(collision: float, slot_bits: int) -> float:
    """Returns J + (1 − J)/2^b, the probability that the kept b bits of a slot agree.

    The kept bits of two different slots agree by chance with probability 2^−b (Li, König, *b-Bit
    Minwise Hashing*, WWW 2010, theorem 1 for sets that are small parts of the universe).

    Examples:
        >>> [truncated_collision(0.5, slot_bits) for slot_bits in (1, 2, 4)]
        [0.75, 0.625, 0.53125]
    """
    return collision + (1 - collision) * 2.0**-slot_bits


def band_probability(
    collision: np.ndarray | float, rows: int, probes: int = 0, *, one_sided: bool = False
) -> np.ndarray | float:
    """Returns the probability that two documents meet in a bucket of one band of MinHash slots.

    With P probes, a document has P more keys in each band. In each of them, one of the first P
    slots of the band is replaced by the runner-up, the second smallest element of the slot. In the
    order of the values of the union, each element is in both sets with probability J, else in one
    of them, so the smallest elements decide. A slot agrees with probability J. The runner-up of
    one document meets the minimum of the other with probability (1 − J)·J/2 in each direction, and
    the runner-ups meet with probability (1 − J)²·J/2.

    Examples:
        >>> [round(band_probability(0.8, 7, probes), 3) for probes in (0, 7)]
        [0.21, 0.621]
        >>> round(band_probability(0.8, 7, 7, one_sided=True), 3)
        0.357
    """
    whole = collision**rows
    if probes == 0:
        return whole
    either = (1 - collision) * collision / 2
    if one_sided:
        return whole + probes * collision ** (rows - 1) * either
    single = probes * collision ** (rows - 1) * (2 * either + (1 - collision) * either)
    crossed = probes * (probes - 1) * collision ** max(rows - 2, 0) * either**2
    return whole + single + crossed


def classic_threshold(bands: int, rows: int) -> float:
    """Returns (1/b)^(1/r), where the candidate probability is about 63 %.

    Examples:
        >>> [round(classic_threshold(b, r), 3) for b, r in ((20, 5), (16, 8), (8, 16))]
        [0.549, 0.707, 0.878]
    """
    return float((1 / bands) ** (1 / rows))


def steepest_point(bands: int, rows: int) -> float:
    """Returns ((1 − 1/r)/(b − 1/r))^(1/r), where the S-curve is steepest."""
    if rows == 1:
        return 0.0
    return float(((1 - 1 / rows) / (bands - 1 / rows)) ** (1 / rows))


def expected_candidates(bands: int, rows: int, probes: int = 0) -> float:
    """Returns the share of unrelated pairs that become candidates.

    This is the cost by which bandings of equal recall are compared. Similarities of unrelated
    pairs are assumed to follow Beta(1, 20).
    """
    similarities = (np.arange(400) + 0.5) / 400
    density = UNRELATED_BETA * (1 - similarities) ** (UNRELATED_BETA - 1)
    candidate_shares = 1 - (1 - band_probability(similarities, rows, probes)) ** bands
    return float(np.mean(candidate_shares * density))


@lru_cache(maxsize=1024)
def pass_probability(k: int, agreements: int, collision: float) -> float:
    """Returns the binomial probability that at least so many of k slots agree.

    For correlated slots, it is a lower bound of the effect of the spread.
    """
    if collision >= 1:
        return 1.0
    counts = range(max(agreements, 0), k + 1)
    logarithms = (
        math.lgamma(k + 1)
        - math.lgamma(i + 1)
        - math.lgamma(k - i + 1)
        + i * math.log(collision)
        + (k - i) * math.log1p(-collision)
        for i in counts
    )
    return min(1.0, math.fsum(map(math.exp, logarithms)))


def sign_collision(similarity: float) -> float:
    """Returns 1 − θ/π, the probability that two vectors agree in one sign (Charikar 2002).

    Examples:
        >>> sign_collision(1.0), sign_collision(0.0), round(sign_collision(0.8), 3)
        (1.0, 0.5, 0.795)
    """
    return 1 - math.acos(max(-1.0, min(1.0, similarity))) / math.pi


@cache
def log_factorials(largest: int) -> np.ndarray:
    """Returns ln x! for x = 0 … largest, float64 (largest + 1,)."""
    return np.array([math.lgamma(x + 1) for x in range(largest + 1)])


@cache
def agreement_distribution(bits: int, collision: float) -> np.ndarray:
    """Returns the binomial probability that a of f bits agree, for a = 0 … f, float64 (f + 1,)."""
    if collision >= 1:
        return np.eye(bits + 1)[bits]
    a = np.arange(bits + 1)
    logarithms = log_factorials(bits)
    choices = logarithms[bits] - logarithms[a] - logarithms[bits - a]
    return np.asarray(
        np.exp(choices + a * math.log(collision) + (bits - a) * math.log1p(-collision))
    )


def sampled_probability(agreeing: np.ndarray, bits: int, bands: int, rows: int) -> np.ndarray:
    """Returns the candidate probability of pairs if each of b bands takes r of f bits at random.

    The probability of a pair that agrees in a bits is 1 − (1 − C(a, r)/C(f, r))^b.
    """
    logarithms = log_factorials(bits)
    a = np.asarray(agreeing)
    is_possible = a >= rows
    remaining = np.where(is_possible, a - rows, 0)
    log_share = logarithms[a] - logarithms[remaining] - (logarithms[bits] - logarithms[bits - rows])
    share = np.where(is_possible, np.exp(np.minimum(log_share, 0.0)), 0.0)
    return np.asarray(-np.expm1(bands * np.log1p(-np.minimum(share, 1 - 1e-15))))


def sampled_recall(bits: int, collision: float, bands: int, rows: int) -> float:
    """Returns the candidate probability of bands that each take r of f bits at random."""
    probabilities = sampled_probability(np.arange(bits + 1), bits, bands, rows)
    return float((agreement_distribution(bits, collision) * probabilities).sum())
