"""The map of the rooms in docs/contributing/architecture.md is that of the package."""

import re
from pathlib import Path

import nearkin

PACKAGE = Path(nearkin.__file__).parent
PAGE = PACKAGE.parent / "docs" / "contributing" / "architecture.md"


def test_the_map_names_every_room_of_the_package() -> None:
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^[|] `([\w/]+)` [|]", page, re.MULTILINE)
    packages = {
        init.parent.relative_to(PACKAGE).as_posix() for init in PACKAGE.glob("*/__init__.py")
    } | {init.parent.relative_to(PACKAGE).as_posix() for init in PACKAGE.glob("*/*/__init__.py")}
    assert len(rows) == len(set(rows))
    assert set(rows) == packages


def test_the_way_of_a_document_leads_through_modules_that_exist() -> None:
    way = PAGE.read_text("utf-8").partition("## The way of one document")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", way)
    assert len(named) > 10
    missing = [
        name
        for name in named
        if not (PACKAGE / name).is_dir() and not (PACKAGE / f"{name}.py").is_file()
    ]
    assert missing == []


def test_few_files_lie_outside_of_rooms() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"_version"}
    adapters = {"duckdb", "lance", "pandas", "polars", "sklearn"}
    names = {"errors", "index_types", "results", "signatures"}
    assert modules == {"__init__", "__main__", "testing"} | names | adapters
