"""Banding of MinHash slots: the choice of bands, rows and margin for a threshold and a recall."""

import math
from dataclasses import dataclass, replace

from nearkin.errors import UsageError
from nearkin.runtime.number_range import OPEN_SHARE, SHARE_ABOVE_0
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import MEASURES
from nearkin.stages.lsh.curve import (
    band_probability,
    candidate_probability,
    expected_candidates,
    pass_probability,
    truncated_collision,
)
from nearkin.stages.lsh.solve import MAX_PASS_RATE, prefilter_margin, smallest_integer

SLOT_LIMITS = MEASURES["jaccard"]
"""The limits of the number of slots, which messages name."""


@dataclass(frozen=True)
class Banding:
    """A division of a signature of k slots into b bands of r rows, with the prefilter's margin.

    Attributes:
        bands: Number of bands b.
        rows: Number of slots r in a band.
        k: Number of slots of the signature.
        margin: Number of agreeing slots that a candidate needs to be verified.
        collision: Probability that one slot agrees at the threshold.
        probes: Number of slots of a band that are probed, by both documents.
        slot_bits: Number of bits b of a slot that the prefilter compares, if signatures are
            truncated; None for whole slots. Band keys are always made of whole slots.
    """

    bands: int
    rows: int
    k: int
    margin: int
    collision: float
    probes: int = 0
    slot_bits: int | None = None

    def candidate_probability(self, collision: float) -> float:
        """Returns the probability that a pair becomes a candidate."""
        band = band_probability(collision, self.rows, self.probes)
        return float(1 - (1 - band) ** self.bands)

    def agreement_probability(self, collision: float) -> float:
        """Returns the expected share of slots that agree in the prefilter."""
        if self.slot_bits is None:
            return collision
        return truncated_collision(collision, self.slot_bits)

    def recall_at(self, collision: float) -> float:
        """Returns the probability that a pair is a candidate and passes the prefilter.

        The two events are treated as independent. In fact a candidate passes more often than
        another pair, and truncated slots agree more often than whole ones, so the result is a
        lower bound.
        """
        passing = pass_probability(self.k, self.margin, collision)
        return self.candidate_probability(collision) * passing

    @property
    def candidate_recall(self) -> float:
        """The candidate probability at the threshold."""
        return self.candidate_probability(self.collision)

    @property
    def recall(self) -> float:
        """The probability that a pair at the threshold is a candidate and passes the prefilter."""
        return self.recall_at(self.collision)


def require_bands_with_rows(bands: int | None, rows: int | None) -> None:
    """Requires that bands and rows are given together."""
    if (bands is None) == (rows is None):
        return
    missing = "bands" if bands is None else "rows"
    given = name_setting("rows", rows) if bands is None else name_setting("bands", bands)
    raise UsageError(
        f"{given} is given without {missing}, but bands and rows go together; give both, or "
        "neither to have them computed"
    )


def fixed_banding(
    collision: float,
    recall: float,
    k: int,
    bands: int,
    rows: int,
    probes: int = 0,
    slot_bits: int | None = None,
) -> Banding:
    """Returns a banding with given bands and rows.

    The prefilter compares `slot_bits` of a slot, or all.
    """
    probes = min(probes, rows)
    if bands < 1 or rows < 1:
        raise UsageError(
            f"{name_setting('bands', bands)} and {name_setting('rows', rows)} must both be at "
            f"least 1"
        )
    if bands * rows > k:
        enough = -(-bands * rows // SLOT_LIMITS.k_step) * SLOT_LIMITS.k_step
        larger_k = f", or {name_setting('k', enough)}" if enough <= SLOT_LIMITS.largest_k else ""
        raise UsageError(
            f"{name_setting('bands', bands)} and {name_setting('rows', rows)} need "
            f"{bands * rows} slots, which is more than {name_setting('k', k)}; "
            f"use fewer bands or rows{larger_k}"
        )
    banding = Banding(bands, rows, k, 0, collision, probes, slot_bits)
    # Slots that are equal agree in all their bits. Agreements by chance are not counted on: in
    # documents of few shingles, all slots of two shingles can differ in a bit.
    margin = prefilter_margin(k, collision, recall, banding.candidate_recall)
    return replace(banding, margin=margin)


def solve_banding(
    collision: float,
    recall: float,
    k: int,
    tables: int = 1,
    probes: int = 0,
    slot_bits: int | None = None,
) -> Banding:
    """Returns the banding with the fewest expected candidates that reaches a recall.

    All bandings with b·r ≤ k are compared. The prefilter compares `slot_bits` of a slot, or all.

    Examples:
        >>> banding = solve_banding(0.8, 0.95, 128)
        >>> banding.bands, banding.rows, banding.recall >= 0.95
        (13, 7, True)
    """
    SHARE_ABOVE_0.require("threshold", collision)
    OPEN_SHARE.require("recall", recall)
    best: tuple[float, int, int] | None = None
    for rows in range(1, k + 1):
        used_probes = min(probes, rows)
        fewest = _fewest_bands(collision, recall / MAX_PASS_RATE, rows, k // rows, used_probes)
        if fewest is None:
            continue
        bands = math.ceil(fewest / tables) * tables
        if bands * rows > k:
            continue
        cost = expected_candidates(bands, rows, used_probes)
        if best is None or cost < best[0]:
            best = (cost, bands, rows)
    if best is None:
        reachable = float(candidate_probability(collision, k, 1)) * MAX_PASS_RATE
        raise UsageError(
            f"recall {recall} at threshold {collision} cannot be reached with "
            f"{name_setting('k', k)} slots "
            f"(at most {reachable:.4f}); raise {name_setting('k')} or lower "
            f"{name_setting('recall')}"
        )
    _, bands, rows = best
    return fixed_banding(collision, recall, k, bands, rows, probes, slot_bits)


def _fewest_bands(collision: float, recall: float, rows: int, most: int, probes: int) -> int | None:
    """Returns the smallest number of bands, up to `most`, whose candidate probability suffices."""
    band = band_probability(collision, rows, probes)

    def suffices(bands: int) -> bool:
        return float(1 - (1 - band) ** bands) >= recall

    return smallest_integer(suffices, 1, most) if suffices(most) else None
