"""Tests of benchmarks: texts with shared paragraphs make many candidates of low similarity."""

from pathlib import Path

import pytest

from benchmarks.whole_runs import count_candidates, measure_commands, measure_low_similarities
from nearkin.errors import RunError
from nearkin.quality.lab.synth import SynthSettings, synth


def test_shared_paragraphs_make_candidates_of_low_bands(tmp_path: Path) -> None:
    figures = {result.name: result.value for result in measure_low_similarities(tmp_path, 1000, 1)}
    title = "42 × 3 over 1,000 documents with"
    without = figures[f"{title} nothing in common: candidates"]
    shared = figures[f"{title} shared paragraphs: candidates"]
    assert without > 0
    assert shared > 5 * without
    assert figures[f"{title} shared paragraphs"] > 0


def test_each_command_is_measured_without_the_defaults_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nearkin.toml").write_text('[dedup]\ntext = "body"\n[pairs]\ntext = "body"\n')
    synth(tmp_path / "corpus", SynthSettings(documents=200))
    inputs = tmp_path / "corpus/documents"
    names = [result.name for result in measure_commands(inputs, tmp_path, 200, 1)]
    assert len(names) == 6
    assert {name.split()[1].rstrip(",") for name in names} == {"pairs", "dedup"}


def test_failed_count_of_candidates_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nearkin --no-config pairs .*missing"):
        count_candidates(tmp_path / "missing")
