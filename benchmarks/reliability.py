"""Counts what the suites of faults did, and what went wrong; writes the table of the page.

The suites are those of `make test-full`. A test that makes several attempts says how many.

python -m benchmarks.reliability --full --write
"""

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

PAGE = ROOT / "docs" / "explanation" / "reliability.md"
SUITES = {
    "A command is killed before one of its changes of files, or the power fails; it is resumed": (
        "tests/runs/test_kills.py",
    ),
    "A call of an index is interrupted before one of its lines, as by Ctrl-C; it is repeated": (
        "tests/index/test_interruptions.py",
    ),
    "A process changes the index between two steps of another one": ("tests/index/test_races.py",),
    "A connection to the store is cut, or an answer is lost": (
        "tests/index/test_cut_connections.py",
        "tests/index/test_lost_answers.py",
    ),
    "The file of an index loses what was not synced": ("tests/index/test_durable_files.py",),
    "The disk is full": ("tests/consumer/test_full_disk.py", "tests/server/test_full_disk.py"),
    "The clock is wrong": ("tests/index/test_clock.py",),
    "A file is damaged": ("tests/corpus/test_mutations.py",),
}
"""What is done, and the suites that do it."""


class Attempts(NamedTuple):
    """The attempts of one test.

    Attributes:
        subject: What they are made on, for example a store. Empty if the suite has one subject.
        count: Number of attempts.
        wrong: True if the test failed.
    """

    subject: str
    count: int
    wrong: bool


def run_suite(paths: tuple[str, ...], *, full: bool) -> Iterator[Attempts]:
    """Runs tests, and yields what each has attempted. Skipped tests are left out.

    Args:
        paths: Files of tests.
        full: True for the full form.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junitxml={report}", *paths]
        subprocess.run(
            [*command, *(["--full"] if full else [])], cwd=ROOT, check=False, stdout=sys.stderr
        )
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("skipped") is not None:
                continue
            facts = {fact.get("name"): fact.get("value") for fact in case.iter("property")}
            wrong = case.find("failure") is not None or case.find("error") is not None
            yield Attempts(facts.get("subject") or "", int(facts.get("attempts") or 1), wrong)


def reliability(full: bool) -> Table:
    """Returns the numbers of attempts and of failed tests of all suites.

    Args:
        full: True for the full form of the suites.
    """
    rows = []
    for what, paths in SUITES.items():
        attempts: Counter[str] = Counter()
        wrong: Counter[str] = Counter()
        for attempt in run_suite(paths, full=full):
            attempts[attempt.subject] += attempt.count
            wrong[attempt.subject] += attempt.wrong
        for subject in sorted(attempts):
            rows.append((what, subject, f"{attempts[subject]:,}", f"{wrong[subject]:,}"))
    form = "full" if full else "quick"
    note = f"Attempts of the {form} form, and the tests in which one was wrong."
    return Table("reliability", note, ("what happens", "to", "attempts", "failed tests"), rows)


if __name__ == "__main__":
    tables.main(__doc__, [reliability], HERE / "reliability.json", PAGE)
