"""Measurements of a machine: the speed of sketching, and the resources of processes."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import pyarrow as pa

from nearkin.errors import RunError
from nearkin.runtime.process_limits import available_cores
from nearkin.runtime.version import list_versions
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.sketcher import Sketcher

SLICE_DOCUMENTS = 2000
"""The number of documents that are sketched at once."""
NEARKIN = (sys.executable, "-m", "nearkin", "--no-config")
"""The beginning of a command line that runs nearkin."""


def describe_machine() -> dict[str, Any]:
    """Returns the properties of this machine on which results depend."""
    return {"cores": available_cores(), "processor": _name_processor(), **list_versions()}


def _name_processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def time_runs(work: Callable[[], Any], runs: int) -> list[float]:
    """Returns the wall-clock time of each run in seconds."""
    out = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        out.append(time.perf_counter() - began)
    return out


def measure_sketching(texts: pa.Array, runs: int) -> list[float]:
    """Returns the speed of sketching texts in one thread in each run, in MB/s.

    A run before them warms up and does not count.
    """
    sketcher = Sketcher(Spec())

    def sketch() -> None:
        for at in range(0, len(texts), SLICE_DOCUMENTS):
            sketcher.sketch(texts.slice(at, SLICE_DOCUMENTS))

    sketch()
    return [texts.nbytes / 1e6 / seconds for seconds in time_runs(sketch, runs)]


class ProcessUsage(NamedTuple):
    """The resources that a process used."""

    seconds: float
    """The wall-clock time in seconds."""
    cpu: float
    """The CPU time in seconds."""
    memory: int
    """The largest resident set in bytes."""


def run_process(line: Sequence[str], environment: Mapping[str, str] | None = None) -> ProcessUsage:
    """Runs a command and measures the resources that it uses."""
    began = time.perf_counter()
    with TemporaryFile() as shown:
        running = subprocess.Popen(
            line,
            stdout=subprocess.DEVNULL,
            stderr=shown,
            env=None if environment is None else dict(environment),
        )
        ended = os.wait4(running.pid, 0)
        usage = ended[2]
        running.returncode = os.waitstatus_to_exitcode(ended[1])
        seconds = time.perf_counter() - began
        if running.returncode:
            shown.seek(0)
            raise RunError(
                f"{' '.join(line)} failed: {shown.read().decode(errors='replace')[-2000:]}"
            )
    scale = 1 if sys.platform == "darwin" else 1024
    return ProcessUsage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale)


def run_nearkin(*arguments: object, environment: Mapping[str, str] | None = None) -> ProcessUsage:
    """Runs a `nearkin` command as a process and measures the resources that it uses.

    The file with the defaults of options that holds in the current folder is ignored.
    """
    return run_process([*NEARKIN, *map(str, arguments)], environment)
