"""Measurements of a machine: the speed of sketching, and the resources of processes."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypedDict

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import RunError
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.runtime.process_limits import available_cores
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.sketcher import Sketcher

SLICE_DOCUMENTS = 2000
"""The number of documents that are sketched at once."""
NEARKIN = (sys.executable, "-m", "nearkin", "--no-config")
"""The beginning of a command line that runs nearkin."""
ACCENTS = str.maketrans({"a": "ä", "e": "é", "o": "о"})


@dataclass(frozen=True)
class BenchResult:
    """One result of a benchmark.

    Attributes:
        name: Name of what was measured.
        value: Median of the runs.
        unit: Unit of the value.
        runs: Values of the runs.
    """

    name: str
    value: float
    unit: str
    runs: tuple[float, ...]

    @classmethod
    def from_runs(cls, name: str, unit: str, runs: list[float]) -> "BenchResult":
        """Returns the median of some runs."""
        return cls(name, statistics.median(runs), unit, tuple(runs))


class MachineFacts(TypedDict):
    """The properties of a machine on which results depend."""

    cores: int
    processor: str
    python: str
    numba: str
    pyarrow: str
    numpy: str


def describe_machine() -> MachineFacts:
    """Returns the properties of this machine on which results depend."""
    return {
        "cores": available_cores(),
        "processor": _name_processor(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "pyarrow": pa.__version__,
        "numpy": np.__version__,
    }


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


def measure_sketching(runs: int = 5) -> Iterator[BenchResult]:
    """Yields the speed of sketching in one thread, in MB/s.

    The documents are ASCII texts of 1.5 kB and of 15 kB, and accented and Cyrillic texts of 1.5 kB.
    """
    with TemporaryFolder() as folder:
        path = folder / "synth"
        synth(path, SynthSettings(documents=20_000, length="fixed:1500", clustered=0.0))
        texts = pq.read_table(path / "documents")["text"].combine_chunks()
    texts = texts if isinstance(texts, pa.Array) else pa.concat_arrays(texts.chunks)
    sampled_texts = texts.to_pylist()
    long = pa.array(
        [" ".join(sampled_texts[at : at + 10]) for at in range(0, len(sampled_texts), 10)],
        pa.large_string(),
    )
    foreign = pa.array(
        [value.translate(ACCENTS) for value in sampled_texts[:5000]], pa.large_string()
    )
    sketcher = Sketcher(Spec())
    for name, column in (
        ("1.5 kB ASCII", texts),
        ("15 kB ASCII", long),
        ("1.5 kB non-ASCII", foreign),
    ):

        def sketch(column: pa.Array = column) -> None:
            for at in range(0, len(column), SLICE_DOCUMENTS):
                sketcher.sketch(column.slice(at, SLICE_DOCUMENTS))

        sketch()
        size = column.nbytes / 1e6
        rates = [size / seconds for seconds in time_runs(sketch, runs)]
        yield BenchResult.from_runs(f"text to signatures, {name}", "MB/s", rates)


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
