"""Counts what the suites of faults did, and what went wrong; writes the tables of the page.

The suites are those of `make test-full`. A test that makes several attempts says how many.

python -m benchmarks.reliability --full --write

`--points N` kills each command at N of its file operations; all of them take many hours.
`--only aerospike` runs the tests with this word in their names, as -k of pytest, and replaces the
rows of their subjects. So a table can be made in pieces: `--only "warc and not gzip" damage`.
`--workers 1` leaves the other cores to others.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from benchmarks import tables
from benchmarks.pages import HERE, ROOT
from benchmarks.tables import Table

RECORD = HERE / "reliability.json"
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
OTHERS = {
    "A process changes the index between two steps of another one": ("tests/index/test_races.py",),
    "A connection to the store is cut, or an answer is lost": (
        "tests/index/test_cut_connections.py",
        "tests/index/test_lost_answers.py",
    ),
    "The file of an index loses what was not synced": ("tests/index/test_durable_files.py",),
    "The disk is full": (
        "tests/service/consumer/test_full_disk.py",
        "tests/service/server/test_full_disk.py",
    ),
    "The clock is wrong": ("tests/index/test_clock.py",),
}
"""The other faults that are produced, and the suites that produce them."""


class Form(NamedTuple):
    """The form in which suites run.

    Attributes:
        full: True for the full form.
        points: Number of file operations at which the full form kills each command. All if None.
        only: Words in the names of the tests that run. All run if it is empty.
        workers: Number of processes that run tests.
    """

    full: bool
    points: int | None = None
    only: str = ""
    workers: int = 2

    @property
    def options(self) -> list[str]:
        """The options of pytest."""
        points = [] if self.points is None else [f"--points={self.points}"]
        full = ["--full", *points] if self.full else []
        only = ["-k", self.only] if self.only else []
        return ["-n", str(self.workers), *full, *only]

    def __str__(self) -> str:
        if not self.full:
            return "quick form"
        points = "" if self.points is None else f" with {self.points} points of each command"
        return f"full form{points}"


class Attempts(NamedTuple):
    """The attempts of one test.

    Attributes:
        subject: What they are made on, for example a store. Empty if the suite has one subject.
        times: Number of attempts.
        wrong: True if the test failed.
    """

    subject: str
    times: int
    wrong: bool


def run_suite(paths: tuple[str, ...], form: Form) -> Iterator[Attempts]:
    """Runs tests, and yields what each has attempted. Skipped tests are left out.

    Args:
        paths: Files of tests.
        form: Form of the suites.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-v", f"--junitxml={report}"]
        subprocess.run([*command, *form.options, *paths], cwd=ROOT, check=False, stdout=sys.stderr)
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("skipped") is not None:
                continue
            facts = {fact.get("name"): fact.get("value") for fact in case.iter("property")}
            wrong = case.find("failure") is not None or case.find("error") is not None
            yield Attempts(facts.get("subject") or "", int(facts.get("attempts") or 1), wrong)


def count_attempts(what: str, paths: tuple[str, ...], form: Form) -> list[tuple[str, ...]]:
    """Returns a row for each subject of suites: what was done to it, how often, what went wrong.

    Args:
        what: What is done.
        paths: Files of tests.
        form: Form of the suites.
    """
    attempts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for attempt in run_suite(paths, form):
        attempts[attempt.subject] += attempt.times
        wrong[attempt.subject] += attempt.wrong
    return [
        (f"{what} {subject}".strip(), f"{attempts[subject]:,}", f"{wrong[subject]:,}")
        for subject in sorted(attempts)
    ]


def make_table(name: str, rows: list[tuple[str, ...]], form: Form) -> Table:
    """Returns a table that says which form of the suites it counts.

    Args:
        name: Name of the table.
        rows: Rows of the table.
        form: Form of the suites.
    """
    note = f"Attempts of the {form}, and tests in which one was wrong:"
    if form.only:
        recorded = {table["name"]: table for table in json.loads(RECORD.read_bytes())["tables"]}
        if recorded[name]["note"] != note:
            raise SystemExit(f"the recorded table {name} is of another form; run all of its tests")
        old = {row[0]: tuple(row) for row in recorded[name]["rows"]}
        rows = list({**old, **{row[0]: row for row in rows}}.values())
    return Table(name, note, ("what happens", "attempts", "failed tests"), rows)


def others(full: bool) -> Table:
    """Counts races, cut connections, power cuts, full disks and wrong clocks."""
    form = Form(full)
    rows = [row for what, paths in OTHERS.items() for row in count_attempts(what, paths, form)]
    return make_table("others", rows, form)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--points", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=2)
    known, arguments = parser.parse_known_args()

    def kills(full: bool) -> Table:
        what = "a command is killed, or the power fails; it is resumed"
        form = Form(full, known.points, known.only, known.workers)
        return make_table("kills", count_attempts(what, ("tests/runs/test_kills.py",), form), form)

    def interruptions(full: bool) -> Table:
        what = "a call is interrupted, and repeated, over"
        paths = ("tests/index/test_interruptions.py",)
        form = Form(full, only=known.only, workers=known.workers)
        return make_table("interruptions", count_attempts(what, paths, form), form)

    def damage(full: bool) -> Table:
        what = "a damaged file:"
        paths = ("tests/corpus/test_mutations.py",)
        form = Form(full, only=known.only, workers=known.workers)
        return make_table("damage", count_attempts(what, paths, form), form)

    makers = [kills, interruptions, damage, others]
    tables.main(__doc__, makers, RECORD, PAGE, arguments=arguments)


if __name__ == "__main__":
    main()
