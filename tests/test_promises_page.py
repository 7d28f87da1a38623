"""The page of promises names files that exist, and their lines within a quarter."""

import re
from pathlib import Path

import pytest

import nearkin

PACKAGE = Path(nearkin.__file__).parent
ROOT = PACKAGE.parent
PAGE = ROOT / "docs" / "contributing" / "promises.md"
ROW = re.compile(r"^[|] (?P<promise>[A-Z`][^|]*) [|] (?P<files>[^|]*) [|] (?P<lines>[\d,]+) [|]")


def count_lines(name: str) -> int:
    place = PACKAGE / name
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files, name
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


@pytest.mark.parametrize(
    "row", [match for line in PAGE.read_text("utf-8").splitlines() if (match := ROW.match(line))]
)
def test_costs_of_promises_are_those_of_their_files(row: "re.Match[str]") -> None:
    counted = sum(map(count_lines, re.findall(r"`([\w/.]+)`", row["files"])))
    stated = int(row["lines"].replace(",", ""))
    assert 0.75 <= stated / counted <= 1.25, f"{counted} lines"


def test_tests_of_promises_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", PAGE.read_text("utf-8"))
    assert len(named) >= 13
    assert [name for name in named if not (ROOT / name).is_file()] == []
