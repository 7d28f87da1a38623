import math
import random

import pytest

from nearkin.errors import UsageError
from nearkin.lsh.curve import (
    candidate_probability,
    classic_threshold,
    expected_candidates,
    fixed_banding,
    margin_for,
    pass_probability,
    similarity_at,
    solve_banding,
    steepest_point,
)


@pytest.mark.parametrize(("bands", "rows"), [(20, 5), (13, 7), (42, 3), (8, 16), (1, 1)])
def test_root_finding_inverts_the_curve(bands: int, rows: int) -> None:
    for probability in (0.001, 0.5, 0.99):
        assert candidate_probability(similarity_at(probability, bands, rows), bands, rows) == pytest.approx(probability)


@pytest.mark.parametrize(("bands", "rows"), [(20, 5), (13, 7), (42, 3), (8, 16)])
def test_steepest_point_is_where_the_slope_peaks(bands: int, rows: int) -> None:
    grid = [i / 10_000 for i in range(1, 10_000)]
    slopes = [candidate_probability(s + 1e-6, bands, rows) - candidate_probability(s - 1e-6, bands, rows) for s in grid]
    peak = grid[max(range(len(grid)), key=slopes.__getitem__)]
    assert steepest_point(bands, rows) == pytest.approx(peak, abs=2e-3)


def test_about_63_percent_at_the_classic_threshold() -> None:
    assert candidate_probability(classic_threshold(50, 10), 50, 10) == pytest.approx(1 - 1 / math.e, abs=0.01)


@pytest.mark.parametrize("k", [8, 64, 128, 256, 1024])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("recall", [0.5, 0.9, 0.95])
def test_solved_banding_reaches_the_asked_recall_with_the_fewest_candidates(k: int, threshold: float, recall: float) -> None:
    if candidate_probability(threshold, k, 1) < recall / 0.9999:
        with pytest.raises(UsageError, match="out of reach"):
            solve_banding(threshold, recall, k)
        return
    found = solve_banding(threshold, recall, k)
    assert found.bands * found.rows <= k
    assert found.recall >= recall
    for rows in range(1, k + 1):
        for bands in {1, 2, k // rows // 2, k // rows} - {0}:
            if bands * rows <= k and candidate_probability(threshold, bands, rows) >= recall / 0.9999:
                assert expected_candidates(bands, rows) >= expected_candidates(found.bands, found.rows) - 1e-15


def test_recall_out_of_reach_names_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"out of reach with k=8 slots.*raise --k"):
        solve_banding(0.1, 0.999, 8)


@pytest.mark.parametrize(("threshold", "recall"), [(0.0, 0.9), (1.1, 0.9), (0.8, 0.0), (0.8, 1.0)])
def test_values_outside_their_range_are_refused(threshold: float, recall: float) -> None:
    with pytest.raises(UsageError, match="outside"):
        solve_banding(threshold, recall, 128)


def test_asked_bands_are_honoured_or_refused() -> None:
    assert fixed_banding(0.8, 0.95, 128, 14, 8).bands == 14
    with pytest.raises(UsageError, match=r"bands=20 × rows=13 needs 260 slots.*--k 264"):
        fixed_banding(0.8, 0.95, 128, 20, 13)


def test_binomial_tail_against_simulation() -> None:
    draw = random.Random(7)
    trials = 4000
    for agreements in (85, 95, 102, 110):
        hits = sum(sum(draw.random() < 0.8 for _ in range(128)) >= agreements for _ in range(trials))
        assert pass_probability(128, agreements, 0.8) == pytest.approx(hits / trials, abs=0.03)


def test_margin_is_the_largest_that_passes() -> None:
    margin = margin_for(128, 0.8, 0.99)
    assert pass_probability(128, margin, 0.8) >= 0.99 > pass_probability(128, margin + 1, 0.8)
