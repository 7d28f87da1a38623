"""Band keys, and the limits of comparing signatures."""

from math import ceil
from typing import NamedTuple

import numpy as np

from nearkin.engine.options import RunOptions
from nearkin.settings.choices import Verify
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import BandLayout, write_band_keys
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure

ROUNDING = 1e-9
"""A tolerance below one slot: k × threshold can be rounded to just above a whole number."""


class AgreementLimits(NamedTuple):
    """The numbers of agreeing slots that decide about a candidate pair."""

    margin: int
    """The smallest number for a pair to be verified."""
    join: int
    """The smallest number for a document of a hot bucket to join a leader, not to become one."""

    @classmethod
    def create(cls, measure: Measure, banding: Banding, options: RunOptions) -> "AgreementLimits":
        """Returns the limits of a run."""
        margin = 0 if options.verify == Verify.NONE else banding.margin
        expected = measure.estimator.expected_agreements(options.joining_threshold)
        return cls(margin, max(margin, ceil(expected - ROUNDING)))


def builds_keys_while_sketching(options: RunOptions) -> bool:
    """Returns whether band keys cannot be computed from the signatures that are kept."""
    return options.spec.truncated or options.probes > 0


def build_band_keys(
    band_layout: BandLayout,
    banding: Banding,
    signatures: np.ndarray,
    sketched_keys: np.ndarray | None,
    salts: np.ndarray,
) -> np.ndarray:
    """Returns the band keys of n documents, uint64 (bands, n, 1 + probes).

    Args:
        signatures: Signatures, (n, width).
        sketched_keys: Keys that were built while sketching, without a block, uint64
            (n, bands × (1 + probes)); None if keys are computed from signatures.
        salts: Hash of each document's block, uint64 (n,).
    """
    keys_per_band = 1 + banding.probes
    out = np.empty((banding.bands * keys_per_band, len(signatures)), np.uint64)
    if sketched_keys is None:
        write_band_keys(band_layout, signatures, salts, out)
    else:
        kernels.salt_keys(sketched_keys, salts, out)
    return out.reshape(-1, keys_per_band, len(signatures)).transpose(0, 2, 1)
