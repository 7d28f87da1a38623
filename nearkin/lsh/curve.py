"""The S-curve of banding, its two thresholds, and the solver that chooses bands and rows.

P(candidate) = 1 − (1 − collision(s)^r)^b (Indyk, Motwani, STOC 1998; Leskovec, Rajaraman, Ullman, *Mining of Massive
Datasets*, 3.4), `collision` being the chance that one banded slot agrees: J itself for MinHash.
"""

import math
from dataclasses import dataclass

import numpy as np

from nearkin.errors import UsageError

MAX_PASS = 0.9999
"""The estimate's margin is never chosen so tight that it passes fewer than needed, nor looser than this."""
UNRELATED_PAIRS = 20
"""Similarities of unrelated pairs are taken as Beta(1, 20) when settings are compared: mean 0.05, thin tail."""


def candidate_probability(collision: np.ndarray | float, bands: int, rows: int) -> np.ndarray | float:
    """P(at least one of b bands of r slots agrees).

    Examples:
        >>> round(candidate_probability(0.5, 42, 3), 3), round(candidate_probability(0.05, 42, 3), 3)
        (0.996, 0.005)
    """
    return 1 - (1 - collision**rows) ** bands


def band_probability(collision: np.ndarray | float, rows: int, probes: int = 0, one_sided: bool = False) -> np.ndarray | float:
    """P(a band brings two documents together), with probes of MinHash slots by their runner-up minima.

    With P probes a document is posted (or looks up) P more keys, each with one of the band's first P slots replaced by the
    slot's second smallest element. In the order of the union's values each element is in both sets with probability J, else in
    one of them, so the smallest ones decide: a slot agrees with J; one's runner-up meets the other's minimum with
    (1 − J)·J/2 either way, and the runner-ups meet with (1 − J)²·J/2.

    Args:
        collision: J.
        rows: r.
        probes: P, at most r.
        one_sided: Only one of the two probes.

    Examples:
        >>> [round(band_probability(0.8, 7, *probing), 3) for probing in ((), (7, True), (7,))]
        [0.21, 0.357, 0.621]
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


def similarity_at(probability: float, bands: int, rows: int) -> float:
    """The collision probability at which a pair becomes a candidate with the given probability.

    Examples:
        >>> round(similarity_at(0.5, 20, 5), 3), round(similarity_at(0.5, 40, 5), 3)
        (0.509, 0.444)
    """
    return float((1 - (1 - probability) ** (1 / bands)) ** (1 / rows))


def classic_threshold(bands: int, rows: int) -> float:
    """(1/b)^(1/r), where P(candidate) is about 63 %.

    Examples:
        >>> [round(classic_threshold(b, r), 3) for b, r in ((20, 5), (16, 8), (8, 16))]
        [0.549, 0.707, 0.878]
    """
    return float((1 / bands) ** (1 / rows))


def steepest_point(bands: int, rows: int) -> float:
    """((1 − 1/r)/(b − 1/r))^(1/r): where the S-curve rises fastest."""
    return 0.0 if rows == 1 else float(((1 - 1 / rows) / (bands - 1 / rows)) ** (1 / rows))


def expected_candidates(bands: int, rows: int, probes: int = 0) -> float:
    """Share of unrelated pairs (Beta(1, 20) similarities) that become candidates: what settings of equal recall cost."""
    s = (np.arange(400) + 0.5) / 400
    density = UNRELATED_PAIRS * (1 - s) ** (UNRELATED_PAIRS - 1)
    return float(np.mean((1 - (1 - band_probability(s, rows, probes)) ** bands) * density))


def pass_probability(k: int, agreements: int, collision: float) -> float:
    """P(at least that many of k slots agree), binomial: a lower bound of the spread's effect for correlated slots."""
    if collision >= 1:
        return 1.0
    counts = range(max(agreements, 0), k + 1)
    logs = (
        math.lgamma(k + 1)
        - math.lgamma(i + 1)
        - math.lgamma(k - i + 1)
        + i * math.log(collision)
        + (k - i) * math.log1p(-collision)
        for i in counts
    )
    return min(1.0, math.fsum(map(math.exp, logs)))


