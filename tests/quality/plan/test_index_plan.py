"""Tests of plans of an online index."""

import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.quality.plan.capacity import plan
from nearkin.quality.plan.throughput import binned_updates
from nearkin.quality.plan.workload import Workload
from tests.quality.plan.made_up_rates import RATES


@pytest.mark.parametrize(
    ("clusters", "inside"), [(1_000, 31), (10_000, 312), (100_000, 3_125), (1_000_000, 31_250)]
)
@pytest.mark.parametrize("items", [1_000_000, 10_000_000])
def test_plan_of_an_index(items: int, clusters: int, inside: int) -> None:
    """Postings grow with the clusters and records with the items, at 2^5 buckets per band."""
    spec = nk.Spec(measure="cosine", unit="vector", n=384)
    arguments = {"clusters": clusters, "engine": "index", "bands": 20, "rows": 5, "memory": 1e12}
    capacity_plan = plan(items, spec, RATES, **arguments)
    assert int(capacity_plan.value("representatives of a bucket")) == inside
    assert capacity_plan.value("records") == items
    assert capacity_plan.value("representatives") == clusters
    assert capacity_plan.value("postings") == 20 * clusters
    assert capacity_plan.value("buckets") == 20 * 32
    assert capacity_plan.value("resolved cache") == 225 * 480_000
    hot = [
        verdict
        for verdict in capacity_plan.verdicts
        if verdict.limit == "representatives of a bucket"
    ]
    assert [verdict.holds for verdict in hot] == ([False] if inside > 1000 else [])


@pytest.mark.parametrize("clusters", [1, 1000, 100_000])
def test_candidates_of_a_query_are_representatives(clusters: int) -> None:
    planned = plan(
        1_000_000_000,
        engine="index",
        clusters=clusters,
        bands=128,
        rows=1,
        memory=1e15,
        rates=RATES,
    )
    by_chance = planned.value("candidates of a document by chance")
    assert 0 < by_chance <= clusters
    assert planned.value("near-duplicate candidates") <= 1
    read = 128 * planned.value("representatives of a bucket")
    assert read == pytest.approx(by_chance + planned.value("near-duplicate candidates"))
    compared = min(read, 100)
    seconds = planned.value("CPU of a query")
    text = 1500 / RATES.text + binned_updates(300, 128, 4) / RATES.binned
    assert seconds == pytest.approx(200e-6 + text + compared * 1.2 / RATES.exact)


def test_latency_of_a_query_is_a_limit_of_an_index() -> None:
    capacity_plan = plan(1_000_000, engine="index", latency=0.01, memory=1e12, rates=RATES)
    seconds = capacity_plan.value("CPU of a query")
    text = 1500 / RATES.text
    updates = binned_updates(300, 128, 4) / RATES.binned
    assert 0 < seconds - 200e-6 - text - updates <= 100 * 1.2 / RATES.exact
    assert capacity_plan.fits
    assert not plan(1_000_000, engine="index", latency=1e-4, memory=1e12, rates=RATES).fits
    with pytest.raises(UsageError, match="set engine='index'"):
        Workload(10, latency=0.01)


def test_rows_of_long_signatures_have_more_buckets_than_floats_can_hold() -> None:
    spec = nk.Spec(measure="cosine", unit="vector", n=3, k=4096)
    planned = plan(1_000_000, spec, engine="index", bands=1, rows=2000, rates=RATES)
    assert planned.value("buckets") == planned.value("postings")
    assert planned.value("representatives of a bucket") == 0


@pytest.mark.parametrize(
    ("store", "alternative"),
    [("memory", "a store on disk (sqlite, postgres)"), ("sqlite", "store postgres")],
)
def test_an_index_without_memory_for_its_buckets_gets_another_store(
    store: str, alternative: str
) -> None:
    planned = plan(1_000_000_000, engine="index", store=store, memory=1e9, rates=RATES)
    (verdict,) = (verdict for verdict in planned.verdicts if verdict.limit == "memory")
    assert not verdict.holds
    assert alternative in verdict.gives
