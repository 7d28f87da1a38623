"""Tests of tasks that are done by processes which share a folder."""

import errno
import json
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.executors import job_worker, jobs, remote
from nearkin.executors.job_worker import take_item, work_on
from nearkin.executors.jobs import JobsExecutor, write_value
from nearkin.executors.remote import RemoteTask
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.executor import TASKS
from nearkin.runtime.progress import Silent
from tests.cli.conftest import run
from tests.engine.test_executors import (
    documents,
    read_output,
    run_with_missing_pairs,
    write_parquet,
)

PATIENCE = 120.0


def double(number: int) -> int:
    return 2 * number


def refuse(number: int) -> int:
    raise UsageError(f"{number} is not allowed")


def fail(number: int) -> int:
    raise ZeroDivisionError(number)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Path]:
    """Starts two workers of a work folder that does not exist yet, and returns the folder."""
    # forked from a process that has imported what workers need, and runs nothing
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["nearkin.executors.job_worker", "nearkin.runs.dedup", __name__])
    work = tmp_path / "out.partial"
    started = [context.Process(target=work_on, args=(work, PATIENCE)) for _ in range(2)]
    for process in started:
        process.start()
    yield work
    for process in started:
        process.kill()
        process.join()


def take_and_drop(work: Path, is_done: threading.Event) -> None:
    """Takes an item of each task, as a worker that is killed then."""
    seen: set[str] = set()
    while not is_done.is_set():
        taken = take_item(work / TASKS)
        if taken is not None and taken.parent.parent.name in seen:
            taken.rename(taken.parent.parent / jobs.TODO / taken.name)
            time.sleep(0.2)
        elif taken is not None:
            seen.add(taken.parent.parent.name)
        time.sleep(0.01)


def test_output_does_not_depend_on_lost_workers(
    workers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    monkeypatch.setattr(jobs, "LOST_SECONDS", 1.0)
    monkeypatch.setattr(jobs, "MOST_ATTEMPTS", 10**6)
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())
    columns = Columns(id="id", carried_columns=("site",))
    options = RunOptions(spec=nk.Spec(), workers=2)
    job = Job((str(tmp_path / "in"),), tmp_path / "threads", columns, options)
    run_dedup(job, Silent())
    is_done = threading.Event()
    killed = threading.Thread(target=take_and_drop, args=(workers, is_done))
    killed.start()
    elsewhere = replace(job, out=tmp_path / "out", executor=JobsExecutor(2))
    assert elsewhere.work_folder == workers
    try:
        run_dedup(elsewhere, Silent())
    finally:
        is_done.set()
        killed.join()
    assert read_output(elsewhere.out) == read_output(job.out)


def test_missing_pairs_of_hot_buckets_do_not_depend_on_the_executor(
    workers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = run_with_missing_pairs(tmp_path, JobsExecutor(2), monkeypatch)
    assert not workers.exists(), "the workers shared this folder"
    assert facts["stages"]["candidates"]["hot_buckets"]
    assert facts["stages"]["missing_pairs"]["share"] > 0.05


def test_results_are_in_the_order_of_the_items(workers: Path) -> None:
    workers.mkdir()
    executor = JobsExecutor(2).at(workers)
    assert list(executor.map(double, range(50))) == list(range(0, 100, 2))
    assert not list((workers / TASKS).iterdir())


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (refuse, UsageError, "1 is not allowed"),
        (fail, RunError, "a worker on .* failed with ZeroDivisionError: 1"),
    ],
)
def test_error_of_a_task_ends_the_run(
    task: Callable[[int], int], error: type[Exception], message: str, workers: Path
) -> None:
    workers.mkdir()
    with pytest.raises(error, match=message):
        list(JobsExecutor(2).at(workers).map(task, [1]))


def test_item_that_ends_every_worker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LOST_SECONDS", 0.1)
    taken: list[Path] = []

    def take(work: Path, is_done: threading.Event) -> None:
        while not is_done.is_set():
            path = take_item(work / TASKS)
            taken.extend([] if path is None else [path])
            time.sleep(0.01)

    is_done = threading.Event()
    thread = threading.Thread(target=take, args=(tmp_path, is_done))
    thread.start()
    try:
        with pytest.raises(RunError, match="4 workers were lost with part 0 of double"):
            list(JobsExecutor(1).at(tmp_path).map(double, [7]))
    finally:
        is_done.set()
        thread.join()
    assert len(taken) == jobs.MOST_ATTEMPTS


