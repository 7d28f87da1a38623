import math
import random

import pytest

from nearkin.stages.lsh.curve import (
    candidate_probability,
    classic_threshold,
    pass_probability,
    steepest_point,
)


@pytest.mark.parametrize(("bands", "rows"), [(20, 5), (13, 7), (42, 3), (8, 16)])
def test_slope_is_largest_at_steepest_point(bands: int, rows: int) -> None:
    grid = [i / 10_000 for i in range(1, 10_000)]
    slopes = [
        candidate_probability(s + 1e-6, bands, rows) - candidate_probability(s - 1e-6, bands, rows)
        for s in grid
    ]
    peak = grid[max(range(len(grid)), key=slopes.__getitem__)]
    assert steepest_point(bands, rows) == pytest.approx(peak, abs=2e-3)


def test_candidate_probability_at_classic_threshold_is_63_percent() -> None:
    assert candidate_probability(classic_threshold(50, 10), 50, 10) == pytest.approx(
        1 - 1 / math.e, abs=0.01
    )


def test_pass_probability_matches_simulation() -> None:
    draw = random.Random(7)
    trials = 4000
    for agreements in (85, 95, 102, 110):
        hits = sum(
            sum(draw.random() < 0.8 for _ in range(128)) >= agreements for _ in range(trials)
        )
        assert pass_probability(128, agreements, 0.8) == pytest.approx(hits / trials, abs=0.03)
