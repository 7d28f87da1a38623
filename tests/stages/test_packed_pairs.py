"""Tests of packed pairs with scores: the threshold test is exact."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.stages.packed_pairs import meets_threshold


@given(st.integers(1, 2**31), st.integers(1, 10**6), st.integers(2, 6), st.integers(-2, 2))
def test_meets_threshold_decides_like_rational_arithmetic(
    joint: int, number: int, decimals: int, off: int
) -> None:
    written = Fraction(number % 10**decimals + 1, 10**decimals)
    shared = min(max(round(joint * written) + off, 0), joint)
    accepted = meets_threshold(np.array([shared]), np.array([joint]), float(written))
    assert bool(accepted[0]) == (Fraction(shared, joint) >= written)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_thresholds_of_two_decimals_are_exact(kind: type) -> None:
    for percent in range(1, 101):
        joint = np.arange(100, 100_001, 100)
        shared = joint // 100 * percent
        assert meets_threshold(shared.astype(kind), joint.astype(kind), percent / 100).all(), (
            percent
        )
        assert not meets_threshold(
            (shared - 1).astype(kind), joint.astype(kind), percent / 100
        ).any(), percent
