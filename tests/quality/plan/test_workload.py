"""Tests of the requirements of a plan."""

import math
from typing import Any

import pytest

from nearkin.errors import UsageError
from nearkin.quality.plan.capacity import plan
from nearkin.quality.plan.workload import Workload
from tests.quality.plan.made_up_rates import RATES


@pytest.mark.parametrize(
    "arguments",
    [
        {"engine": "gpu"},
        {"documents": 0},
        {"duplicates": 1.0},
        {"memory": 1},
        {"ingest": 0},
        {"shingles": 0},
        {"threshold": 0},
    ],
)
def test_invalid_workloads_are_rejected(arguments: dict) -> None:
    with pytest.raises(UsageError):
        plan(Workload(**{"documents": 10, **arguments}), rates=RATES)
    with pytest.raises(UsageError, match="unknown line"):
        plan(10, rates=RATES).value("nothing")


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["core_hour_price", "gb_month_price", "ingest", "text_bytes"])
def test_numbers_that_are_not_finite_are_refused(name: str, value: float) -> None:
    keywords: dict[str, Any] = {name: value}
    with pytest.raises(UsageError, match=f"{name}={value:g} is not a (finite )?number"):
        Workload(10, **keywords)
