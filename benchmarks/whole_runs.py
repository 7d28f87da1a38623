"""The time, the memory and the candidates of whole runs over generated corpora."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from nearkin.errors import RunError
from nearkin.quality.lab.measurements import NEARKIN, BenchResult, run_nearkin
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
