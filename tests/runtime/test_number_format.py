"""Tests that numbers in texts read as 0 or 1 only if they are."""

import math
from decimal import ROUND_FLOOR, Decimal

from hypothesis import given
from hypothesis import strategies as st

from nearkin.runtime.number_format import format_fraction, format_percent, format_similarity

SHARES = st.floats(0, 1)
DIGITS = st.integers(1, 6)


@given(SHARES, DIGITS)
def test_share_reads_as_0_or_1_only_if_it_is(share: float, digits: int) -> None:
    assert (float(format_fraction(share, digits)) in (0, 1)) == (share in (0, 1))
    percent = format_percent(share)
    assert (percent in ("0%", "100%", "0.0%", "100.0%")) == (share in (0, 1))


@given(SHARES, DIGITS)
def test_share_is_near_its_text(share: float, digits: int) -> None:
    """Rounding moves a value by half a unit, and the limits by less than one unit."""
    assert abs(float(format_fraction(share, digits)) - share) <= 10**-digits * (1 + 1e-6)


@given(SHARES, DIGITS)
def test_similarity_is_rounded_down(similarity: float, digits: int) -> None:
    """The exact arithmetic of Decimal gives the digit; a float may lie a hair below a decimal."""
    unit = Decimal(1).scaleb(-digits)
    exact = Decimal(similarity + 1e-9 * float(unit)).quantize(unit, ROUND_FLOOR)
    assert math.isclose(float(format_similarity(similarity, digits)), float(exact), abs_tol=1e-12)


def test_agreement_of_0_9995_does_not_read_as_1() -> None:
    assert format_fraction(0.9995) == "0.999"
    assert format_similarity(0.9995) == "0.999"
    assert format_fraction(0.99996, digits=4) == "0.9999"
    assert format_percent(0.9996) == ">99.9%"


def test_similarity_below_a_threshold_does_not_read_as_the_threshold() -> None:
    assert format_similarity(0.79999, digits=4) == "0.7999"
    assert format_similarity(-0.00001) == "-0.001"
