"""Tests of expected candidates, of unrelated texts and of a corpus."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import UsageError
from nearkin.quality.plan.capacity import plan
from nearkin.quality.plan.workload import Workload
from tests.quality.plan.made_up_rates import RATES
from tests.quality.plan.unrelated_texts import measured_share


def test_precision_of_candidates_agrees_with_a_sum_over_similarities() -> None:
    """The expected candidates by chance are summed here on a finer grid."""
    capacity_plan = plan(
        1_000_000, nk.Spec(), RATES, bands=20, rows=5, threshold=0.8, duplicates=0.2
    )
    by_chance = 999_999 * measured_share(20, 5)
    true = 2 * 0.2 * (1 - (1 - 0.8**5) ** 20)
    assert capacity_plan.value("candidates of a document by chance") == pytest.approx(
        by_chance, rel=0.02
    )
    assert capacity_plan.value("near-duplicate candidates") == pytest.approx(true)
    expected = true / (true + by_chance)
    assert capacity_plan.value("precision of candidates") == pytest.approx(expected, rel=0.02)


def make_distribution(similarities: list[float], pairs: list[float]) -> nk.results.Distribution:
    return nk.results.Distribution(10_001, np.array(similarities), np.array(pairs), "made up")


def test_a_corpus_replaces_unrelated_texts() -> None:
    distribution = make_distribution([0.3, 0.6, 0.9], [50.0, 4.0, 0.5])
    planned = plan(20_001, nk.Spec(), RATES, distribution, bands=20, rows=5)
    probabilities = [1 - (1 - s**5) ** 20 for s in (0.3, 0.6, 0.8)]
    by_chance = 2 * (50 * probabilities[0] + 4 * probabilities[1])
    assert planned.value("candidates of a document by chance") == pytest.approx(by_chance)
    # The number of near-duplicates of a document does not grow with the corpus.
    assert planned.value("near-duplicate candidates") == pytest.approx(0.5 * probabilities[2])
    assert planned.workload.duplicates == pytest.approx(1 - math.exp(-0.25))
    given = plan(20_001, nk.Spec(), RATES, distribution, bands=20, rows=5, duplicates=0.3)
    assert given.value("near-duplicate candidates") == pytest.approx(0.6 * probabilities[2])


def test_precision_is_that_of_the_result() -> None:
    for verify in ("exact", "estimate", "none"):
        planned = plan(
            10_001,
            nk.Spec(),
            RATES,
            make_distribution([0.3, 0.75], [9000.0, 1.0]),
            verify=verify,
            duplicates=0.1,
            precision=1.0,
        )
        precision = planned.value("precision of the result")
        (verdict,) = (verdict for verdict in planned.verdicts if verdict.limit == "precision")
        assert verdict.holds == (verify == "exact")
        if verify == "exact":
            assert precision == 1
            assert planned.value("precision of candidates") < 0.5
        elif verify == "none":
            assert precision == planned.value("precision of candidates")
            assert verdict.gives == ("verify='exact'",)
        else:
            assert planned.value("precision of candidates") < precision < 1
            assert verdict.gives == ("verify='exact'", "more slots (k)")
        assert planned.settings().get("verify") == (None if verify == "exact" else verify)


def test_plan_chooses_slots_for_a_precision_of_estimates() -> None:
    distribution = make_distribution([0.3, 0.75], [9000.0, 1.0])
    arguments = {"verify": "estimate", "duplicates": 0.1, "rates": RATES}
    coarse = plan(10_001, distribution=distribution, **arguments)
    assert coarse.spec.k == 128
    target = (1 + coarse.value("precision of the result")) / 2
    planned = plan(10_001, distribution=distribution, precision=target, **arguments)
    assert planned.spec.k > 128
    assert planned.value("precision of the result") >= target
    assert planned.fits
    assert plan(10_001, distribution=distribution, precision=1.0, rates=RATES).spec.k == 128
    beyond = plan(10_001, distribution=distribution, precision=1.0, **arguments)
    assert beyond.spec.k == beyond.spec.signature_limits.largest_k
    (verdict,) = (verdict for verdict in beyond.verdicts if verdict.limit == "precision")
    assert verdict.gives == ("verify='exact'",)
    line = next(line for line in beyond.lines if line.name == "k")
    assert line.formula == "the default of 128, doubled up to the precision or to the maximum"
    assert plan(1000, rates=RATES).lines[0].formula == "the default"
    with pytest.raises(UsageError, match=r"precision=1\.5 is out of range"):
        Workload(10, precision=1.5)


def test_plan_of_a_corpus_predicts_the_candidates_of_a_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hash functions of a run decide which frequent words meet, by about a factor of 1.5."""
    made = ["--documents", "600", "--length", "fixed:3000"]
    command(["lab", "synth", "--out", str(tmp_path / "s"), *made])
    corpus = str(tmp_path / "s" / "documents")
    bands = ["--bands", "20", "--rows", "3", "--threshold", "0.6", "--shingle", "words:1"]
    capfd.readouterr()
    assert command(["plan", corpus, *bands, "--json"]) == 0
    planned = json.loads(capfd.readouterr().out)
    out = str(tmp_path / "out")
    assert command(["dedup", corpus, "--id", "id", *bands, "--out", out, "--json"]) == 0
    run = json.loads(capfd.readouterr().out)
    values = {line["name"]: line["value"] for line in planned["lines"]}
    candidates = json.loads((tmp_path / "out" / "run.json").read_bytes())["stages"]["candidates"]
    assert candidates["candidates"] / 2 < values["candidate pairs"] < candidates["candidates"] * 2
    assert values["verified pairs"] == pytest.approx(candidates["survivors"], rel=0.1)
    removed = 1 - run["counts"]["kept"] / run["counts"]["read"]
    assert planned["workload"]["duplicates"] == pytest.approx(removed, rel=0.1)
    assert planned["workload"]["documents"] == 600
    assert planned["workload"]["text_bytes"] == pytest.approx(3000, rel=0.02)
    assert planned["settings"]["shingle"] == "words:1"
    assert command(["plan", corpus, "--docs", "1.2k", *bands, "--json"]) == 0
    larger = json.loads(capfd.readouterr().out)
    by_chance = [
        line["value"]
        for capacity_plan in (planned, larger)
        for line in capacity_plan["lines"]
        if line["name"] == "candidates of a document by chance"
    ]
    assert by_chance[1] == pytest.approx(2 * by_chance[0], rel=0.01)
    for options in (["--sample", "10"], ["--text", "body"]):
        assert command(["plan", "--docs", "1k", *options]) == 2
        assert "has no effect without inputs" in capfd.readouterr().err
