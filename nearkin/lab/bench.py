"""The benchmark that `nearkin bench` runs on a user's machine: rates of the hot path and of whole runs, medians of several."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, NamedTuple

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import RunError
from nearkin.lab.synth import SynthSettings, synth
from nearkin.sketch.sketcher import Sketcher
from nearkin.spec import Spec

SLICE = 2000
ACCENTS = str.maketrans({"a": "ä", "e": "é", "o": "о"})


@dataclass(frozen=True)
class Measured:
    """One figure: the median of some runs."""

    name: str
    value: float
    unit: str
    runs: tuple[float, ...]

    @classmethod
    def of(cls, name: str, unit: str, runs: list[float]) -> "Measured":
        """The median of the runs."""
        return cls(name, statistics.median(runs), unit, tuple(runs))


def machine() -> dict[str, Any]:
    """What a figure depends on."""
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "pyarrow": pa.__version__,
        "numpy": np.__version__,
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def seconds_of(work: Callable[[], Any], runs: int) -> list[float]:
    """Wall-clock seconds of each run."""
    out = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        out.append(time.perf_counter() - began)
    return out


def text_rates(runs: int = 5) -> Iterator[Measured]:
    """Text to signatures in one thread, MB/s: 1.5 kB and 15 kB ASCII documents, and 1.5 kB of accented and Cyrillic text."""
    with TemporaryDirectory(prefix="nearkin-bench-") as folder:
        path = Path(folder) / "synth"
        synth(path, SynthSettings(documents=20_000, length="fixed:1500", clustered=0.0))
        texts = pq.read_table(path / "documents")["text"].combine_chunks()
    texts = texts if isinstance(texts, pa.Array) else pa.concat_arrays(texts.chunks)
    values = texts.to_pylist()
    long = pa.array(
        [" ".join(values[at : at + 10]) for at in range(0, len(values), 10)], pa.large_string()
    )
    foreign = pa.array([value.translate(ACCENTS) for value in values[:5000]], pa.large_string())
    sketcher = Sketcher(Spec())
    for name, column in (
        ("1.5 kB ASCII", texts),
        ("15 kB ASCII", long),
        ("1.5 kB non-ASCII", foreign),
    ):

        def sketch(column: pa.Array = column) -> None:
            for at in range(0, len(column), SLICE):
                sketcher.sketch(column.slice(at, SLICE))

        sketch()
        size = column.nbytes / 1e6
        rates = [size / seconds for seconds in seconds_of(sketch, runs)]
        yield Measured.of(f"text to signatures, {name}", "MB/s", rates)


class Process(NamedTuple):
    """What a process took."""

    seconds: float
    cpu: float
    memory: int
    """Largest resident set, bytes."""


def measured_process(line: Sequence[str], environment: Mapping[str, str] | None = None) -> Process:
    """Runs a command to its end and measures it as a whole.

    Raises:
        RunError: If it fails.
    """
    began = time.perf_counter()
    with TemporaryFile() as shown:
        running = subprocess.Popen(
            line,
            stdout=subprocess.DEVNULL,
            stderr=shown,
            env=None if environment is None else dict(environment),
        )
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if running.returncode:
            shown.seek(0)
            raise RunError(
                f"{' '.join(line)} failed: {shown.read().decode(errors='replace')[-2000:]}"
            )
    scale = 1 if sys.platform == "darwin" else 1024
    return Process(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale)


def nearkin_process(*arguments: object, environment: Mapping[str, str] | None = None) -> Process:
    """A `nearkin` command as a process of its own."""
    return measured_process([sys.executable, "-m", "nearkin", *map(str, arguments)], environment)


def whole_runs(documents: int = 100_000, runs: int = 3) -> Iterator[Measured]:
    """`nearkin pairs` and `nearkin dedup` as whole processes on a synthetic corpus: wall-clock seconds, memory."""
    with TemporaryDirectory(prefix="nearkin-bench-") as folder:
        corpus = Path(folder) / "synth"
        synth(corpus, SynthSettings(documents=documents, length="lognormal:1500:0.3"))
        yield from run_commands(corpus / "documents", Path(folder), documents, runs)


COMMANDS: dict[str, tuple[str, ...]] = {
    "nearkin pairs": ("pairs",),
    "nearkin pairs --threshold 0.5 --bands 42 --rows 3": (
        "pairs",
        "--threshold",
        "0.5",
        "--bands",
        "42",
        "--rows",
        "3",
    ),
    "nearkin dedup": ("dedup",),
}


def run_commands(inputs: Path, folder: Path, documents: int, runs: int) -> Iterator[Measured]:
    """Each command once to warm up, then measured."""
    for name, (command, *options) in COMMANDS.items():
        line = (command, inputs, *options, "--out", folder / f"{command}.out", "--overwrite")
        nearkin_process(*line)
        done = [nearkin_process(*line) for _ in range(runs)]
        about = f"{name}, {documents:,} documents of 1.5 kB"
        yield Measured.of(about, "s", [one.seconds for one in done])
        yield Measured.of(f"{about}: memory", "GB", [one.memory / 1e9 for one in done])


def as_dict(measured: list[Measured]) -> dict[str, Any]:
    """JSON-able, with the machine."""
    return {"machine": machine(), "figures": [asdict(one) for one in measured]}
