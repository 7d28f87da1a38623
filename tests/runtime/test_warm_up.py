"""Tests of the preparation of kernels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.runtime.warm_up import warm_up

WARM = """
import sys
from nearkin.runtime import warm_up as module
from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.kernel_list import ListedKernel

class Recorder:
    def stage(self, name, total=None):
        self.lines = [f"0 of {total}"]
        self.total = total
        self.done = 0
    def advance(self, count):
        self.done += count
        self.lines.append(f"{self.done} of {self.total}")
    def close(self):
        pass

LIST = [
    ListedKernel("nearkin.quality.lab.kernels.start_stream", "uint64, uint64, uint64"),
    ListedKernel("nearkin.stages.hashing.kernels.mix64", "uint64"),
]
module.list_kernels = lambda use: LIST
sys.executable = sys.argv[2] or sys.executable
recorder = Recorder()
warmed = module.warm_up(workers=int(sys.argv[1]), progress=recorder)
print(warmed.kernels, warmed.compiled, COMPILATION.compiled > 0, *recorder.lines[-1:], sep=", ")
"""
"""Code that prepares two small kernels."""


def prepare(cache: Path, workers: int, executable: str = "") -> str:
    command = [sys.executable, "-c", WARM, str(workers), executable]
    variables = {**os.environ, "NEARKIN_CACHE_DIR": str(cache)}
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("workers", [1, 2])
def test_missing_kernels_are_compiled_once(tmp_path: Path, workers: int) -> None:
    in_this_process = workers == 1
    assert prepare(tmp_path, workers) == f"2, 2, {in_this_process}, 2 of 2"
    assert prepare(tmp_path, workers) == "2, 0, False, 2 of 2"


def test_kernels_are_compiled_here_if_no_process_can_be_started(tmp_path: Path) -> None:
    """A server that embeds Python has another program as `sys.executable`."""
    assert prepare(tmp_path, 2, "/bin/true") == "2, 2, True, 2 of 2"


def test_unknown_use_is_refused() -> None:
    with pytest.raises(UsageError, match="valid uses are all, dedup, index"):
        nk.warm_up("serve")


def test_number_of_processes_is_positive() -> None:
    with pytest.raises(UsageError, match="workers"):
        warm_up(workers=0)
