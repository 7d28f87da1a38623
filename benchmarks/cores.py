"""Measures what a second worker gains, beside what the machine gives to two separate processes.

python -m benchmarks.cores                 a quick size, to the terminal
python -m benchmarks.cores --full --write  full sizes; writes cores.json and the page on performance
python -m benchmarks.cores --model         what the recorded tasks of a run take with more workers

Each round runs a command with one worker, with two, and two processes with one worker each at the
same time. Whoever has few cores can tell from this how a command grows with cores. Where other
work keeps the machine busy, the processor seconds of the main thread are the better measure: what
it does with two workers is not shared by them.
"""

import argparse
import heapq
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from benchmarks.pages import ROOT, describe, replace_block, table_lines
from benchmarks.recorded_run import RecordedRun
from nearkin.quality.lab.measurements import describe_machine, run_process
from nearkin.quality.lab.synth import SynthSettings, synth

PAGE = ROOT / "docs" / "contributing" / "performance.md"
RECORD = Path(__file__).with_name("cores.json")
ROUNDS = 3
COMMANDS = {"pairs": "pairs.parquet", "dedup": "dedup"}
"""The name of the output of each command."""
QUICK = {20_000: "fixed:300"}
FULL = {1_000_000: "lognormal:300:0.3", 400_000: "lognormal:1500:0.3"}
"""The length of a document, by the number of documents."""
LARGEST = 400_000
"""The number of documents of the run that is extrapolated."""
TIMES = 20
"""How many times as many documents the extrapolated run has."""
PART = 4
"""How many times as many documents a recorded run has as the one that it is compared with."""
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 192)
FEW = 100
"""The number of documents of a run that is mostly start-up."""
CODE = """
import sys, time
sys.dont_write_bytecode = False
from nearkin.cli.app import main
seconds = sys.argv.pop(1)
try:
    main()
finally:
    open(seconds, "w").write(str(time.thread_time()))
"""
"""A program that does what `nearkin` does, and writes the processor seconds of its main thread.

Images of Python often forbid it to keep compiled modules, and then every run compiles all of them.
"""


class CoreFigure(TypedDict):
    """The medians of a command over one corpus."""

    command: str
    corpus: str
    one: float
    """Wall seconds with one worker."""
    two: float
    """Wall seconds with two workers."""
    both: float
    """Wall seconds of two processes with one worker each at the same time."""
    cpu: float
    """Processor seconds with one worker."""
    main: float
    """Processor seconds of the main thread with two workers, without the start of a process."""
    start: float
    """Processor seconds of a run over a few documents."""
    rounds: int
    load: float
    """The largest load average of the machine while it was measured."""
    machine: dict[str, Any]


class Usage(NamedTuple):
    """The resources that a run used."""

    seconds: float
    cpu: float
    main: float


def run_command(command: str, inputs: Path, folder: Path, workers: int) -> Usage:
    """Runs a command as a process."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    line = [command, inputs, "--workers", workers, "--out", folder / COMMANDS[command]]
    seen = folder / "main-thread"
    used = run_process([sys.executable, "-c", CODE, str(seen), *map(str, line)])
    return Usage(used.seconds, used.cpu, float(seen.read_text()))


def measure(command: str, inputs: Path, few: Path, corpus: str, rounds: int) -> CoreFigure:
    """Returns the medians of a command over a corpus, after one run to warm up."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folders = [Path(name, "a"), Path(name, "b")]
        run_command(command, inputs, folders[0], 2)
        one: list[Usage] = []
        two: list[Usage] = []
        both: list[float] = []
        starts: list[Usage] = []
        loads: list[float] = []
        for _ in range(rounds):
            starts.append(run_command(command, few, folders[0], 2))
            one.append(run_command(command, inputs, folders[0], 1))
            two.append(run_command(command, inputs, folders[0], 2))
            beside = [pool.submit(run_command, command, inputs, at, 1) for at in folders]
            both.append(max(future.result().seconds for future in beside))
            loads.append(os.getloadavg()[0])
    start = statistics.median(usage.main for usage in starts)
    return CoreFigure(
        command=command,
        corpus=corpus,
        one=statistics.median(usage.seconds for usage in one),
        two=statistics.median(usage.seconds for usage in two),
        both=statistics.median(both),
        cpu=statistics.median(usage.cpu for usage in one),
        main=statistics.median(usage.main for usage in two) - start,
        start=statistics.median(usage.cpu for usage in starts),
        rounds=rounds,
        load=max(loads),
        machine=describe_machine(),
    )


