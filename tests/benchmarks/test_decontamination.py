"""The measurement of decontamination, on a small corpus."""

from pathlib import Path

from benchmarks.decontamination import measure_quality, measure_run
from nearkin.quality.lab.contaminated_corpus import write_contaminated_corpus


def test_planted_items_are_found_completely(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write_contaminated_corpus(folder, 600, 100)
    assert measure_run(folder, "longest")["cpu_seconds"] > 0
    quality = measure_quality(folder)
    assert quality.pop("template") == 0
    assert set(quality.values()) == {1.0}
