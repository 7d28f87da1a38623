"""Tests of the script that samples the memory of a process from outside."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearkin.runtime import memory_sampler
from nearkin.runtime.memory_sampler import Process, tree_bytes
from tests.process_memory import anonymous_bytes_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is read from /proc"
)
HELD = 30_000_000
HOLD = f"held = b'x' * {HELD}; print('held', flush=True); import sys; sys.stdin.read()"


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """Starts a process that holds some memory until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate()


def test_memory_of_a_process_is_what_the_kernel_says(child: "subprocess.Popen[bytes]") -> None:
    """The child waits for input. The kernel may count a few pages later in one file."""
    process = Process(child.pid)
    assert process.anonymous_bytes() >= HELD
    assert abs(process.anonymous_bytes() - anonymous_bytes_of(child.pid)) < 1 << 20
    assert process.children() == []
    process.close()


def test_memory_of_a_tree_contains_the_children(child: "subprocess.Popen[bytes]") -> None:
    this = Process(os.getpid())
    if this._children is None:
        pytest.skip("this kernel does not list the children of a process")
    assert child.pid in this.children()
    assert tree_bytes(this) >= HELD
    this.close()


def test_ended_process_has_no_memory(child: "subprocess.Popen[bytes]") -> None:
    process = Process(child.pid)
    child.communicate()
    assert tree_bytes(process) == 0
    process.close()
    with pytest.raises(OSError, match=str(child.pid)):
        Process(child.pid)


def test_sampler_answers_each_line_with_the_peak(child: "subprocess.Popen[bytes]") -> None:
    line = [sys.executable, "-I", "-S", str(memory_sampler.__file__), str(child.pid), "0.001"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sampler:
        answers, _ = sampler.communicate(b"?\n?\n")
    peaks = [int(answer) for answer in answers.split()]
    assert len(peaks) == 2
    assert min(peaks) >= HELD
    assert sampler.returncode == 0


def test_sampler_of_an_ended_process_ends_without_an_answer() -> None:
    line = [sys.executable, "-I", "-S", str(memory_sampler.__file__), str(2**22 + 1), "0.001"]
    done = subprocess.run(line, input=b"?\n", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
