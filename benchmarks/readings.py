"""Compares runs that keep shingle hashes with runs that read the inputs twice.

python -m benchmarks.readings                 a quick size, to the terminal
python -m benchmarks.readings --full --write  full sizes; writes readings.json and the page
python -m benchmarks.readings --full --write 400000
                                              one of these sizes; the other figures stay
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, TypedDict

import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.pages import READINGS, write_pages
from nearkin.quality.lab.measurements import describe_machine
from nearkin.quality.lab.synth import SynthSettings, synth

ROUNDS = 3
COMMAND = "from nearkin.cli.app import main; raise SystemExit(main())"
WITHOUT_HASHES = (
    "from nearkin.engine.kept_hashes import KeptHashes; "
    "KeptHashes.serves = classmethod(lambda cls, spec: False); "
)
MODES = {
    "hashes in memory": ("", "8GB"),
    "hashes in memory and in a file": ("", "1GB"),
    "texts read twice": (WITHOUT_HASHES, "8GB"),
}
"""The code that is run before the command, and the memory bound."""
LARGEST = 8_000_000
"""The number of documents that is measured with one mode only."""
MODES_OF_LARGEST = {"hashes in memory and in a file": ("", "2GB")}

QUICK = {20_000: "fixed:1500"}
FULL = {
    400_000: "fixed:1500",
    1_000_000: "lognormal:1500:0.5",
    LARGEST: "lognormal:1500:0.5",
}
"""The length of a document, by the number of documents."""


class ReadingFigure(TypedDict):
    """The medians of the runs of one mode over one corpus."""

    corpus: str
    mode: str
    memory: str
    """The memory bound."""
    text: int
    """The size of all texts, in bytes of UTF-8."""
    cpu: float
    """CPU seconds of the process and its children, user and system."""
    cpu_runs: list[float]
    peak_memory: float
    """Anonymous memory, in bytes."""
    machine: dict[str, object]
    """The machine, as `describe_machine` returns it."""


class MeasuredRun(NamedTuple):
    """The figures of one run."""

    cpu: float
    peak_memory: float


def run_pairs(corpus: Path, out: Path, before: str, memory: str) -> MeasuredRun:
    """Runs `nearkin pairs` as a process.

    Args:
        corpus: Folder of the documents.
        out: Output file, which is replaced.
        before: Python code that is executed before the command.
        memory: Memory bound.
    """
    line = [sys.executable, "-c", before + COMMAND, "pairs", str(corpus), "--out", str(out)]
    options = ["--memory", memory, "--overwrite", "--json", "--quiet"]
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run([*line, *options], check=True, capture_output=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary = json.loads(process.stdout)
    return MeasuredRun(
        cpu=ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime,
        peak_memory=summary["peak_memory"],
    )


def measure_text(folder: Path) -> int:
    """Returns the size of the texts in the Parquet files of a folder, in bytes.

    Args:
        folder: Folder of the files, whose texts are in the column `text`.
    """
    batches = ds.dataset(folder).to_batches(columns=["text"])
    return sum(pc.sum(pc.binary_length(batch["text"])).as_py() or 0 for batch in batches)


def measure_corpus(count: int, length: str) -> list[ReadingFigure]:
    """Measures the modes over a corpus, interleaved, after one run that warms the JIT cache.

    Args:
        count: Number of documents.
        length: Length of a document, as `nearkin lab synth` takes it.
    """
    modes = MODES_OF_LARGEST if count == LARGEST else MODES
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "pairs.parquet"
        settings = SynthSettings(documents=count, length=length, seed=1)
        synth(Path(folder) / "synth", settings)
        documents = Path(folder) / "synth" / "documents"
        text = measure_text(documents)
        run_pairs(documents, out, *modes["hashes in memory and in a file"])
        expected = out.read_bytes()
        runs: dict[str, list[MeasuredRun]] = {mode: [] for mode in modes}
        for _ in range(ROUNDS):
            for mode, (before, memory) in modes.items():
                runs[mode].append(run_pairs(documents, out, before, memory))
                if out.read_bytes() != expected:
                    raise SystemExit(f"the pairs of {count} documents with {mode} differ")
    return [
        ReadingFigure(
            corpus=f"{count:,} × {length}",
            mode=mode,
            memory=modes[mode][1],
            text=text,
            cpu=round(statistics.median(run.cpu for run in measured), 3),
            cpu_runs=[round(run.cpu, 3) for run in measured],
            peak_memory=statistics.median(run.peak_memory for run in measured),
            machine=describe_machine(),
        )
        for mode, measured in runs.items()
    ]


def main() -> None:
    """Runs the command line of this script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("sizes", nargs="*", type=int, help="Numbers of documents. All by default.")
    options = parser.parse_args()
    corpora = FULL if options.full else QUICK
    if unknown := set(options.sizes) - set(corpora):
        sizes = ", ".join(map(str, corpora))
        parser.error(f"{min(unknown)} is not one of the numbers of documents {sizes}")
    figures: list[ReadingFigure] = []
    for count in options.sizes or corpora:
        figures += measure_corpus(count, corpora[count])
    for figure in figures:
        print(figure)
    if options.write:
        measured = {figure["corpus"] for figure in figures}
        recorded = json.loads(READINGS.read_bytes())["figures"] if READINGS.exists() else []
        figures += [figure for figure in recorded if figure["corpus"] not in measured]
        READINGS.write_text(
            json.dumps({"figures": figures}, indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        write_pages()


if __name__ == "__main__":
    main()
