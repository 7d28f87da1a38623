"""Tests of tasks as other processes receive them."""

import subprocess
import sys
from pathlib import Path

import pytest

FIRST_TASK = """
import sys
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
