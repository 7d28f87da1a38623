"""Tests of tasks in other processes of this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nearkin.errors import RunError, UsageError
from nearkin.executors.processes import Processes
from nearkin.runtime.executor import RETURNED
from tests.cli.conftest import run
from tests.engine.test_executors import documents, read_output, write_compressed_lines

PARENT = """
import sys, time
from pathlib import Path
from nearkin.executors.processes import Processes
from tests.executors.test_processes import name_process
if __name__ == "__main__":
    with Processes.start(1) as processes:
        print(*processes.at(Path(sys.argv[1])).map(name_process, [0]), flush=True)
        time.sleep(1000)
"""


def double(number: int) -> int:
    return 2 * number


def refuse(number: int) -> int:
    raise UsageError(f"{number} is not allowed")


def end(number: int) -> int:
    os._exit(number)


def write_late(item: tuple[Path, float]) -> None:
    path, seconds = item
    time.sleep(seconds)
    if path.is_dir():
        (path / "late").touch()


def name_process(_: int) -> int:
    return os.getpid()


def test_output_does_not_depend_on_processes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_compressed_lines(tmp_path / "in", documents()[:1200])
    line = ("dedup", tmp_path / "in", "--id", "id", "--workers", "2", "--quiet")
    assert run(*line, "--out", tmp_path / "threads") == 0
    assert run(*line, "--out", tmp_path / "processes", "--executor", "processes") == 0
    assert read_output(tmp_path / "processes") == read_output(tmp_path / "threads")


def test_results_are_in_the_order_of_the_items(tmp_path: Path) -> None:
    with Processes.start(2) as processes:
        executor = processes.at(tmp_path)
        assert list(executor.map(double, range(50))) == list(range(0, 100, 2))
        with pytest.raises(UsageError, match="1 is not allowed"):
            list(executor.map(refuse, [1]))
        assert not list((tmp_path / RETURNED).iterdir())


def test_tasks_that_are_done_at_an_interruption_are_waited_for(tmp_path: Path) -> None:
    with Processes.start(2) as processes:
        results = processes.at(tmp_path).map(write_late, [(tmp_path / "a", 0.0), (tmp_path, 1.0)])
        next(results)
        assert not (tmp_path / "late").exists()
        results.close()  # type: ignore[attr-defined]
        assert (tmp_path / "late").exists()


def test_a_process_that_ends_is_named_with_its_task(tmp_path: Path) -> None:
    with (
        Processes.start(2) as processes,
        pytest.raises(RunError, match="a process ended while it did end; if the system ended it"),
    ):
        list(processes.at(tmp_path).map(end, [9]))


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
