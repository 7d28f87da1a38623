"""The measurement of passages, on a small corpus."""

from pathlib import Path

from benchmarks.passages import measure_recall, measure_run, plant_passages


def test_planted_passages_are_found_completely(tmp_path: Path) -> None:
    planted = plant_passages(tmp_path, 200)
    assert len(planted) == 4
    assert measure_run(tmp_path)["repeated"] > 0
    assert measure_recall(planted, tmp_path / "out") == 1
