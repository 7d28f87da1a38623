"""Every command is ended at its file operations, and resumed: the result is that of a run that
nobody disturbed.

The quick form takes some of the points of some commands, every other one as a power cut. The full
form takes all points of all commands, each of them as a kill and as a power cut; with `--points N`,
it takes N points of each command as the quick form does.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.commands import CASES, MADE, RESTARTED, make_corpus

QUICK = (
    "save-signatures",
    "extend",
    "annotate-components",
    "merge-fields",
    "then",
    "overwrite",
    "containment",
    "cut",
    "decontaminate",
    "sketch",
    "merge",
)
"""Those of which the quick form takes some points; the full form takes all of all."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_corpus(tmp_path_factory.mktemp("kills"))


@pytest.fixture(scope="module")
def killing(tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[str]"]:
    """The program that kills commands: `tests.killing`."""
    errors = tmp_path_factory.mktemp("killing") / "errors"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.killing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        yield process
        process.communicate()
    assert process.returncode == 0, errors.read_text()


def run_kills(
    killing: "subprocess.Popen[str]", folder: Path, case: dict[str, Any]
) -> dict[str, Any]:
    assert killing.stdin is not None
    assert killing.stdout is not None
    killing.stdin.write(json.dumps({"folder": str(folder), **case}) + "\n")
    killing.stdin.flush()
    answer = killing.stdout.readline()
    assert answer, "the program has ended; its errors follow where the fixture ends"
    record: dict[str, Any] = json.loads(answer)
    return record


@pytest.fixture(scope="module")
def points(request: pytest.FixtureRequest, full: bool) -> dict[str, int | None]:
    """The number of points at which each command is killed, and how many of the last are added."""
    if not full:
        return {"points": 3, "last": 1}
    return {"points": request.config.getoption("--points"), "last": 0}


def kill_case(
    line: list[str], corpus: dict[str, str], again: list[list[str]], **other: Any
) -> dict[str, Any]:
    return {"line": [corpus.get(word, word) for word in line], "again": again, **other}


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in CASES],
)
def test_a_run_that_is_killed_anywhere_can_be_resumed(
    name: str,
    corpus: dict[str, str],
    killing: "subprocess.Popen[str]",
    tmp_path: Path,
    points: dict[str, int | None],
    record_property: Callable[[str, object], None],
) -> None:
    other: dict[str, Any] = dict(points)
    if name == "overwrite":
        other["before"] = [corpus.get(word, word) for word in CASES["dedup"]]
    if name in MADE:
        other.update(out=MADE[name][0], made=MADE[name])
    again = [["--resume"], []] if name == "overwrite" else [["--resume"]]
    record = run_kills(killing, tmp_path, kill_case(CASES[name], corpus, again, **other))
    record_property("attempts", record["tried"])
    assert record["operations"] > 10
    assert record["failures"] == []


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in RESTARTED],
)
def test_a_killed_command_can_be_started_again(
    name: str,
    corpus: dict[str, str],
    killing: "subprocess.Popen[str]",
    tmp_path: Path,
    points: dict[str, int | None],
    record_property: Callable[[str, object], None],
) -> None:
    """The leftovers of a killed run do not prevent the next one."""
    made = MADE.get(name, ["out"])
    case = kill_case(RESTARTED[name], corpus, [["--overwrite"]], made=made, **points)
    record = run_kills(killing, tmp_path, case)
    record_property("attempts", record["tried"])
    assert record["failures"] == []
