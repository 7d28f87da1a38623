"""Tests of what pyproject.toml promises: extras, metadata, and the hints that name extras."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def extras_in_hints() -> set[str]:
    """Returns the names of extras in the calls of `MissingExtraError.for_extra`."""
    found = set()
    for path in (ROOT / "nearkin").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "for_extra"
                and isinstance(node.args[1], ast.Constant)
            ):
                found.add(node.args[1].value)
    return found


def test_hints_name_extras_that_exist() -> None:
    assert {"pandas", "server", "client", "redis"} <= extras_in_hints() <= set(EXTRAS)


@pytest.mark.parametrize("folder", ["nearkin", "docs", "README.md", "deploy"])
def test_no_hint_installs_an_unpublished_package(folder: str) -> None:
    paths = [ROOT / folder] if (ROOT / folder).is_file() else (ROOT / folder).rglob("*.*")
    for path in paths:
        if path.suffix in {".py", ".md", ".html", ".yaml", ".sh"}:
            assert not re.search(r"pip install [\"']?nearkin", path.read_text()), path
