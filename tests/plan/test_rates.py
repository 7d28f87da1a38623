"""Tests of the speeds of machines and of calibration files."""

from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.plan.rates import STAGES, known_rates
from tests.plan.made_up_rates import RATES, SECONDS


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