def fill_disk(number: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_of_a_worker_ends_the_run_with_a_sentence(workers: Path) -> None:
    workers.mkdir()
    with pytest.raises(RunError, match=r"cannot write in .*: No space left on device"):
        list(JobsExecutor(2).at(workers).map(fill_disk, [1]))


def test_failure_that_a_worker_cannot_write_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail_to_write(path: Path, value: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(job_worker, "write_value", fail_to_write)
    codes: list[int] = []
    line = ("work", tmp_path, "--wait", PATIENCE)
    worker = threading.Thread(target=lambda: codes.append(run(*line)))
    worker.start()
    with pytest.raises(RunError, match="a worker could not write what it did of part 0 of double"):
        list(JobsExecutor(1).at(tmp_path).map(double, [1]))
    worker.join()
    assert codes == [1]


def test_worker_does_no_task_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.geteuid()
    monkeypatch.setattr(job_worker.os, "geteuid", lambda: own + 1)
    if own == 0:
        os.chown(tmp_path, 12345, -1)
    with pytest.raises(UsageError, match=r"belongs to user .* run workers as the user of the run"):
        work_on(tmp_path, PATIENCE)


def test_worker_of_another_version_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "VERSION", "0.0.1")
    worker = threading.Thread(target=work_on, args=(tmp_path, PATIENCE))
    worker.start()
    with pytest.raises(UsageError, match=r"worker .* has nearkin 0\.0\.1, and the run has"):
        list(JobsExecutor(1).at(tmp_path).map(double, [7]))
    shutil.rmtree(tmp_path)
    worker.join()


def test_worker_of_a_finished_result_says_which_folder_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs.jsonl").write_text(json.dumps({"text": "one text"}))
    out = tmp_path / "out"
    assert run("dedup", tmp_path / "docs.jsonl", "--out", out, "-q") == 0
    assert run("work", out) == 2
    expected = f"{out} is the result of a finished run; the work folder of a new one is {out}.part"
    assert expected in capsys.readouterr().err


def test_run_without_workers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jobs, "LOST_SECONDS", 0.1)
    done: list[int] = []
    thread = threading.Thread(
        target=lambda: done.extend(JobsExecutor(1).at(tmp_path).map(double, [7]))
    )
    thread.start()
    while not caplog.messages:
        time.sleep(0.01)
    assert caplog.messages[0] == f"no worker takes tasks; start workers: nearkin work {tmp_path}"
    work_on(tmp_path, 1)
    thread.join(PATIENCE)
    assert done == [14]


def test_worker_ends_with_its_run_or_without_tasks(tmp_path: Path) -> None:
    assert work_on(tmp_path / "none", 0.1) == 0
    (tmp_path / "work").mkdir()
    thread = threading.Thread(target=work_on, args=(tmp_path / "work", PATIENCE))
    thread.start()
    time.sleep(0.2)
    (tmp_path / "work").rmdir()
    thread.join(PATIENCE / 2)
    assert not thread.is_alive()


def fail_late(tasks: Path) -> None:
    """Fails after the run has ended."""
    shutil.rmtree(tasks)
    raise ValueError("a file is half deleted")


def test_worker_goes_on_after_an_item_that_nobody_waits_for(tmp_path: Path) -> None:
    folder = tmp_path / TASKS / "folder"
    (folder / jobs.TODO).mkdir(parents=True)
    (folder / jobs.DOING).mkdir()
    write_value(folder / jobs.TASK, RemoteTask.create(fail_late, tmp_path))
    write_value(folder / jobs.TODO / "000000000", tmp_path / TASKS)
    assert work_on(tmp_path, 0.1) == 1
    assert not (tmp_path / TASKS).exists()


def test_command_line_runs_by_jobs(workers: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())
    line = ("dedup", tmp_path / "in", "--id", "id", "-q")
    assert run(*line, "--out", tmp_path / "threads") == 0
    assert run(*line, "--out", tmp_path / "out", "--executor", "jobs", "--jobs", "2") == 0
    assert read_output(tmp_path / "out") == read_output(tmp_path / "threads")
    assert run(*line, "--out", tmp_path / "more", "--jobs", "2") == 2
    assert run(*line, "--out", tmp_path / "more", "--executor", "jobs", "--jobs", "0") == 2
    assert run("work", tmp_path / "none", "--wait", "0") == 0


def test_info_shows_the_state_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearkin.engine.run.save_exact_groups", fail)
    assert run("dedup", tmp_path / "in", "--out", tmp_path / "out", "-q") != 0
    (tmp_path / "out.partial" / TASKS / "one" / jobs.TODO).mkdir(parents=True)
    (tmp_path / "out.partial" / TASKS / "one" / jobs.TODO / "000000000").touch()
    assert run("info", tmp_path / "out.partial", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "run that has not finished"
    assert list(facts["stages"]) == ["sketch"]
    assert facts["documents_read"] == 5_938
    assert facts["tasks"] == {"waiting": 1, "taken": 0}
