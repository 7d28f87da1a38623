"""Measures runs by each executor, at growing sizes, and beside what the plan predicts.

python -m benchmarks.scaling                        quick sizes, to the terminal
python -m benchmarks.scaling --full --write growth  full size of a table, with the record and pages

Whole processes run with two workers. Their CPU time and memory are those of the process tree, and
their disk is the largest size of the output with its work folder; both are sampled.
"""

import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from benchmarks.pages import ROOT
from benchmarks.tables import Table
from benchmarks.tables import main as run_tables
from nearkin.quality.lab.measurements import NEARKIN
from nearkin.quality.lab.synth import SynthSettings, synth

PAGES = (
    ROOT / "docs" / "how-to" / "scale-out.md",
    ROOT / "docs" / "contributing" / "performance.md",
)
RECORD = Path(__file__).with_name("scaling.json")
INTERVAL = 0.2
"""Seconds between two samples of CPU time and memory."""
DISK_INTERVAL = 2.0
"""Seconds between two samples of the disk, because each reads the sizes of all files."""
FEW = 100
"""The number of documents of a run that is mostly start."""
FILES = 8
EXECUTORS = {
    "threads": ("--workers", "2"),
    "processes": ("--executor", "processes", "--workers", "2"),
    "ray": ("--executor", "ray"),
    "spark": ("--executor", "spark", "--master", "local[2]"),
}
"""The options of each executor that starts its own workers."""
DATA_FRAME = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from nearkin import spark as nks
from nearkin.spark.session import open_session

spark = open_session("local[2]", {})
frame = spark.read.parquet(sys.argv[1]).select("*")
with nks.dedup(frame, id="id") as result:
    result.kept.write.mode("overwrite").parquet(sys.argv[2])
"""
"""A program whose DataFrame is not a scan of files, so that its rows are written."""


class Usage(NamedTuple):
    """The resources that processes and their descendants used."""

    wall: float
    """Wall seconds."""
    cpu: float
    """Processor seconds."""
    memory: float
    """The largest resident memory in bytes."""
    disk: float
    """The largest size of the folder of outputs in bytes."""


@contextmanager
def made_corpus(documents: int, length: str) -> Iterator[Path]:
    """Provides a folder with a synthetic corpus, `documents`, and with room for outputs, `runs`."""
    with tempfile.TemporaryDirectory(prefix="nearkin-scaling-") as name:
        made = Path(name, "corpus")
        synth(made, SynthSettings(documents=documents, length=length, files=FILES, seed=1))
        Path(name, "runs").mkdir()
        (made / "documents").rename(Path(name, "documents"))
        yield Path(name)


def dedup(folder: Path, *options: str) -> list[str]:
    """Returns the command line of a run over the corpus of a folder."""
    inputs, out = str(folder / "documents"), str(folder / "runs" / "out")
    return [*NEARKIN, "dedup", inputs, "--id", "id", "--quiet", "--out", out, *options]


def measure(folder: Path, *lines: Sequence[str]) -> Usage:
    """Runs commands at the same time, and measures the resources of their process trees."""
    runs = folder / "runs"
    shutil.rmtree(runs)
    runs.mkdir()
    began = time.perf_counter()
    running = [
        psutil.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for line in lines
    ]
    cpu: dict[int, float] = {}
    memory = disk = 0.0
    next_disk = began
    while any(process.poll() is None for process in running):
        memory = max(memory, _sample(running, cpu))
        if time.perf_counter() >= next_disk:
            disk = max(disk, _size_of(runs))
            next_disk = time.perf_counter() + DISK_INTERVAL
        time.sleep(INTERVAL)
    wall = time.perf_counter() - began
    for line, process in zip(lines, running, strict=True):
        if process.returncode:
            raise SystemExit(f"{' '.join(line)} failed")
    return Usage(wall, sum(cpu.values()), memory, max(disk, _size_of(runs)))


def _sample(running: Iterable[psutil.Process], cpu: dict[int, float]) -> float:
    """Updates the CPU seconds of each process, and returns the resident memory of all."""
    resident = 0.0
    for root in running:
        try:
            for process in (root, *root.children(recursive=True)):
                times = process.cpu_times()
                cpu[process.pid] = times.user + times.system
                resident += process.memory_info().rss
        except psutil.Error:
            # a process of the tree ended
            continue
    return resident


def _size_of(folder: Path) -> float:
    """Returns the disk space that the files of a folder take, without those that vanish."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return size