def margin_for(k: int, collision: float, passed: float) -> int:
    """The largest number of agreeing slots that a pair at the threshold reaches with probability `passed` or more."""
    low, high = 0, k
    while low < high:
        middle = (low + high + 1) // 2
        if pass_probability(k, middle, collision) >= passed:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True)
class Banding:
    """b bands of r rows over a k-slot signature, and the margin of the estimate.

    Attributes:
        bands: b.
        rows: r.
        k: Slots of the signature.
        margin: Agreeing slots that a candidate needs to be compared exactly.
        collision: Chance that a slot agrees at the threshold.
        probes: Slots of a band that are probed, from both sides.
    """

    bands: int
    rows: int
    k: int
    margin: int
    collision: float
    probes: int = 0

    def candidate_probability(self, collision: float) -> float:
        """P(candidate) of pairs whose slots agree with that chance."""
        return float(1 - (1 - band_probability(collision, self.rows, self.probes)) ** self.bands)

    @property
    def candidate_recall(self) -> float:
        """P(candidate) at the threshold."""
        return self.candidate_probability(self.collision)

    @property
    def recall(self) -> float:
        """P(candidate) × P(the estimate passes the margin), at the threshold."""
        return self.candidate_recall * pass_probability(self.k, self.margin, self.collision)


def fixed_banding(collision: float, recall: float, k: int, bands: int, rows: int, probes: int = 0) -> Banding:
    """The caller's bands and rows, with the margin that keeps the asked recall where they can reach it at all."""
    probes = min(probes, rows)
    if bands < 1 or rows < 1 or bands * rows > k:
        raise UsageError(
            f"bands={bands} × rows={rows} needs {bands * rows} slots but a signature has k={k}; "
            f"use fewer, or --k {math.ceil(max(bands * rows, 1) / 8) * 8}"
        )
    reached = Banding(bands, rows, k, 0, collision, probes).candidate_recall
    passed = min(recall / reached, MAX_PASS) if reached > recall else MAX_PASS
    return Banding(bands, rows, k, margin_for(k, collision, passed), collision, probes)


def solve_banding(collision: float, recall: float, k: int, tables: int = 1, probes: int = 0) -> Banding:
    """Among all (b, r) with b·r ≤ k that reach the asked recall, the one with the fewest expected candidates.

    Args:
        collision: Chance that a slot agrees at the threshold (J for MinHash).
        recall: Asked share of the pairs at the threshold to be found.
        k: Slots of a signature.
        tables: Independent tables of disjoint slots; b is a multiple of them.
        probes: Slots of each band that are probed from both sides, at most r.

    Raises:
        UsageError: No setting reaches it; says what does.

    Examples:
        >>> found = solve_banding(0.8, 0.95, 128)
        >>> found.bands, found.rows, found.recall >= 0.95
        (13, 7, True)
    """
    if not 0 < collision <= 1:
        raise UsageError(f"threshold {collision} is outside 0 to 1")
    if not 0 < recall < 1:
        raise UsageError(f"recall {recall} is outside 0 to 1 (exclusive); 0.95 is usual")
    best: tuple[float, int, int] | None = None
    for rows in range(1, k + 1):
        bands = _fewest_bands(collision, recall / MAX_PASS, rows, k // rows, min(probes, rows))
        if bands is not None and (bands := -(-bands // tables) * tables) * rows <= k:
            cost = expected_candidates(bands, rows, min(probes, rows))
            if best is None or cost < best[0]:
                best = (cost, bands, rows)
    if best is None:
        reachable = float(candidate_probability(collision, k, 1)) * MAX_PASS
        raise UsageError(
            f"recall {recall} at threshold {collision} is out of reach with k={k} slots (at most {reachable:.4f}); "
            "raise --k, or ask for less recall"
        )
    return fixed_banding(collision, recall, k, best[1], best[2], probes)


def _fewest_bands(collision: float, recall: float, rows: int, most: int, probes: int) -> int | None:
    """The smallest b ≤ most with P(candidate) ≥ recall; more bands of the same rows only add candidates."""

    def reached(bands: int) -> float:
        return float(1 - (1 - band_probability(collision, rows, probes)) ** bands)

    if reached(most) < recall:
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if reached(middle) >= recall:
            high = middle
        else:
            low = middle + 1
    return low
