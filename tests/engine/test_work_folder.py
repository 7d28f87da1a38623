"""Tests of work folders: a recorded stage has all its files, also after a power cut."""

import gc
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns
from nearkin.engine import sketching
from nearkin.engine.options import RunOptions
from nearkin.engine.work_folder import UNFINISHED, WorkFolder, create_mapped_file
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.outputs import MANIFEST
from nearkin.runtime.progress import Silent
from nearkin.runtime.threads import ordered_map
from tests.disks import small_disk


def finished_stages(path: Path) -> WorkFolder:
    work = WorkFolder.create(path, {"command": "test"})
    for name in ("first", "second", "third"):
        with work.stage(name, workers=2) as facts:
            work.save(name, np.arange(100))
            facts["name"] = name
    return work


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize("fault", ["shorter", "gone", "longer", "changed"])
def test_stage_with_a_damaged_file_is_run_again(
    fault: str, pieces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so do the stages after it."""
    monkeypatch.setattr("nearkin.engine.work_folder.CHECKED_AT_ONCE", 1024 // pieces)
    monkeypatch.setattr("nearkin.engine.work_folder.READ_AT_ONCE", 64)
    finished_stages(tmp_path / "work")
    path = tmp_path / "work" / "second.npy"
    if fault == "gone":
        path.unlink()
    elif fault == "changed":
        flip_bit(path)
    else:
        os.truncate(path, path.stat().st_size + (8 if fault == "longer" else -8))
    work = WorkFolder.resume(tmp_path / "work")
    assert [name for name in ("first", "second", "third") if work.done(name)] == ["first"]


def test_resumed_run_deletes_what_the_tasks_of_the_killed_one_left(tmp_path: Path) -> None:
    work = finished_stages(tmp_path / "work")
    for name in UNFINISHED:
        work.folder(name)
        (work.path / name / "left").touch()
    resumed = WorkFolder.resume(work.path)
    assert set(resumed.manifest["stages"]) == {"first", "second", "third"}
    assert not [name for name in UNFINISHED if (work.path / name).exists()]


def test_flipped_bit_in_a_file_of_a_finished_stage_changes_no_result(tmp_path: Path) -> None:
    """The checkpoint of the sketch stage does not save it from being run again, either."""
    texts = [f"a text of some words {at // 2} {at // 2 * 7} and some more" for at in range(60)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    job = Job((str(tmp_path / "a.parquet"),), tmp_path / "out", Columns(), RunOptions())

    class Interrupting(Silent):
        def stage(self, name: str, total: int | None = None) -> None:
            if name == "verify":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_dedup(job, Interrupting())
    work = tmp_path / "out.partial"
    copy = tmp_path / "copy"
    shutil.copytree(work, copy, symlinks=True)
    expected = run_dedup(replace(job, resume=True), Silent()).counts
    recorded = json.loads((copy / MANIFEST).read_bytes())["files"]
    names = [name for entry in recorded for name in entry["files"] if (copy / name).stat().st_size]
    assert "sketch/signatures" in names
    for name in names:
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(copy, work, symlinks=True)
        flip_bit(work / name)
        assert run_dedup(replace(job, resume=True), Silent()).counts == expected, name


def test_files_of_a_stage_stay_its_own_when_a_resumed_run_records_later_stages(
    tmp_path: Path,
) -> None:
    """Otherwise a stage whose file is gone would count as finished after a second resume."""
    finished_stages(tmp_path / "work")
    (tmp_path / "work" / "third.npy").unlink()
    resumed = WorkFolder.resume(tmp_path / "work")
    with resumed.stage("third"):
        resumed.save("third", np.arange(100))
    (tmp_path / "work" / "first.npy").unlink()
    again = WorkFolder.resume(tmp_path / "work")
    assert again.manifest["stages"] == {}


def test_arrays_are_loaded_in_many_threads_at_once(tmp_path: Path) -> None:
    work = WorkFolder.create(tmp_path / "work", {}, durable=False)
    for number in range(20):
        work.save(f"array{number}", np.arange(number + 1))

    def load(turn: int) -> int:
        return len(work.load(f"array{turn % 20}"))

    # another thread goes on in the middle of a header when garbage is collected there
    gc.callbacks.append(lambda phase, facts: time.sleep(0))
    thresholds = gc.get_threshold()
    gc.set_threshold(10)
    try:
        lengths = list(ordered_map(load, range(1000), 8))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
    assert lengths == [turn % 20 + 1 for turn in range(1000)]


def test_the_files_of_a_stage_are_synced_before_it_counts_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        order.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    work = WorkFolder.create(tmp_path / "work", {})
    order.clear()
    with work.stage("first"):
        work.save("array", np.arange(3))
    assert order[0] == "array.npy"
    assert order[1] == "work"
    assert order[2].startswith(f".{MANIFEST}")
    order.clear()
    with work.stage("second"):
        work.save("other", np.arange(3))
    assert "array.npy" not in order


class StoppedError(Exception):
    pass


class Stopping(Silent):
    """Fails after a number of batches of the sketch stage."""

    def __init__(self, batches: int) -> None:
        self.left = batches

    def advance(self, count: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoppedError


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes runs read batches of 256 rows and write a checkpoint after each."""
    monkeypatch.setattr(sketching, "SEGMENT_SECONDS", 0.0)
    monkeypatch.setattr("nearkin.corpus.corpus.BATCH_ROWS", 256)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A finished run over four files."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice([f"w{i}" for i in range(50)], 12)) for _ in range(1000)]
    (folder / "in").mkdir()
    for part in range(4):
        rows = texts[part * 250 : part * 250 + 250]
        pq.write_table(pa.table({"text": [*rows, None]}), folder / "in" / f"{part}.parquet")
    job = Job((str(folder / "in"),), folder / "out", Columns(), RunOptions(threshold=0.5))
    run_dedup(job, Silent())
    return job


@pytest.fixture
def half_sketched(whole: Job, small_steps: None, tmp_path: Path) -> Job:
    """A run over the same files that failed in the middle of its sketch stage."""
    job = replace(whole, out=tmp_path / "out")
    with pytest.raises(StoppedError):
        run_dedup(job, Stopping(3))
    assert (
        json.loads((job.work_folder / "sketch" / "checkpoint.json").read_bytes())["documents"]
        >= 500
    )
    return job


@pytest.mark.parametrize("fault", ["cut", "emptied", "deleted"])
@pytest.mark.parametrize(
    "name",
    [
        "signatures",
        "shingles",
        "fingerprints",
        "lengths",
        "files",
        "rows",
        "rejected.jsonl",
        "columns/000000.arrow",
    ],
)
def test_files_shorter_than_the_checkpoint_are_sketched_again(
    name: str, fault: str, half_sketched: Job, whole: Job
) -> None:
    """They were filled with zeros, which counted as thousands of empty documents."""
    job = half_sketched
    path = job.work_folder / "sketch" / name
    if fault == "deleted":
        path.unlink()
    else:
        os.truncate(path, 0 if fault == "emptied" else path.stat().st_size - 1)
    run_dedup(replace(job, resume=True), Silent())
    for result in ("clusters.parquet", "pairs.parquet", "rejected.jsonl"):
        assert (job.out / result).read_bytes() == (whole.out / result).read_bytes()


def test_data_is_synced_before_the_checkpoint(
    half_sketched: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: order.append(Path(f"/proc/self/fd/{handle}").readlink().name)
    )
    job = half_sketched
    run_dedup(replace(job, resume=True), Silent())
    first = next(number for number, name in enumerate(order) if name.startswith(".checkpoint.json"))
    begun = max(
        (number for number, name in enumerate(order[:first]) if name.startswith(".manifest")),
        default=0,
    )
    before = set(order[begun:first])
    assert {
        "signatures",
        "shingles",
        "fingerprints",
        "lengths",
        "files",
        "rows",
        "rejected.jsonl",
        "sketch",
        "columns",
    } <= before
    assert any(name.endswith(".arrow") for name in before)


@pytest.mark.parametrize("shape", [(5,), (3, 2), (0,), (0, 2)])
def test_created_file_is_mapped_with_its_size(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"x" * 1000)
    array = create_mapped_file(path, np.uint64, shape)
    assert not array.any()
    array[:] = 7
    assert path.read_bytes() == np.full(shape, 7, np.uint64).tobytes()


def test_mapped_file_on_a_full_disk_is_an_error_not_a_crash(tmp_path: Path) -> None:
    """Writing to a mapped file without reserved blocks ends the process by SIGBUS."""
    with small_disk(tmp_path / "disk", "1m") as disk, pytest.raises(OSError, match="No space left"):
        create_mapped_file(disk / "numbers", np.uint64, (1 << 18,))[:] = 7