def summarize(figures: Sequence[CoreFigure]) -> str:
    """Returns the figures as a table."""
    rows = []
    for figure in figures:
        gain = figure["one"] / figure["two"]
        given = 2 * figure["one"] / figure["both"]
        share = (gain - 1) / (given - 1) if given > 1 else float("nan")
        work = figure["cpu"] - figure["start"]
        rows.append(
            (
                f"`{figure['command']}`, {figure['corpus']}",
                f"{figure['one']:.2f}",
                f"{figure['two']:.2f}",
                f"{gain:.2f}",
                f"{given:.2f}",
                f"{share:.2f}",
                f"{figure['cpu']:.2f}",
                f"{figure['main']:.2f}",
                f"{figure['main'] / work:.1%}",
                f"{figure['rounds']}",
                f"{figure['load']:.1f}",
            )
        )
    names = (
        "command and corpus",
        "1 worker, s",
        "2 workers, s",
        "gain",
        "two processes: the machine gives",
        "share of the possible gain",
        "CPU s, 1 worker",
        "CPU s of the main thread, without the start",
        "its share",
        "rounds",
        "load",
    )
    table = table_lines(names, rows)
    return f"{table}\n\n{describe(figures[0]['machine'])}" if figures else table


def record_run(command: str, inputs: Path, folder: Path) -> RecordedRun:
    """Runs a command with two workers, and returns its tasks."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    record = folder / "tasks.json"
    line = [command, inputs, "--workers", 2, "--out", folder / COMMANDS[command]]
    run_process([sys.executable, "-m", "benchmarks.recorded_run", str(record), *map(str, line)])
    recorded: RecordedRun = json.loads(record.read_bytes())
    return recorded


def time_alone(run: RecordedRun) -> float:
    """Returns the wall seconds in which no task was done."""
    return run["wall"] - sum(portion["wall"] for portion in run["portions"])


def predict(run: RecordedRun, serial: float, workers: int, times: int = 1) -> float:
    """Returns the wall seconds of a run with any number of workers.

    A free worker takes the next task. Each task takes the processor seconds that were recorded, so
    memory and disks are taken to be fast enough for all workers. What the main thread does beside
    tasks is a bound.

    Args:
        serial: Wall seconds in which no task is done.
        times: How many times as many documents the run has.
    """
    seconds = serial
    for portion in run["portions"]:
        free = [0.0] * workers
        for task in portion["tasks"] * times:
            heapq.heapreplace(free, free[0] + task)
        seconds += max(max(free), times * portion["main"])
    return seconds


def model(inputs: Path, part: Path, corpus: str, rounds: int) -> str:
    """Returns the measured and predicted seconds of each command over a corpus, as a table.

    Args:
        part: A corpus of a `PART`th of the documents, from which it follows how much of the time
            without tasks grows with the documents.
    """
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "a")
        for command in COMMANDS:
            runs = sorted(
                (record_run(command, inputs, folder) for _ in range(rounds)), key=time_alone
            )
            run = runs[rounds // 2]
            alone = time_alone(run)
            least = statistics.median(
                time_alone(record_run(command, part, folder)) for _ in range(rounds)
            )
            for workers in (1, 2):
                walls = [run_command(command, inputs, folder, workers) for _ in range(rounds)]
                measured = statistics.median(usage.seconds for usage in walls)
                predicted = predict(run, alone, workers)
                rows.append((command, corpus, workers, f"{measured:.2f}", f"{predicted:.2f}", ""))
            growth = max(0.0, alone - least) * PART / (PART - 1)
            serial = alone + (TIMES - 1) * growth
            one = predict(run, serial, 1, TIMES)
            for workers in WORKERS:
                predicted = predict(run, serial, workers, TIMES)
                gain = f"{one / predicted:.1f}"
                many = f"{TIMES} times as many"
                rows.append((command, many, workers, "", f"{predicted:.1f}", gain))
            share = f"{serial / one:.1%} of the time"
            rows.append((command, f"{many}, without tasks", "", "", f"{serial:.1f}", share))
    names = ("command", "documents", "workers", "measured, s", "predicted, s", "gain")
    return table_lines(names, [tuple(map(str, row)) for row in rows])


def main() -> None:
    """Measures all commands over all corpora."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="measure full sizes")
    parser.add_argument("--write", action="store_true", help="write the record and the page")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each kind")
    parser.add_argument("--model", action="store_true", help="predict from recorded tasks")
    given = parser.parse_args()
    figures: list[CoreFigure] = []
    with tempfile.TemporaryDirectory() as name:
        few = Path(name, "few")
        synth(few, SynthSettings(documents=FEW, length="fixed:300"))
        for documents, length in (FULL if given.full else QUICK).items():
            folder = Path(name, str(documents))
            synth(folder, SynthSettings(documents=documents, length=length))
            corpus = f"{documents:,} × {length.split(':')[1]} B"
            if given.model:
                part = Path(name, f"part of {documents}")
                synth(part, SynthSettings(documents=documents // PART, length=length))
                table = model(folder / "documents", part / "documents", corpus, given.rounds)
                print(f"{table}\n", flush=True)
                if given.write and length == FULL[LARGEST]:
                    replace_block(PAGE, "core-model", f"{table}\n\n{describe(describe_machine())}")
                continue
            for command in COMMANDS:
                inputs = folder / "documents"
                figure = measure(command, inputs, few / "documents", corpus, given.rounds)
                figures.append(figure)
                print(summarize([figure]), flush=True)
                if given.write:
                    RECORD.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
                    replace_block(PAGE, "cores", summarize(figures))


if __name__ == "__main__":
    main()
