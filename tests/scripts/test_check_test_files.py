"""Tests of the script that keeps tests in the files of their modules."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LARGE = "pass\n" * 60


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    """The script, imported as a module."""
    path = ROOT / "scripts" / "check_test_files.py"
    spec = importlib.util.spec_from_file_location("check_test_files", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a module that has tests, one that is listed and one that is small."""
    for name, content in {
        "nearkin/tested.py": LARGE,
        "nearkin/part/listed.py": LARGE,
        "nearkin/part/small.py": LARGE.removesuffix("pass\n"),
        "nearkin/part/__init__.py": LARGE,
        "tests/test_tested.py": "",
        "tests/part/test_whole.py": "",
        "tests/README.md": "# Tests\n\n- `nearkin/part/listed.py`: `tests/part/test_whole.py`\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def test_modules_with_tests_or_a_reason_are_accepted(
    checker: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(checker.check_test_files(root)) == []
    assert checker.main([str(root)]) == 0
    (root / "tests" / "README.md").write_text("- `nearkin/part/listed.py`: only constants\n")
    assert list(checker.check_test_files(root)) == []


def test_module_without_tests_and_reason_is_named_with_the_remedy(
    checker: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "tests" / "README.md").write_text("# Tests\n")
    (message,) = checker.check_test_files(root)
    assert message.startswith("nearkin/part/listed.py: no tests; write tests/part/test_listed.py")
    assert checker.main([str(root)]) == 1
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("- `nearkin/part/listed.py`:", "has no reason"),
        ("- `nearkin/part/listed.py`: `tests/part/test_gone.py`", "test_gone.py does not exist"),
        ("- `nearkin/part/small.py`: only constants", "small.py is not a module of 60 lines"),
        ("- `nearkin/gone.py`: only constants", "gone.py is not a module of 60 lines"),
        ("- `nearkin/tested.py`: only constants", "tested.py has tests/test_tested.py; delete"),
    ],
)
def test_wrong_line_of_the_list_is_named(
    checker: ModuleType, root: Path, line: str, message: str
) -> None:
    right = "" if "listed" in line else "- `nearkin/part/listed.py`: only constants\n"
    (root / "tests" / "README.md").write_text(f"{right}{line}\n")
    (found,) = checker.check_test_files(root)
    assert message in found


def test_module_with_two_lines_is_reported(checker: ModuleType, root: Path) -> None:
    line = "- `nearkin/part/listed.py`: only constants\n"
    (root / "tests" / "README.md").write_text(line * 2)
    (message,) = checker.check_test_files(root)
    assert "two lines" in message
