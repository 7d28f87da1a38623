import numpy as np
import pytest

from nearkin.errors import UsageError
from nearkin.stages.lsh.curve import sampled_recall, sign_collision
from nearkin.stages.lsh.sign_bands import (
    SignBanding,
    block_banding,
    fixed_sign_banding,
    solve_sign_banding,
)


def test_larger_corpus_gets_more_bands_of_more_rows() -> None:
    few, many = block_banding(64, 3, 10_000), block_banding(64, 3, 100_000_000)
    assert few.bands < many.bands
    assert few.rows < many.rows


@pytest.mark.parametrize(("bits", "bands", "rows"), [(128, 9, 14), (128, 60, 14), (64, 40, 10)])
@pytest.mark.parametrize("similarity", [0.7, 0.9])
def test_candidate_recall_of_signs_matches_simulation(
    bits: int, bands: int, rows: int, similarity: float
) -> None:
    """Simulates runs of bits and overlapping samples with independent bits."""
    collision = sign_collision(similarity)
    banding = SignBanding(bands, rows, bits, 0, collision, documents=1000)
    assert banding.sampled == (bands * rows > bits)
    rng, trials = np.random.default_rng(bands), 20_000
    differing = np.packbits(
        rng.random((trials, bits)) >= collision, axis=1, bitorder="little"
    ).view("<u8")
    masks = banding.band_layout.masks_or_keys
    hit = np.zeros(trials, bool)
    for mask in masks:
        hit |= ((differing & mask) == 0).all(axis=1)
    assert masks.shape == (bands, bits // 64)
    assert (np.bitwise_count(masks).sum(axis=1) == rows).all()
    assert abs(hit.mean() - banding.candidate_recall) < 4 * np.sqrt(0.25 / trials) + (
        0.02 if banding.sampled else 0
    )


@pytest.mark.parametrize(("threshold", "bits"), [(0.8, 512), (0.9, 128), (0.95, 64), (0.99, 64)])
def test_solved_sign_banding_reaches_recall(threshold: float, bits: int) -> None:
    banding = solve_sign_banding(threshold, 0.95, bits, 100_000)
    assert banding.recall >= 0.95
    assert banding.expected_bucket <= 50
    assert (
        fixed_sign_banding(threshold, 0.95, bits, 100_000, banding.bands, banding.rows) == banding
    )


def test_unreachable_recall_of_signs_error_names_remedy() -> None:
    with pytest.raises(UsageError, match=r"cannot be reached with 64 bits.*`distance`"):
        solve_sign_banding(0.5, 0.95, 64, 1_000_000)


def test_more_sampled_bands_increase_recall() -> None:
    assert (
        sampled_recall(64, 0.9, 50, 16)
        > sampled_recall(64, 0.9, 20, 16)
        > sampled_recall(64, 0.9, 20, 24)
    )
