"""Counts what the suites of faults did, and what went wrong; writes the tables of the page.

The suites are those of `make test-full`. A test that makes several attempts says how many.

python -m benchmarks.reliability --full --write

`--points N` kills each command at N of its file operations; all of them take many hours.
`--only aerospike` runs the tests with this word in their names, as -k of pytest. They are counted
in place of their last run, beside the tests that were run before. So a table can be made in pieces:
`--only "warc and not gzip" damage`.
`--workers 1` leaves the other cores to others.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from benchmarks import tables
from benchmarks.pages import HERE, ROOT
from benchmarks.tables import Table

RECORD = HERE / "reliability.json"
TESTS = HERE / "reliability_tests.json"
"""The attempts of each test of a table, from which tables are made in pieces."""
PAGE = ROOT / "docs" / "contributing" / "reliability.md"
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
        row: Name of the row of the table that counts them: what is done, and to what.
        times: Number of attempts.
        wrong: True if the test failed.
    """

    row: str
    times: int
    wrong: bool


def run_suite(what: str, paths: tuple[str, ...], form: Form) -> dict[str, Attempts]:
    """Runs tests, and returns what each has attempted, by its name. Skipped tests are left out.

    Args:
        what: What is done. The subject of a test follows, for example a store.
        paths: Files of tests.
        form: Form of the suites.
    """
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-v", f"--junitxml={report}"]
        subprocess.run([*command, *form.options, *paths], cwd=ROOT, check=False, stdout=sys.stderr)
        for case in ElementTree.parse(report).iter("testcase"):
            # the test that runs while pytest is interrupted has no name
            if case.find("skipped") is not None or case.get("name") is None:
                continue
            facts = {fact.get("name"): fact.get("value") for fact in case.iter("property")}
            made[f"{case.get('classname')}::{case.get('name')}"] = Attempts(
                row=f"{what} {facts.get('subject') or ''}".strip(),
                times=int(facts.get("attempts") or 1),
                wrong=case.find("failure") is not None or case.find("error") is not None,
            )
    return dict(sorted(made.items(), key=lambda test: test[1].row))


class CountedTests(NamedTuple):
    """The tests that a table counts.

    Attributes:
        note: The note above the table.
        attempts: What each test attempted, by its name.
    """

    note: str
    attempts: dict[str, Attempts]


def read_tests() -> dict[str, CountedTests]:
    """Returns the tests that were counted before, by the name of their table."""
    recorded = json.loads(TESTS.read_bytes()) if TESTS.exists() else {}
    return {
        name: CountedTests(
            note=table["note"],
            attempts={test: Attempts._make(made) for test, made in table["attempts"].items()},
        )
        for name, table in recorded.items()
    }


class TableMaker:
    """Makes tables of attempts.

    Attributes:
        made: The tests of each table that was made.
    """

    def __init__(self) -> None:
        self.made: dict[str, CountedTests] = {}

    def make_table(self, name: str, tests: dict[str, Attempts], form: Form) -> Table:
        """Returns a table that says which form of the suites it counts.

        Args:
            name: Name of the table.
            tests: The attempts of each test that was run.
            form: Form of the suites.
        """
        note = f"Attempts of the {form}, and tests in which one was wrong:"
        if form.only:
            before = read_tests().get(name, CountedTests(note, {}))
            if before.note != note:
                raise SystemExit(f"the recorded table {name} is of another form; run all its tests")
            tests = {**before.attempts, **tests}
        self.made[name] = CountedTests(note, tests)
        times: Counter[str] = Counter()
        wrong: Counter[str] = Counter()
        for attempts in tests.values():
            times[attempts.row] += attempts.times
            wrong[attempts.row] += attempts.wrong
        rows = [(row, f"{times[row]:,}", f"{wrong[row]:,}") for row in times]
        return Table(name, note, ("what happens", "attempts", "failed tests"), rows)

    def write(self) -> None:
        """Keeps the tests of the tables that were made."""
        kept = {**read_tests(), **self.made}
        counted = {name: table._asdict() for name, table in kept.items()}
        TESTS.write_text(json.dumps(counted, indent=1) + "\n", "utf-8")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--points", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=2)
    known, arguments = parser.parse_known_args()
    maker = TableMaker()

    def kills(full: bool) -> Table:
        what = "a command is killed, or the power fails; it is resumed"
        form = Form(full, known.points, known.only, known.workers)
        tests = run_suite(what, ("tests/runs/test_kills.py",), form)
        return maker.make_table("kills", tests, form)

    def interruptions(full: bool) -> Table:
        what = "a call is interrupted, and repeated, over"
        form = Form(full, only=known.only, workers=known.workers)
        tests = run_suite(what, ("tests/index/test_interruptions.py",), form)
        return maker.make_table("interruptions", tests, form)

    def damage(full: bool) -> Table:
        form = Form(full, only=known.only, workers=known.workers)
        tests = run_suite("a damaged file:", ("tests/corpus/test_mutations.py",), form)
        return maker.make_table("damage", tests, form)

    def others(full: bool) -> Table:
        form = Form(full)
        tests = {}
        for what, paths in OTHERS.items():
            tests |= run_suite(what, paths, form)
        return maker.make_table("others", tests, form)

    makers = [kills, interruptions, damage, others]
    tables.main(__doc__, makers, RECORD, PAGE, arguments=arguments)
    if "--write" in arguments:
        maker.write()


if __name__ == "__main__":
    main()
