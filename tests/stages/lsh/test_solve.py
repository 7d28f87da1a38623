import pytest

from nearkin.stages.lsh.curve import (
    pass_probability,
)
from nearkin.stages.lsh.solve import largest_margin, smallest_integer


def test_largest_margin_is_largest_that_passes() -> None:
    margin = largest_margin(128, 0.8, 0.99)
    assert pass_probability(128, margin, 0.8) >= 0.99 > pass_probability(128, margin + 1, 0.8)


@pytest.mark.parametrize("bound", [0, 1, 7, 100, 101])
def test_smallest_integer_finds_where_condition_becomes_true(bound: int) -> None:
    assert smallest_integer(lambda x: x >= bound, 0, 100) == min(bound, 100)
