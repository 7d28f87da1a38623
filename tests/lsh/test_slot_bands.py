import pytest

from nearkin.errors import UsageError
from nearkin.lsh.curve import (
    candidate_probability,
    expected_candidates,
)
from nearkin.lsh.slot_bands import fixed_banding, solve_banding


@pytest.mark.parametrize("k", [8, 64, 128, 256, 1024])
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
    with pytest.raises(UsageError, match=r"cannot be reached with k=8 slots.*raise --k"):
        solve_banding(0.1, 0.999, 8)


@pytest.mark.parametrize(("threshold", "recall"), [(0.0, 0.9), (1.1, 0.9), (0.8, 0.0), (0.8, 1.0)])
def test_threshold_and_recall_outside_range_are_rejected(threshold: float, recall: float) -> None:
    with pytest.raises(UsageError, match="outside"):
        solve_banding(threshold, recall, 128)


def test_fixed_bands_are_kept_or_rejected() -> None:
    assert fixed_banding(0.8, 0.95, 128, 14, 8).bands == 14
    with pytest.raises(UsageError, match=r"bands=20 and rows=13 need 260 slots.*--k 264"):
        fixed_banding(0.8, 0.95, 128, 20, 13)
