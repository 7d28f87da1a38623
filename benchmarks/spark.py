"""Measures runs over Spark beside threads: files, and a DataFrame.

python -m benchmarks.spark --documents 400000

Whole processes run over local[2]. CPU time and memory are those of the process tree, which consists
of the driver, of Java, and of the Python workers; they are sampled five times a second.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.tables import Table
from nearkin.quality.lab.synth import SynthSettings, synth

INTERVAL = 0.2
OPTIONS = ["--id", "id", "--overwrite", "--quiet"]
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


class TreeUsage(NamedTuple):
    """The resources that a process and its descendants used."""

    seconds: float
    cpu: float
    memory: float


def run_tree(line: list[str]) -> TreeUsage:
    """Runs a command and measures the resources of its process tree."""
    began = time.perf_counter()
    running = psutil.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cpu: dict[int, float] = {}
    memory = 0.0
    while running.poll() is None:
        resident = 0.0
        try:
            for process in (running, *running.children(recursive=True)):
                times = process.cpu_times()
                cpu[process.pid] = times.user + times.system
                resident += process.memory_info().rss
        except psutil.Error:
            # a process of the tree ended
            continue
        memory = max(memory, resident)
        time.sleep(INTERVAL)
    if running.returncode:
        raise SystemExit(f"{' '.join(line)} failed")
    return TreeUsage(time.perf_counter() - began, sum(cpu.values()), memory)


def measure(documents: int, length: str, folder: Path) -> Table:
    """Returns the table of the runs over a synthetic corpus."""
    settings = SynthSettings(
        documents=documents, length=length, similarity=(0.6, 1.0), files=8, seed=1
    )
    synth(folder / "corpus", settings)
    corpus = str(folder / "corpus" / "documents")
    out = str(folder / "out")
    command = [sys.executable, "-m", "nearkin", "dedup", corpus, *OPTIONS, "--out", out]
    lines = {
        "files, threads": command,
        "files, Spark": [*command, "--executor", "spark", "--master", "local[2]"],
        "a DataFrame": [sys.executable, "-c", DATA_FRAME, corpus, out],
    }
    rows = []
    for name, line in lines.items():
        usage = run_tree(line)
        memory = f"{usage.memory / 1e9:.2f}"
        rows.append((name, f"{usage.seconds:.1f}", f"{usage.cpu:.1f}", memory))
    note = f"{documents:,} documents ({length}), whole processes."
    return Table("spark", note, ("run", "wall s", "CPU s", "memory GB"), rows)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--length", default="fixed:1500", help="as for nearkin synth")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nearkin-spark-bench-") as folder:
        print(measure(asked.documents, asked.length, Path(folder)).markdown())


if __name__ == "__main__":
    main()
