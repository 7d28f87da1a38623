"""Tests of tasks on a local cluster of Ray."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import MissingExtraError, RunError
from nearkin.executors.ray import RayExecutor
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.corpus.object_storage import serve_storage
from tests.engine.test_executors import documents, read_output, write_parquet


@pytest.mark.full
def test_output_does_not_depend_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="make test-full installs ray")
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())
    options = RunOptions(spec=nk.Spec(), workers=2)
    job = Job((str(tmp_path / "in"),), tmp_path / "threads", Columns(id="id"), options)
    run_dedup(job, Silent())
    with serve_storage(monkeypatch), ExitStack() as stack:
        (tmp_path / "copies").mkdir()
        ray.init(
            num_cpus=3,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": {"TMPDIR": str(tmp_path / "copies")}},
        )
        stack.callback(ray.shutdown)
        through_store = RayExecutor.connect(None, exchange="s3://bucket/tmp")
        run_dedup(replace(job, out=tmp_path / "store", executor=through_store), Silent())
        executor = RayExecutor.connect(None)
        assert executor.workers == 3
        run_dedup(replace(job, out=tmp_path / "ray", executor=executor), Silent())
        assert list(executor.at(tmp_path).map(abs, range(-20, 0))) == list(range(20, 0, -1))
        with pytest.raises(RunError, match="a task of Ray failed: TypeError: bad operand"):
            list(executor.at(tmp_path).map(abs, ["text"]))  # type: ignore[arg-type]
    assert read_output(tmp_path / "ray") == read_output(job.out)
    assert read_output(tmp_path / "store") == read_output(job.out)


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"requires ray; run pip install .*\[ray\]"):
        RayExecutor.connect(None)
