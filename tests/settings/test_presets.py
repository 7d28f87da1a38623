"""Presets state what they were measured on, and larger runs say that they are beyond that."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.settings import presets
from nearkin.settings.presets import PRESETS, Preset

TEXTS = [f"person {number} of {number * 7919 % 1000} Hill Road" for number in range(40)]
SMALL = "measured on 10 to 20 rows of people"


@pytest.fixture
def measured_on_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every preset state that it was measured on 10 to 20 rows."""
    read = presets._read

    def read_small(name: str) -> Preset:
        return replace(read(name), data="people", rows=(10, 20), precision=(0.99, 0.9))

    monkeypatch.setattr(presets, "_read", read_small)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    return path


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_states_its_data_sizes_and_precision(name: str) -> None:
    preset = Preset.read(name)
    assert preset.data
    assert preset.rows == tuple(sorted(preset.rows))
    assert (preset.rows[0], preset.rows[-1]) == (1_000, 100_000)
    assert len(preset.precision) == len(preset.rows)
    assert min(preset.precision) >= 0.9
    assert preset.warn_of_size(100_000) is None
    warning = preset.warn_of_size(100_001)
    assert warning is not None
    assert f"preset={name!r} was measured on 1,000 to 100,000 rows of {preset.data}" in warning


def call_functions(corpus: Path, **parameters: Any) -> None:
    """Calls the functions that take a preset."""
    nk.dedup(corpus, **parameters)
    nk.pairs(corpus, **parameters)
    nk.split(corpus, (0.5, 0.5), **parameters)
    nk.check(TEXTS[:20], TEXTS[20:], **parameters)


def test_functions_warn_of_more_rows_than_measured(
    corpus: Path, caplog: pytest.LogCaptureFixture, measured_on_few_rows: None
) -> None:
    call_functions(corpus, preset="records")
    found = [message for message in caplog.messages if SMALL in message]
    assert len(found) == 4
    for message in found:
        assert "this corpus has 40 documents, and preset='records' was" in message


def test_functions_do_not_warn_of_fewer_rows(
    corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call_functions(corpus, preset="records")
    assert not [message for message in caplog.messages if "measured" in message]


def test_functions_do_not_warn_without_a_preset(
    corpus: Path, caplog: pytest.LogCaptureFixture, measured_on_few_rows: None
) -> None:
    call_functions(corpus)
    assert not [message for message in caplog.messages if "measured" in message]


def test_summary_and_report_say_that_a_run_is_larger_than_measured(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], measured_on_few_rows: None
) -> None:
    out = tmp_path / "out"
    assert run(["dedup", str(corpus), "--preset", "records", "--out", str(out)]) == 0
    warning = f"this corpus has 40 documents, and --preset records was {SMALL}"
    assert warning in " ".join(capsys.readouterr().err.split())
    assert any(warning in each for each in json.loads((out / "run.json").read_text())["warnings"])
    assert warning in " ".join((out / "report.html").read_text("utf-8").split())


def test_commands_say_that_a_run_is_larger_than_measured(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], measured_on_few_rows: None
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("text\nanother person\n")
    commands = (
        ["pairs", str(corpus), "--out", str(tmp_path / "pairs.csv")],
        ["split", str(corpus), "--groups", "0.5,0.5", "--out", str(tmp_path / "sets")],
        ["check", str(corpus), str(other)],
    )
    for command in commands:
        assert run([*command, "--preset", "records"]) == 0
        assert SMALL in " ".join(capsys.readouterr().err.split()), command


def test_unknown_preset_of_options_is_refused() -> None:
    with pytest.raises(UsageError, match=r"preset='record' is not one of .*records"):
        RunOptions(preset="record")


def test_preset_of_a_run_is_not_recorded_among_its_parameters() -> None:
    assert RunOptions(preset="records").parameters() == RunOptions().parameters()
