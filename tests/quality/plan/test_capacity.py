"""Tests of plans: published cases, limits that are met or not met, and runs with a plan."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.errors import UsageError
from nearkin.quality.plan.capacity import Plan, plan
from nearkin.quality.plan.throughput import binned_updates
from nearkin.quality.plan.workload import Workload
from tests.quality.plan.made_up_rates import RATES


def test_plan_of_three_hundred_million_pages() -> None:
    """The published case: J ≥ 0.85, k = 128, 5,000 documents/s of 300 shingles, 100 GB."""
    capacity_plan = plan(
        300_000_000,
        threshold=0.85,
        recall=0.95,
        ingest=5000,
        signature_ram=100e9,
        shingles=300,
        rates=RATES,
    )
    assert round(capacity_plan.value("standard error"), 3) == 0.032
    assert capacity_plan.value("signatures of 64-bit slots") == 307.2e9
    assert capacity_plan.value("signatures of 32-bit slots") == 153.6e9
    assert capacity_plan.value("signatures of 1-bit slots") == 4.8e9
    assert capacity_plan.value("classic updates") == 192e6
    assert capacity_plan.value("binned updates") == pytest.approx(
        5000 * binned_updates(300, 128, 4)
    )
    assert capacity_plan.spec.slot_bits == 16
    ram = next(verdict for verdict in capacity_plan.verdicts if verdict.limit == "signature RAM")
    assert ram.holds
    assert ram.needed == 76.8e9
    assert capacity_plan.value("P(candidate) at the threshold") >= 0.95


def test_k_follows_from_the_requested_error() -> None:
    capacity_plan = plan(1000, threshold=0.8, error=0.02, rates=RATES)
    assert capacity_plan.spec.k == 400
    assert capacity_plan.value("standard error") <= 0.02
    beyond = plan(1000, threshold=0.5, error=0.001, rates=RATES)
    assert beyond.spec.k == 1024
    assert not beyond.fits


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_recall_of_a_plan_does_not_count_on_chance_agreement_of_truncated_slots(bits: int) -> None:
    capacity_plan = plan(300_000_000, nk.Spec(slot_bits=bits), RATES, threshold=0.85)
    assert capacity_plan.value("recall, the margin included") == pytest.approx(0.9503, abs=5e-5)
    verdict = next(verdict for verdict in capacity_plan.verdicts if verdict.limit == "recall")
    assert verdict.holds


@pytest.mark.parametrize("gigabytes", [200, 100, 40, 20, 10, 5])
@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.85, 0.95])
def test_slot_bits_that_a_plan_chooses_meet_its_recall(gigabytes: int, threshold: float) -> None:
    capacity_plan = plan(
        300_000_000, threshold=threshold, signature_ram=gigabytes * 1e9, memory=1e12, rates=RATES
    )
    assert capacity_plan.fits
    assert capacity_plan.spec.slot_bits == {200: 32, 100: 16, 40: 8, 20: 4, 10: 2, 5: 1}[gigabytes]


@pytest.mark.parametrize("gigabytes", [200, 50, 20, 12])
def test_slots_and_slot_bits_that_a_plan_chooses_meet_its_error(gigabytes: int) -> None:
    """Fewer bits need more slots for the same standard error."""
    capacity_plan = plan(
        300_000_000,
        threshold=0.85,
        error=0.03,
        signature_ram=gigabytes * 1e9,
        memory=1e12,
        rates=RATES,
    )
    assert capacity_plan.fits
    chance = 0.0 if capacity_plan.spec.slot_bits == 32 else 2.0**-capacity_plan.spec.slot_bits
    agreement = 0.85 + 0.15 * chance
    error = math.sqrt(agreement * (1 - agreement) / capacity_plan.spec.k) / (1 - chance)
    assert 0.028 < error <= 0.03
    assert capacity_plan.spec.k * capacity_plan.spec.slot_bits / 8 * 3e8 <= gigabytes * 1e9


def test_unmet_limit_names_alternatives() -> None:
    capacity_plan = plan(
        300_000_000,
        nk.Spec(),
        RATES,
        ingest=10_000_000,
        signature_ram=1e9,
        memory=1e9,
        disk=1e9,
        seconds=60.0,
        threshold=0.8,
    )
    assert not capacity_plan.fits
    failing = {
        verdict.limit: verdict.gives for verdict in capacity_plan.verdicts if not verdict.holds
    }
    assert set(failing) == {"signature RAM", "cores for the ingest", "memory", "disk", "time"}
    assert all(failing.values())
    assert any("154 machines" in give for give in failing["signature RAM"])
    assert any("documents/s at 2 cores" in give for give in failing["cores for the ingest"])


def test_given_bands_below_the_recall_are_not_met() -> None:
    capacity_plan = plan(1000, bands=4, rows=20, rates=RATES)
    verdict = next(verdict for verdict in capacity_plan.verdicts if verdict.limit == "recall")
    assert not verdict.holds
    assert verdict.needed < 0.1


def test_every_line_has_a_formula_and_numbers_are_finite() -> None:
    for engine in ("local", "index"):
        for spec in (
            None,
            nk.Spec(measure="simhash"),
            nk.Spec(measure="cosine", unit="vector", n=8),
        ):
            capacity_plan = plan(1_000_000, spec, RATES, engine=engine, ingest=100.0, threshold=0.9)
            assert all(
                line.formula and math.isfinite(line.value) and line.value >= 0
                for line in capacity_plan.lines
            )
            names = [line.name for line in capacity_plan.lines]
            assert len(set(names)) == len(names)
            json.dumps(capacity_plan.to_dict())


def test_dedup_runs_with_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(
        [
            "lab",
            "synth",
            "--out",
            str(tmp_path / "s"),
            "--documents",
            "5200",
            "--length",
            "fixed:300",
        ]
    )
    path, corpus = tmp_path / "plan.json", str(tmp_path / "s" / "documents")
    line = [
        "plan",
        "--docs",
        "5.2k",
        "--threshold",
        "0.7",
        "--recall",
        "0.9",
        "--signature-ram",
        "1MB",
        "--out",
        str(path),
        "--json",
    ]
    capsys.readouterr()
    assert command(line) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings == json.loads(path.read_bytes())["settings"]
    assert settings["slot_bits"] == 8
    assert (
        command(
            [
                "dedup",
                corpus,
                "--id",
                "id",
                "--plan",
                str(path),
                "--out",
                str(tmp_path / "d"),
                "--json",
            ]
        )
        == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["spec"]["slot_bits"] == 8
    assert (summary["bands"], summary["rows"]) == (settings["bands"], settings["rows"])
    assert summary["parameters"]["threshold"] == 0.7
    assert summary["memory"] == int(settings["memory"])

    contradicting = [
        "dedup",
        corpus,
        "--plan",
        str(path),
        "--threshold",
        "0.8",
        "--out",
        str(tmp_path / "e"),
    ]
    assert command(contradicting) == 2
    assert "--threshold 0.8 contradicts 0.7" in capsys.readouterr().err
    (tmp_path / "no.json").write_text("[]")
    for bad in ("no.json", "missing.json"):
        assert (
            command(["dedup", corpus, "--plan", str(tmp_path / bad), "--out", str(tmp_path / "e")])
            == 2
        )


def test_terminal_shows_formulas_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    line = [
        "plan",
        "--docs",
        "300M",
        "--threshold",
        "0.85",
        "--ingest",
        "5000/s",
        "--signature-ram",
        "100GB",
        "--time",
        "1s",
    ]
    assert command(line) == 0
    text = capsys.readouterr().out
    for words in (
        "307.2 GB",
        "192 M/s",
        "0.03156",
        "met    signature RAM",
        "not met time",
        "alternative:",
    ):
        assert words in text
    assert command(["plan"]) == 2
    assert command(["plan", "--docs", "many"]) == 2
    assert "like 5000, 300M or 1B" in capsys.readouterr().err


def test_plan_is_a_library_function() -> None:
    capacity_plan = nk.plan(1000, rates=RATES)
    assert isinstance(capacity_plan, Plan)


def test_prices_follow_from_core_hours_and_gigabytes() -> None:
    prices = {"core_hour_price": 0.05, "gb_month_price": 0.1}
    run = plan(10_000_000, rates=RATES, cores=8, **prices)
    hours = run.value("seconds") / 3600
    disk = run.value("disk at the peak") / 1e9
    assert run.value("price of a run") == pytest.approx(8 * hours * 0.05 + disk * hours / 730 * 0.1)
    index = plan(10_000_000, engine="index", rates=RATES, cores=4, **prices)
    memory = index.value("memory") / 1e9
    assert index.value("price of a month") == pytest.approx(4 * 730 * 0.05 + memory * 0.1)
    with pytest.raises(UsageError, match="unknown line 'price of a run'"):
        plan(1000, rates=RATES).value("price of a run")
    with pytest.raises(UsageError, match="core_hour_price=-1 is out of range"):
        Workload(10, core_hour_price=-1)


def test_plan_command_takes_precision_latency_and_prices(
    capfd: pytest.CaptureFixture[str],
) -> None:
    arguments = ["plan", "--docs", "1M", "--engine", "index", "--latency", "20", "--json"]
    prices = ["--core-hour-price", "0.05", "--gb-month-price", "3", "--precision", "0.001"]
    assert command([*arguments, *prices]) == 0
    written = json.loads(capfd.readouterr().out)
    assert written["workload"]["latency"] == 0.02
    assert {"latency", "precision"} <= {verdict["limit"] for verdict in written["verdicts"]}
    assert any(line["name"] == "price of a month" for line in written["lines"])
    assert command(["plan", "--docs", "1M", "--latency", "20"]) == 2


@pytest.mark.parametrize("limit", [{"ingest": 100.0}, {"latency": 0.1, "engine": "index"}])
def test_speed_of_idf_jaccard_is_not_planned(limit: dict[str, Any]) -> None:
    spec = nk.Spec(measure="idf-jaccard")
    with pytest.raises(UsageError, match="cannot be planned for measure idf-jaccard"):
        plan(1_000_000, spec, **limit)
    planned = plan(1_000_000, spec, engine="index")
    assert planned.value("signatures of 32-bit slots") == 1_000_000 * 128 * 4
    assert "CPU of a query" not in {line.name for line in planned.lines}


def test_quantities_are_shown_in_units_that_people_read(capfd: pytest.CaptureFixture[str]) -> None:
    for line in (["--docs", "10"], ["--docs", "1B"], ["--docs", "1M", "--engine", "index"]):
        assert command(["plan", *line]) == 0
        text = capfd.readouterr().out
        assert "e-0" not in text
        assert "e+0" not in text
        assert "max_candidates" not in text
    spec = ["--measure", "cosine", "--bands", "20", "--rows", "5", "--clusters", "1M"]
    assert command(["plan", "--docs", "10M", "--engine", "index", *spec]) == 0
    text = capfd.readouterr().out
    assert "alternative: r = 14 rows" in text
    assert "max_candidates" not in text