def executors(full: bool) -> Table:
    """Measures a run by each executor, and one over a DataFrame of Spark."""
    documents, length = (400_000, "fixed:1500") if full else (20_000, "fixed:1500")
    rows: list[tuple[str, ...]] = []
    with made_corpus(documents, length) as folder:
        out = str(folder / "runs" / "out")
        lines = {name: dedup(folder, *options) for name, options in EXECUTORS.items()}
        lines["a computed DataFrame, its kept rows written again"] = [
            *(sys.executable, "-c", DATA_FRAME, str(folder / "documents"), out)
        ]
        for name, line in lines.items():
            used = measure(folder, line)
            rows.append((name, f"{used.wall:.1f}", f"{used.cpu:.1f}", f"{used.memory / 1e9:.2f}"))
    note = f"{documents:,} documents ({length}), whole processes with two workers."
    return Table("executors", note, ("run", "wall s", "CPU s", "memory GB"), rows)


def growth(full: bool) -> Table:
    """Measures runs of two sizes, from which the exponent of the CPU time follows."""
    sizes = (1_000_000, 10_000_000) if full else (20_000, 100_000)
    length = "fixed:300"
    names = [name for name in EXECUTORS if name != "ray" or not full]
    used: dict[tuple[str, int], Usage] = {}
    for size in (FEW, *sizes):
        with made_corpus(size, length) as folder:
            for name in names:
                used[name, size] = measure(folder, dedup(folder, *EXECUTORS[name]))
    rows = []
    for name in names:
        start = used[name, FEW].cpu
        few, many = (used[name, size] for size in sizes)
        exponent = math.log((many.cpu - start) / (few.cpu - start), sizes[1] / sizes[0])
        disks = [f"{usage.disk / size:.0f}" for usage, size in zip((few, many), sizes, strict=True)]
        seconds = (f"{value:.1f}" for value in (start, few.cpu, many.cpu, many.wall))
        rows.append((name, *seconds, f"{exponent:.2f}", *disks))
    columns = (
        "executor",
        "start, CPU s",
        *(f"{size:,}, CPU s" for size in sizes),
        f"{sizes[1]:,}, wall s",
        "exponent without the start",
        *(f"{size:,}, disk B a document" for size in sizes),
    )
    return Table("growth", "Documents of 300 B, `--executor` with two workers.", columns, rows)


def jobs(full: bool) -> Table:
    """Measures a run by jobs with one worker and with two, each on a core of its own."""
    documents, length = (1_000_000, "fixed:1500") if full else (20_000, "fixed:1500")
    rows: list[tuple[str, ...]] = []
    with made_corpus(documents, length) as folder:
        out = folder / "runs" / "out.partial"
        walls = []
        for count in (1, 2):
            driver = dedup(folder, "--executor", "jobs", "--jobs", str(count))
            workers = [
                ["taskset", "--cpu-list", str(core), *NEARKIN, "work", str(out), "--quiet"]
                for core in range(count)
            ]
            used = measure(folder, ["taskset", "--cpu-list", "0", *driver], *workers)
            walls.append(used.wall)
            efficiency = walls[0] / (count * used.wall)
            rows.append((str(count), f"{used.wall:.1f}", f"{used.cpu:.1f}", f"{efficiency:.2f}"))
    note = f"{documents:,} documents ({length}); the driver shares the first core."
    return Table("jobs", note, ("workers", "wall s", "CPU s", "efficiency"), rows)


class PlannedLine(msgspec.Struct):
    """A line of `nearkin plan --json`."""

    part: str
    name: str
    value: float


class PlannedRun(msgspec.Struct):
    """A plan of `nearkin plan --json`."""

    lines: list[PlannedLine]

    def value(self, name: str) -> float:
        """Returns the value of a line about the engine."""
        return next(line.value for line in self.lines if (line.part, line.name) == ("local", name))


def largest(full: bool) -> Table:
    """Measures a run over as many documents as the disk takes, beside its plan."""
    documents = 50_000_000 if full else 100_000
    with made_corpus(documents, "fixed:200") as folder:
        asked = [*NEARKIN, "plan", str(folder / "documents"), "--memory", "4GB", "--json"]
        answer = subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout
        planned = msgspec.json.decode(answer, type=PlannedRun)
        used = measure(folder, dedup(folder, "--memory", "4GB"))
    rows = []
    for name, unit, scale, line, value in (
        ("wall", "s", 1.0, "seconds", used.wall),
        ("disk at the peak", "GB", 1e9, "disk at the peak", used.disk),
        ("memory", "GB", 1e9, "memory", used.memory),
    ):
        predicted = planned.value(line)
        shown = (f"{amount / scale:.1f}" for amount in (predicted, value))
        rows.append((f"{name}, {unit}", *shown, f"{value / predicted:.2f}"))
    note = f"{documents:,} documents of 200 B, `--memory 4GB`, two workers."
    return Table("largest", note, ("what", "planned", "measured", "ratio"), rows)


def main() -> None:
    """Measures the tables that are asked for."""
    run_tables(__doc__, (executors, growth, jobs, largest), RECORD, *PAGES)


if __name__ == "__main__":
    main()
