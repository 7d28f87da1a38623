"""Band keys and the limits of comparing by signatures: what both engines do alike."""

from math import ceil
from typing import NamedTuple

import numpy as np

from nearkin.engine.options import RunOptions
from nearkin.lsh import kernels
from nearkin.lsh.band_keys import BandLayout, write_band_keys
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure

ROUNDING = 1e-9


class Limits(NamedTuple):
    """Agreeing slots that decide what becomes of a candidate."""

    margin: int
    """From which it is compared exactly."""
    join: int
    """From which a member of a hot bucket joins a leader for good."""

    @classmethod
    def of(cls, measure: Measure, banding: Banding, options: RunOptions) -> "Limits":
        """For a measure's signatures."""
        margin = 0 if options.verify == "none" else banding.margin
        # less than any slot: k·t can be rounded to just above a whole number
        joining = ceil(measure.estimator.expected_agreements(options.threshold) - ROUNDING)
        return cls(margin, max(margin, joining))


def keeps_keys(options: RunOptions) -> bool:
    """Whether band keys are made while sketching, for they do not follow from what is kept."""
    return options.spec.truncated or options.probes > 0


def band_keys(
    band_layout: BandLayout, banding: Banding, signatures: np.ndarray, kept: np.ndarray | None, salts: np.ndarray
) -> np.ndarray:
    """uint64 (b, n, 1 + probes): the keys of n documents.

    Args:
        band_layout: How signatures are banded.
        banding: Bands and probes.
        signatures: (n, w).
        kept: uint64 (n, b·(1 + probes)): keys that were made while sketching, without a block.
        salts: uint64 (n,): of each document's block.
    """
    per = 1 + banding.probes
    out = np.empty((banding.bands * per, len(signatures)), np.uint64)
    if kept is None:
        write_band_keys(band_layout, signatures, salts, out)
    else:
        kernels.salt_keys(kept, salts, out)
    return out.reshape(-1, per, len(signatures)).transpose(0, 2, 1)
