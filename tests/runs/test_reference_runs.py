"""Results are those that the repository keeps; the quick form makes every sixth run."""

from pathlib import Path

from tests.runs.reference_runs import REFERENCE, make_runs, read_digests


def test_results_are_those_of_the_reference(tmp_path: Path, full: bool) -> None:
    names = list(REFERENCE) if full else list(REFERENCE)[::6]
    kept = read_digests()
    assert list(kept) == list(REFERENCE)
    for name, digests in make_runs(tmp_path, names):
        assert digests == kept[name], name
