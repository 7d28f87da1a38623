"""Tests of the measured peak of memory, which is compared with what /proc says."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nearkin.runtime.memory import PeakMemory
from tests.process_memory import anonymous_bytes_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="anonymous memory is read from /proc"
)


USE_MEMORY = """
import json, select, sys
import numpy as np
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.progress import Silent
with PeakMemory() as memory:
    values = np.arange(20_000_000)
    before = memory.peak
    for repetition in range(200):
        if memory.peak >= 475_000_000 and select.select([sys.stdin], [], [], 0)[0]:
            break
        copied = np.sort(values)[::-1].copy()
        del copied
print(json.dumps([before, memory.peak]))
"""


def test_the_reported_peak_is_what_is_measured_from_outside() -> None:
    """Sorting holds the interpreter lock.

    A thread of the same process would miss what is allocated and freed meanwhile. Memory is used
    until both have seen the peak, because on a busy machine neither process may run while it is
    held once.
    """
    line = [sys.executable, "-c", USE_MEMORY]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous_bytes_of(process.pid))
            if peak >= 475_000_000:
                process.stdin.close()
            time.sleep(0.001)
        before, reported = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert before >= 160_000_000
    assert reported >= 475_000_000
    assert abs(reported - peak) < 0.1 * peak


def test_the_reported_peak_counts_child_processes() -> None:
    hold = "import sys; held = bytearray(100_000_000); print('held', flush=True); sys.stdin.read()"
    with PeakMemory() as memory:
        child = subprocess.Popen(
            [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        while memory.peak < anonymous_bytes_of(os.getpid()) + 100_000_000:
            assert child.poll() is None
        child.communicate()


def test_the_sampler_ends_with_the_measurement() -> None:
    before = set(psutil.Process().children())
    with PeakMemory():
        assert set(psutil.Process().children()) - before
    assert not {
        child
        for child in set(psutil.Process().children()) - before
        if child.status() != psutil.STATUS_ZOMBIE
    }


def test_a_sampler_that_was_killed_is_no_fault() -> None:
    before = set(psutil.Process().children())
    with PeakMemory() as memory:
        for child in set(psutil.Process().children()) - before:
            child.kill()
            child.wait()
        assert memory.peak > 0
    assert memory.peak > 0
