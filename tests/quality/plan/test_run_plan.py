"""Tests of plans of runs: disk, time and price follow from the candidates."""

import pytest

from nearkin.quality.plan.capacity import plan
from nearkin.quality.plan.run_plan import SECONDS_PER_ESTIMATE
from tests.quality.plan.made_up_rates import RATES


def test_disk_time_and_price_follow_from_the_candidates_that_are_shown() -> None:
    """Fewer rows have more candidates by chance. The number of bands is the same."""
    prices = {"core_hour_price": 1.0, "gb_month_price": 1.0}
    few = plan(10**9, rates=RATES, bands=13, rows=7, **prices)
    many = plan(10**9, rates=RATES, bands=13, rows=5, **prices)
    pairs = many.value("candidate pairs") - few.value("candidate pairs")
    by_chance = "candidates of a document by chance"
    assert many.value(by_chance) > 10 * few.value(by_chance)
    near = many.value("near-duplicate candidates")
    assert many.value("candidate pairs") == pytest.approx(
        10**9 * (many.value(by_chance) + near) / 2
    )
    core_seconds = 2 * (many.value("seconds") - few.value("seconds"))
    assert core_seconds >= pairs * SECONDS_PER_ESTIMATE
    assert many.value("price of a run") > few.value("price of a run")


def test_work_disk_holds_the_documents_of_verified_pairs() -> None:
    for duplicates in (0.0, 0.1, 0.6):
        planned = plan(1_000_000, rates=RATES, duplicates=duplicates)
        pairs = planned.value("verified pairs")
        assert pairs == pytest.approx(1_000_000 * duplicates * 0.95, rel=0.02, abs=1)
        per_document = 512 + 40 + 29 + 20 + 8 * 13
        documents = (planned.value("work disk") - 1_000_000 * per_document) / 2400
        assert documents == pytest.approx(min(2 * pairs, 1_000_000), rel=0.02, abs=2)


def test_plan_of_a_billion_documents() -> None:
    capacity_plan = plan(1_000_000_000, bands=20, rows=6, rates=RATES)
    assert capacity_plan.value("signatures of 64-bit slots") == pytest.approx(1e12, rel=0.03)
    assert capacity_plan.value("signatures of 32-bit slots") == 512e9
    assert capacity_plan.value("signatures of 1-bit slots") == 16e9
    assert capacity_plan.value("postings of a document") == 20
