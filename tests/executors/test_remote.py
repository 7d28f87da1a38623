"""Tests of tasks as other processes receive them."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nearkin.errors import RunError, UsageError
from nearkin.executors.remote import RemoteExecutor, RemoteTask

FIRST_TASK = """
import sys
from dataclasses import replace
from pathlib import Path
from nearkin.executors.remote import RemoteTask

task = RemoteTask.create(len, Path(sys.argv[1]))
assert "pandas" not in sys.modules
task("ab")
assert "pandas" in sys.modules
"""


def test_worker_imports_pandas_for_arrow_before_threads_make_arrays(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", FIRST_TASK, str(tmp_path)], check=True)


def test_worker_of_another_version_is_named_with_both_versions(tmp_path: Path) -> None:
    task = RemoteTask.create(len, tmp_path)
    with pytest.raises(UsageError, match=r"worker .* has nearkin .*, and the run has 0\.0\.1;"):
        RemoteExecutor().take(replace(task, version="0.0.1")("ab"))
    assert RemoteExecutor().take(task("ab")) == 2


def test_worker_that_does_not_see_the_work_folder_is_named_with_it(tmp_path: Path) -> None:
    task = RemoteTask.create(len, tmp_path)
    elsewhere = replace(task, folder=Path("/unmounted") / task.folder.name)
    with pytest.raises(UsageError, match=r"worker .* does not see the work folder /unmounted/.*;"):
        RemoteExecutor().take(elsewhere("ab"))


def fail(path: Path) -> None:
    raise RunError(f"cannot read {path}: No such file or directory")


def test_machine_on_which_a_task_fails_is_named_unless_it_is_that_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = RemoteTask.create(fail, tmp_path)
    with pytest.raises(RunError, match=r"^cannot read a: No such file or directory$"):
        RemoteExecutor().take(task(Path("a")))
    monkeypatch.setattr("platform.node", lambda: "other-machine")
    with pytest.raises(RunError, match=r"^worker other-machine: cannot read a: No such file"):
        RemoteExecutor().take(task(Path("a")))
