"""The time, the memory and the candidates of whole runs over generated corpora."""

import json
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from nearkin.errors import RunError
from nearkin.quality.lab.calibration import draw_sketched_texts
from nearkin.quality.lab.measurements import NEARKIN, measure_sketching, run_nearkin
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.runtime.temporary_folder import TemporaryFolder

LOW_BANDING = ("--threshold", "0.5", "--bands", "42", "--rows", "3")
"""Options of a run with bands that also find pairs far below the threshold."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "nearkin pairs": ("pairs",),
    f"nearkin pairs {' '.join(LOW_BANDING)}": ("pairs", *LOW_BANDING),
    "nearkin dedup": ("dedup",),
}

OUTPUTS = {"pairs": "pairs.parquet", "dedup": "dedup"}
"""Names of the outputs of the commands: a file and a folder."""
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


def measure_texts(runs: int) -> Iterator[BenchResult]:
    """Yields the speed of sketching in one thread, in MB/s.

    The documents are ASCII texts of 1.5 kB and of 15 kB, and accented and Cyrillic texts of 1.5 kB.
    """
    texts = draw_sketched_texts()
    values = texts.to_pylist()
    joined = [" ".join(values[at : at + 10]) for at in range(0, len(values), 10)]
    foreign = [value.translate(ACCENTS) for value in values[:5000]]
    for name, column in (
        ("1.5 kB ASCII", texts),
        ("15 kB ASCII", pa.array(joined, pa.large_string())),
        ("1.5 kB non-ASCII", pa.array(foreign, pa.large_string())),
    ):
        rates = measure_sketching(column, runs)
        yield BenchResult.from_runs(f"text to signatures, {name}", "MB/s", rates)


def measure_commands(
    inputs: Path, folder: Path, documents: int, runs: int
) -> Iterator[BenchResult]:
    """Yields the time and memory of each command, after one run to warm up."""
    for name, (command, *options) in COMMANDS.items():
        line = (command, inputs, *options, "--out", folder / OUTPUTS[command], "--overwrite")
        run_nearkin(*line)
        usages = [run_nearkin(*line) for _ in range(runs)]
        title = f"{name}, {documents:,} documents of 1.5 kB"
        yield BenchResult.from_runs(title, "s", [usage.seconds for usage in usages])
        yield BenchResult.from_runs(
            f"{title}: memory", "GB", [usage.memory / 1e9 for usage in usages]
        )


def measure_low_similarities(folder: Path, documents: int, runs: int) -> Iterator[BenchResult]:
    """Yields the cost of 42 bands of 3 rows on texts that share boilerplate, and the candidates.

    Each document ends in one of twenty standard paragraphs, so that a twentieth of all pairs have
    low similarities. Without them, unrelated texts share nothing, and such bands cost little.
    """
    for share, description in ((0.0, "nothing in common"), (1.0, "shared paragraphs")):
        corpus = folder / f"boilerplate-{share:g}"
        settings = SynthSettings(
            documents=documents, length="lognormal:1500:0.3", boilerplate=share
        )
        synth(corpus, settings)
        inputs = corpus / "documents"
        line = ("pairs", inputs, *LOW_BANDING, "--out", folder / "low.parquet", "--overwrite")
        run_nearkin(*line)
        seconds = [run_nearkin(*line).seconds for _ in range(runs)]
        title = f"42 × 3 over {documents:,} documents with {description}"
        yield BenchResult.from_runs(title, "s", seconds)
        candidates = count_candidates(inputs, *LOW_BANDING)
        yield BenchResult.from_runs(f"{title}: candidates", "", [float(candidates)])


def count_candidates(inputs: Path, *options: str) -> int:
    """Returns the number of candidate pairs that `nearkin pairs` compares."""
    with TemporaryFolder() as folder:
        out = str(folder / "pairs.parquet")
        line = [*NEARKIN, "pairs", str(inputs), *options, "--out", out]
        process = subprocess.run([*line, "--json"], capture_output=True, text=True)
        if process.returncode:
            raise RunError(f"{' '.join(line)} failed: {process.stderr[-2000:]}")
        stages = json.loads(process.stdout)["stages"]
        return int(stages["candidates"]["candidates"])
