"""Tests of the script that checks the language of the repository."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_text.py"


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    """The script, imported as a module."""
    spec = importlib.util.spec_from_file_location("check_text", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('"""Of a run."""\n', "docstring begins with 'Of'"),
        ("# sketched anew\n", "'anew'"),
        ('MESSAGE = "the body is no JSON"\n', "'is no '"),
        ("a, b, c = 1, 2, 3\n", "3 targets"),
        ("entry = Entry(*about, 1)\n", "positional unpacking into Entry"),
        ('def f():\n    """Runs.\n\n    Args:\n        x: Of the run.\n    """\n', "Args entry"),
        (
            'def f():\n    """Runs.\n\n    Raises:\n        E: It is wrong.\n    """\n',
            "Raises entry",
        ),
    ],
)
def test_each_rule_finds_its_fault(
    checker: ModuleType, tmp_path: Path, source: str, message: str
) -> None:
    path = tmp_path / "sample.py"
    path.write_text(source)
    assert [message in str(finding) for finding in checker.check_file(path)] == [True]


def test_plain_text_has_no_findings(checker: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        '"""A module."""\n\nfirst, second = 1, 2\nprint(*[first, second])  # there is no file\n'
    )
    assert list(checker.check_file(path)) == []


def test_pages_are_checked_and_counted_in_the_exit_code(
    checker: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("The index' size.\n")
    assert checker.main([str(tmp_path)]) == 1
    assert "page.md:1" in capsys.readouterr().out
    page.write_text("The size of the index.\n")
    assert checker.main([str(tmp_path)]) == 0
