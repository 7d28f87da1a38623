"""Measures what a second worker gains, beside what the machine gives to two separate processes.

python -m benchmarks.cores                 a quick size, to the terminal
python -m benchmarks.cores --full --write  full sizes; writes cores.json and the page on performance

Each round runs a command with one worker, with two, and two processes with one worker each at the
same time. Whoever has few cores can tell from this how a command grows with cores. Where other
work keeps the machine busy, the processor seconds of the main thread are the better measure: what
it does with two workers is not shared by them.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypedDict

from benchmarks.pages import ROOT, describe, replace_block, table_lines
from nearkin.quality.lab.measurements import MachineFacts, describe_machine, run_process
from nearkin.quality.lab.synth import SynthSettings, synth

PAGE = ROOT / "docs" / "explanation" / "performance.md"
RECORD = Path(__file__).with_name("cores.json")
ROUNDS = 3
COMMANDS = {"pairs": "pairs.parquet", "dedup": "dedup"}
"""The name of the output of each command."""
QUICK = {20_000: "fixed:300"}
FULL = {1_000_000: "lognormal:300:0.3", 400_000: "lognormal:1500:0.3"}
"""The length of a document, by the number of documents."""
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
    machine: MachineFacts


class Usage(NamedTuple):
    """The resources that a run used."""

    seconds: float
    cpu: float
    main: float


def run_command(command: str, inputs: Path, folder: Path, workers: int) -> Usage:
    """Runs a command as a process."""
    folder.mkdir(exist_ok=True)
    out = folder / COMMANDS[command]
    line = [command, inputs, "--workers", workers, "--out", out, "--overwrite"]
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


def main() -> None:
    """Measures all commands over all corpora."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="measure full sizes")
    parser.add_argument("--write", action="store_true", help="write the record and the page")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each kind")
    given = parser.parse_args()
    figures: list[CoreFigure] = []
    with tempfile.TemporaryDirectory() as name:
        few = Path(name, "few")
        synth(few, SynthSettings(documents=FEW, length="fixed:300"))
        for documents, length in (FULL if given.full else QUICK).items():
            folder = Path(name, str(documents))
            synth(folder, SynthSettings(documents=documents, length=length))
            corpus = f"{documents:,} × {length.split(':')[1]} B"
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
