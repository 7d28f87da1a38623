"""Tests of the speeds of machines and of calibration files."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.quality.plan.rates import STAGES, Rates, StageRate, calibration_file, known_rates
from tests.quality.plan.made_up_rates import RATES, SECONDS


def test_more_workers_reduce_the_variable_time() -> None:
    two, four = (RATES.seconds(1e6, 1e9, workers) for workers in (2, 4))
    assert four["sketch"] - 1 == (two["sketch"] - 1) / 2
    assert four["cluster"] == two["cluster"]


def test_calibration_of_the_machine_is_preferred_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKIN_CACHE_DIR", str(tmp_path))
    assert known_rates().source.startswith("shipped")
    assert set(known_rates().stages) == set(STAGES)
    (tmp_path / "calibration.json").write_text(RATES.to_json())
    assert known_rates().source.startswith("calibrated on this machine")
    assert known_rates().stages == SECONDS
    (tmp_path / "calibration.json").write_text('{"stages": 3}')
    with pytest.raises(UsageError, match="--calibrate"):
        known_rates()


def test_duration_of_a_stage_is_linear_in_documents_and_bytes() -> None:
    rate = StageRate(fixed=2.0, document=0.5, byte=0.25)
    assert rate.seconds(0, 0) == 2.0
    assert rate.seconds(4, 8) == 2.0 + 0.5 * 4 + 0.25 * 8


def test_only_threaded_stages_become_faster_and_only_candidates_cost_more_keys() -> None:
    base = RATES.seconds(1e6, 1e9, RATES.workers)
    more_workers = RATES.seconds(1e6, 1e9, 2 * RATES.workers)
    more_keys = RATES.seconds(1e6, 1e9, RATES.workers, keys=3.0)
    faster = {name for name in STAGES if more_workers[name] < base[name]}
    assert faster == set(STAGES) - {"start", "collapse", "cluster"}
    assert {name for name in STAGES if more_keys[name] != base[name]} == {"candidates"}
    assert more_keys["candidates"] == 1 + 3 * (base["candidates"] - 1)


def test_rates_are_read_as_they_were_written() -> None:
    assert Rates.from_json(RATES.to_json(), "made up") == RATES


def stages_of(rate: dict[str, object]) -> dict[str, dict[str, object]]:
    """Returns all stages with the same rate, as a calibration file has them."""
    return dict.fromkeys(STAGES, rate)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"text": "fast"}, "text"),
        ({"text": None}, "text"),
        ({"workers": 0}, "workers"),
        ({"exact": -1.0}, "exact"),
        ({"classic": float("nan")}, "classic"),
        ({"binned": float("inf")}, "binned"),
        ({"stages": {}}, "stages"),
        ({"stages": {**asdict(RATES)["stages"], "more": asdict(SECONDS["write"])}}, "more"),
        ({"machine": 3}, "machine"),
        ({"workers": True, "text": []}, "text"),
        ({"stages": stages_of({"fixed": "1", "document": 0, "byte": 0})}, "start"),
        ({"stages": stages_of({"fixed": -1, "document": 0, "byte": 0})}, "start"),
        ({"stages": stages_of({"fixed": 1})}, "document"),
        ({"stages": 3}, ""),
        ({"speed": 3}, "speed"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_calibration_with_a_wrong_value_is_named_with_the_remedy(
    members: dict[str, object], message: str
) -> None:
    content = json.dumps({**json.loads(RATES.to_json()), **members})
    with pytest.raises(UsageError, match=f"file is not a calibration.*{message}.*--calibrate"):
        Rates.from_json(content, "file")


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_damaged_calibration_is_named_with_the_remedy(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKIN_CACHE_DIR", str(tmp_path))
    (tmp_path / "calibration.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"calibration\.json.*is not a calibration.*--calibrate"):
        known_rates()


def test_calibration_needs_a_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEARKIN_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="set HOME or NEARKIN_CACHE_DIR"):
        calibration_file()
    assert known_rates().source.startswith("shipped")
