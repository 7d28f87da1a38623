"""Ranges of numbers: which values they contain, and how a message names one that they do not."""

import math

import pytest

from nearkin.errors import UsageError
from nearkin.runtime.number_range import ABOVE_ZERO, COUNT, OPEN_SHARE, SHARE, NumberRange
from nearkin.runtime.setting_names import SettingForm, settings_named_as


@pytest.mark.parametrize(
    ("limits", "contained", "others"),
    [
        (SHARE, (0, 0.5, 1), (-0.1, 1.1)),
        (OPEN_SHARE, (0.001, 0.999), (0, 1)),
        (COUNT, (1, 10**18), (0, -1)),
        (ABOVE_ZERO, (0.001,), (0, -1)),
        (NumberRange(2, 4), (2, 3, 4), (1, 5)),
    ],
)
def test_a_range_contains_its_bounds_unless_they_are_excluded(
    limits: NumberRange, contained: tuple[float, ...], others: tuple[float, ...]
) -> None:
    assert all(map(limits.contains, contained))
    assert not any(map(limits.contains, (*others, math.inf, -math.inf, math.nan)))


def test_a_number_out_of_range_is_named_as_the_user_wrote_it() -> None:
    COUNT.require("rows", 1)
    with pytest.raises(UsageError, match=r"^rows=inf is not a finite number$"):
        COUNT.require("rows", math.inf)
    with pytest.raises(UsageError, match=r"^max_df=1\.5 is out of range; it must be above 0 and b"):
        OPEN_SHARE.require("max_df", 1.5)
    with (
        settings_named_as(SettingForm.OPTION),
        pytest.raises(UsageError, match=r"^--max-df 0 is out of range; it must be from 1 to 9$"),
    ):
        NumberRange(1, 9).require("max_df", 0)
