"""Tests of tasks whose processes see the work folder of a run through an object store alone."""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.engine.merged_rows import MergeRequest
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.executors import object_store
from nearkin.executors.object_store import ObjectStore, StoredFile, open_store
from nearkin.executors.remote import RemoteExecutor, RemoteTask
from nearkin.runs.dedup import run_dedup
from nearkin.runs.document_output import DocumentOutput
from nearkin.runtime.progress import Silent
from tests.cli.conftest import run
from tests.corpus.object_storage import Storage, serve_storage
from tests.engine.test_executors import (
    SETTINGS,
    documents,
    make_job,
    make_reference,
    read_facts,
    read_output,
)

URL = "s3://bucket/tmp"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    with serve_storage(monkeypatch) as served:
        yield served


def objects_of_runs(storage: Storage) -> list[str]:
    return [name for name in storage.objects if name.startswith("bucket/tmp/nearkin-")]


def hide_folder(folder: Path, copies: Path) -> None:
    """Hides a folder from this process, as if it was that of another machine."""
    tempfile.tempdir = str(copies)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.scandir", "os.listdir", "os.mkdir") and (
            str(arguments[0]).startswith(str(folder))
        ):
            raise RuntimeError(f"{event} of {arguments[0]}")

    sys.addaudithook(check)


def call(task: RemoteTask, item: object) -> Any:
    return task(item)


@dataclass(frozen=True)
class Apart(RemoteExecutor):
    """An executor of processes that do not see the work folder. Each task is done twice."""

    pool: ProcessPoolExecutor
    workers: int = 2

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yields task(item) for each item, as described in `Executor`."""
        with self.sent(task) as remote:
            for item in items:
                packed = self.pack(item)
                first, second = (self.pool.submit(call, remote, packed) for _ in range(2))
                second.result()
                yield self.take(first.result())


@pytest.fixture
def apart(storage: Storage, tmp_path: Path) -> Iterator[Apart]:
    """Returns an executor, whose processes see the folder `in` of the test and no other."""
    (tmp_path / "copies").mkdir()
    spawn = multiprocessing.get_context("spawn")
    hidden = (tmp_path / "out", tmp_path / "copies")
    with ProcessPoolExecutor(2, spawn, hide_folder, hidden) as pool:
        yield Apart(pool, exchange=URL)


@pytest.mark.parametrize(
    "name",
    [
        "hot buckets",
        *(pytest.param(name, marks=pytest.mark.full) for name in SETTINGS if name != "hot buckets"),
    ],
)
def test_output_does_not_depend_on_an_object_store(
    name: str, apart: Apart, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    (tmp_path / "in").mkdir()
    pq.write_table(documents()[:1200], tmp_path / "in" / "all.parquet", row_group_size=300)
    options = RunOptions(**{"spec": nk.Spec(), "workers": 2, **SETTINGS[name]})
    job = make_job(tmp_path, options)
    run_dedup(job, Silent())
    elsewhere = replace(job, out=tmp_path / "out", executor=apart)
    run_dedup(elsewhere, Silent())
    assert read_output(elsewhere.out) == read_output(job.out)
    assert read_facts(elsewhere.out) == read_facts(job.out)
    assert objects_of_runs(storage) == []


def test_merged_rows_do_not_depend_on_an_object_store(
    apart: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    (tmp_path / "in").mkdir()
    pq.write_table(documents()[:1200], tmp_path / "in" / "all.parquet", row_group_size=300)
    merge = MergeRequest.parse("site:union, group:max", adds_sources=True)
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=2))
    job = replace(job, documents=DocumentOutput(merge=merge))
    run_dedup(job, Silent())
    elsewhere = replace(job, out=tmp_path / "out", executor=apart)
    run_dedup(elsewhere, Silent())
    assert read_output(elsewhere.out) == read_output(job.out)
    kept = pq.read_table(job.out / "kept" / "all.parquet")
    assert kept["merged_from"].null_count < len(kept)


def test_interrupted_run_through_an_object_store_is_resumed(
    apart: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    (tmp_path / "in").mkdir()
    pq.write_table(documents()[200:800], tmp_path / "in" / "all.parquet", row_group_size=100)
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=2))
    run_dedup(job, Silent())
    elsewhere = replace(job, out=tmp_path / "out", executor=apart)
    take = ObjectStore.take
    taken = count()

    def take_some(store: ObjectStore, stored: StoredFile) -> Any:
        if next(taken) == 12:
            raise KeyboardInterrupt
        return take(store, stored)

    monkeypatch.setattr(ObjectStore, "take", take_some)
    with pytest.raises(KeyboardInterrupt):
        run_dedup(elsewhere, Silent())
    run_dedup(replace(elsewhere, resume=True), Silent())
    assert read_output(elsewhere.out) == read_output(job.out)


def double(number: int) -> int:
    return 2 * number


@dataclass(frozen=True)
class Join:
    """A task that joins files of the work folder to a new one."""

    folder: Path

    def __call__(self, name: Path) -> Path:
        names = sorted(self.folder.glob("*.txt"))
        name.write_text("".join(path.read_text() for path in names))
        return name


def begin(work: Path) -> tuple[RemoteExecutor, RemoteTask]:
    """Returns an executor and a task over a work folder with two files."""
    (work / "texts").mkdir(parents=True)
    for name in ("a", "b"):
        (work / "texts" / f"{name}.txt").write_text(name)
    executor = RemoteExecutor(exchange=URL).at(work)
    return executor, RemoteTask.create(Join(work / "texts"), work, executor.store)


def copy_of(task: RemoteTask) -> RemoteTask:
    """Returns a task as another process receives it."""
    copied: RemoteTask = pickle.loads(pickle.dumps(task))
    return copied


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of the copies of this machine."""
    path = tmp_path / "copies"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def test_machine_reads_each_file_once_and_the_driver_writes_it_once(
    storage: Storage, copies: Path, tmp_path: Path
) -> None:
    reads = storage.options["reads"] = []
    work = tmp_path / "work"
    executor, task = begin(work)
    with ThreadPoolExecutor(4) as pool:
        packed = [executor.pack(work / f"{number}.out") for number in range(4)]
        returned = list(pool.map(call, map(copy_of, [task] * 4), packed))
    read = Counter(reads)
    assert len(read) == 2
    # a file is asked for by its size, and then read
    assert len(set(read.values())) == 1
    assert max(read.values()) <= 2
    assert [executor.take(one) for one in returned] == [
        work / f"{number}.out" for number in range(4)
    ]
    assert (work / "3.out").read_text() == "ab"
    written = set(storage.objects)
    (work / "texts" / "c.txt").write_text("c")
    (work / "texts" / "a.txt").write_text("changed")
    second = RemoteTask.create(Join(work / "texts"), work, executor.store)
    assert len(set(storage.objects) - written) == 2
    executor.take(call(copy_of(second), executor.pack(work / "new")))
    assert (work / "new").read_text() == "changedbc"
    (root,) = copies.iterdir()
    assert len([path for path in root.iterdir() if path.is_dir()]) == 2, "one copy and its objects"
    del executor
    assert objects_of_runs(storage) == []


