import math

import numpy as np
import pytest

from nearkin.errors import UsageError
from nearkin.stages.lsh.curve import (
    candidate_probability,
    expected_candidates,
    pass_probability,
)
from nearkin.stages.lsh.slot_bands import fixed_banding, solve_banding


@pytest.mark.parametrize("k", [8, 64, 128, 256, pytest.param(1024, marks=pytest.mark.full)])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("recall", [0.5, 0.9, 0.95])
def test_solved_banding_reaches_recall_with_fewest_candidates(
    k: int, threshold: float, recall: float
) -> None:
    if candidate_probability(threshold, k, 1) < recall / 0.9999:
        with pytest.raises(UsageError, match="cannot be reached"):
            solve_banding(threshold, recall, k)
        return
    banding = solve_banding(threshold, recall, k)
    assert banding.bands * banding.rows <= k
    assert banding.recall >= recall
    for rows in range(1, k + 1):
        for bands in {1, 2, k // rows // 2, k // rows} - {0}:
            if (
                bands * rows <= k
                and candidate_probability(threshold, bands, rows) >= recall / 0.9999
            ):
                assert (
                    expected_candidates(bands, rows)
                    >= expected_candidates(banding.bands, banding.rows) - 1e-15
                )


def test_unreachable_recall_error_names_remedy() -> None:
    with pytest.raises(UsageError, match=r"cannot be reached with k=8 slots.*raise `k`"):
        solve_banding(0.1, 0.999, 8)


@pytest.mark.parametrize(("threshold", "recall"), [(0.0, 0.9), (1.1, 0.9), (0.8, 0.0), (0.8, 1.0)])
def test_threshold_and_recall_outside_range_are_rejected(threshold: float, recall: float) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        solve_banding(threshold, recall, 128)


def test_fixed_bands_are_kept_or_rejected() -> None:
    assert fixed_banding(0.8, 0.95, 128, 14, 8).bands == 14
    with pytest.raises(UsageError, match=r"bands=20 and rows=13 need 260 slots.*k=264"):
        fixed_banding(0.8, 0.95, 128, 20, 13)


@pytest.mark.parametrize("slot_bits", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("similarity", [0.6, 0.7, 0.85])
def test_recall_of_truncated_slots_agrees_with_simulation(
    slot_bits: int, similarity: float
) -> None:
    """Bands compare whole slots, and the margin compares b bits of each slot.

    Tolerances are four standard errors of 10,000 simulated pairs.
    """
    k = 128
    pairs = 10_000
    banding = solve_banding(0.7, 0.95, k, slot_bits=None if slot_bits == 32 else slot_bits)
    rng = np.random.Generator(np.random.PCG64(slot_bits))
    slots_a = rng.integers(0, 2**32, (pairs, k), np.uint32)
    slots_b = rng.integers(0, 2**32, (pairs, k), np.uint32)
    slots_b = np.where(rng.random((pairs, k)) < similarity, slots_a, slots_b)
    banded = (slots_a == slots_b)[:, : banding.bands * banding.rows]
    is_candidate = banded.reshape(pairs, banding.bands, banding.rows).all(axis=2).any(axis=1)
    kept = np.uint32(2**slot_bits - 1)
    agreeing = ((slots_a & kept) == (slots_b & kept)).sum(axis=1)
    passes = agreeing >= banding.margin

    def error(probability: float) -> float:
        return 4 * math.sqrt(max(probability * (1 - probability), 1 / pairs) / pairs)

    candidates = banding.candidate_probability(similarity)
    passing = pass_probability(k, banding.margin, banding.agreement_probability(similarity))
    recall = banding.recall_at(similarity)
    assert is_candidate.mean() == pytest.approx(candidates, abs=error(candidates))
    assert passes.mean() == pytest.approx(passing, abs=error(passing))
    found = (is_candidate & passes).mean()
    assert recall - error(recall) <= found <= min(candidates, passing) + error(recall)


@pytest.mark.parametrize("slot_bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.85, 0.95])
def test_solved_banding_of_truncated_slots_reaches_recall(slot_bits: int, threshold: float) -> None:
    banding = solve_banding(threshold, 0.95, 128, slot_bits=slot_bits)
    whole = solve_banding(threshold, 0.95, 128)
    assert banding.recall >= 0.95
    assert (banding.bands, banding.rows) == (whole.bands, whole.rows)


def test_a_larger_k_is_proposed_only_if_there_is_one() -> None:
    with pytest.raises(UsageError, match=r"use fewer bands or rows, or k=1024$"):
        fixed_banding(0.8, 0.95, 128, 204, 5)
    with pytest.raises(UsageError, match=r"use fewer bands or rows$"):
        fixed_banding(0.8, 0.95, 128, 205, 5)
    with pytest.raises(UsageError, match="bands=-1 and rows=-1 must both be at least 1"):
        fixed_banding(0.8, 0.95, 128, -1, -1)
