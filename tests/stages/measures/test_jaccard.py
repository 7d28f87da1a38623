"""Tests of the Jaccard similarity from slots: its estimate and its tables."""

import math

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.settings.spec import SLOT_BITS, Spec
from nearkin.stages.lsh.kernels import pair_agreements
from nearkin.stages.measures import BandingRequest, measure_of
from nearkin.stages.measures.base import band_layout_of
from nearkin.stages.measures.jaccard import Jaccard
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.sketch.sketcher import Sketcher


@pytest.mark.parametrize("bits", SLOT_BITS)
@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8])
def test_estimate_of_truncated_slots_is_unbiased_with_stated_error(
    bits: int, similarity: float
) -> None:
    spec = Spec(slot_bits=bits, scheme="classic")
    trials = 400
    size = 300
    measure = Jaccard(spec)
    shared = round(2 * size * similarity / (1 + similarity))
    true = shared / (2 * size - shared)
    rng = np.random.default_rng(bits)
    names = rng.integers(0, 2**40, (trials, 2 * size - shared))
    tokens = [list(map(str, row)) for a in names for row in (a[:size], a[size - shared :])]
    signatures = (
        Sketcher(spec_of_tokens(spec))
        .sketch(pa.array(tokens, pa.large_list(pa.large_string())))
        .signatures
    )
    band_layout = band_layout_of(
        measure.spec, measure.banding(BandingRequest(0.8, 0.95)), np.empty((0, 0), np.uint64)
    )
    a = np.arange(0, 2 * trials, 2, dtype=np.uint64)
    agreeing = np.empty(trials, np.int64)
    pairs = pack_pairs(a, a + np.uint64(1))
    pair_agreements(pairs, signatures, band_layout.layout, agreeing)
    chance = 0.0 if bits == 32 else 2.0**-bits
    estimates = (agreeing / spec.k - chance) / (1 - chance)
    error = measure.estimator.standard_error(true)
    assert abs(estimates.mean() - true) < 4 * error / math.sqrt(trials)
    assert 0.85 < estimates.std() / error < 1.15
    assert np.allclose(
        measure.estimator.estimate(pairs, agreeing).similarity, np.maximum(estimates, 0)
    )


def spec_of_tokens(spec: Spec) -> Spec:
    return Spec(n=1, scheme=spec.scheme, slot_bits=spec.slot_bits)


@pytest.mark.parametrize("tables", [1, 2, 4])
def test_independent_tables_increase_recall(tables: int) -> None:
    """The recall of L tables of b bands is 1 − (1 − S)^L, which is that of L·b bands."""
    measure = measure_of(Spec(k=256))
    one = measure.banding(BandingRequest(0.8, 0.95, 4, 10, 1)).candidate_recall
    several = measure.banding(BandingRequest(0.8, 0.95, 4, 10, tables))
    assert several.bands == 4 * tables
    assert several.candidate_recall == pytest.approx(1 - (1 - one) ** tables)
    solved = measure.banding(BandingRequest(0.8, 0.95, tables=tables))
    assert solved.bands % tables == 0
    assert solved.recall >= 0.95


def test_tables_of_too_many_slots_are_rejected() -> None:
    with pytest.raises(UsageError, match="need 160 slots"):
        nk.dedup(["a"], bands=8, rows=10, tables=2)
    with pytest.raises(UsageError, match=r"tables=.* and probes=.* are only for MinHash"):
        nk.dedup(["a"] * 3, measure="simhash", bands=2, rows=3, tables=2)