def test_upload_that_fails_ends_the_run_with_a_sentence(
    storage: Storage, copies: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    executor, task = begin(work)
    storage.options["status_of_writes"] = 403
    packed = executor.pack(work / "new")
    with pytest.raises(RunError, match=r"cannot write s3://bucket/tmp/nearkin-.*; check the name"):
        executor.take(call(copy_of(task), packed))
    (work / "more").write_text("more")
    with pytest.raises(RunError, match=r"cannot write s3://bucket/tmp/nearkin-.*; check the name"):
        RemoteTask.create(double, work, executor.store)


def test_file_of_another_size_is_an_error(storage: Storage, copies: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    executor, task = begin(work)
    for name in objects_of_runs(storage):
        storage.objects[name] = b"longer"
    with pytest.raises(
        RunError, match=r"s3://bucket/tmp/nearkin-.* has 6 bytes in place of 1; run"
    ):
        executor.take(call(copy_of(task), executor.pack(work / "new")))


def test_copies_that_runs_left_a_day_ago_are_deleted(
    storage: Storage, copies: Path, tmp_path: Path
) -> None:
    for age in (0, 2 * object_store.OLD_SECONDS):
        old = copies / f"{object_store.COPIES}{age}"
        old.mkdir()
        os.utime(old, (time.time() - age, time.time() - age))
    executor, task = begin(tmp_path / "work")
    executor.take(call(copy_of(task), executor.pack(tmp_path / "work" / "new")))
    assert (copies / f"{object_store.COPIES}0").exists()
    assert len(list(copies.iterdir())) == 2


@pytest.mark.parametrize(
    "url", ["/mnt/shared", "https://host/folder", "s3://", "hf://datasets/a/b"]
)
def test_other_urls_are_refused(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "one text"}')
    line = ("dedup", tmp_path / "docs.jsonl", "--out", tmp_path / "out", "--exchange", url)
    assert run(*line, "--executor", "ray") == 2
    assert f"--exchange {url} is not a folder of an object store; give a" in capsys.readouterr().err
    assert run(*line, "--executor", "jobs") == 2
    assert "--exchange" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is not a folder of an object store"):
        open_store(url, tmp_path)


@pytest.mark.parametrize("reference", [pytest.param("files", marks=pytest.mark.full), "run"])
def test_comparison_with_a_reference_does_not_depend_on_an_object_store(
    reference: str, apart: Apart, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.reference.SMALL_CORPUS", 0)
    options = RunOptions(spec=nk.Spec(), workers=2, max_removed=1.0)
    job = make_job(tmp_path, options)
    job = make_reference(job, 2, reference, saves_hashes=True, count=1200)
    run_dedup(job, Silent())
    elsewhere = replace(job, out=tmp_path / "out", executor=apart)
    run_dedup(elsewhere, Silent())
    assert read_output(elsewhere.out) == read_output(job.out)
    assert read_facts(elsewhere.out) == read_facts(job.out)
    assert objects_of_runs(storage) == []
