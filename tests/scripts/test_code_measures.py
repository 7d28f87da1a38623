"""Tests of the script that measures the code."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''
class Twice: ...
class Twice: ...

def load(path, *, strict, limit):
    """Reads a file.

    Raises:
        ValueError: If the file is damaged.
    """
    first, second, third = path
    size = 1 if strict else 2
    if size > limit:
        raise ValueError(first)
    if second:
        raise TypeError(third)
    return size

def write_all(rows: dict[str, Any], target, mode):
    """Writes rows.

    Args:
        rows: Rows to write.
    """
    return None
'''


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Returns the module of the script."""
    spec = importlib.util.spec_from_file_location(
        "code_measures", ROOT / "scripts" / "code_measures.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_measures_of_a_small_package(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "nearkin").mkdir()
    (tmp_path / "nearkin" / "a.py").write_text(SOURCE)
    measures = script.measure_source(tmp_path)
    assert measures["lines"] == "25"
    assert measures["functions per 1,000 lines"] == "80"
    assert measures["function names of one word"] == "50%"
    assert measures["bodies of three lines or fewer"] == "50%"
    assert measures["class names used twice"] == "1"
    assert measures["`dict[str, Any]`"] == "1"


def test_run_of_four_rows_enters_files_and_parses_options_few_times(
    script: ModuleType, tmp_path: Path
) -> None:
    measures = script.measure_runs(ROOT, tmp_path)
    assert int(measures["files entered by a dedup of four rows"]) > 20
    assert 0 < int(measures["`RunOptions` (once `Settings`) built by it"]) <= 3
    assert 0 < int(measures["`Documents` opened by it"]) <= 2
    assert int(measures["modules reached by importing `nearkin.index.index`"]) <= 40
