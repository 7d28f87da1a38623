"""Measures nearkin passages on generated corpora with planted passages, for the page of passages.

python -m benchmarks.passages                  small corpora, once, to the terminal
python -m benchmarks.passages passages_table --full --write  400,000 documents, five runs each
python -m benchmarks.passages growth_table --full --write    1 GB and 10 GB of text, one run each

The largest corpus needs about 25 GB of disk. CPU seconds are those of whole processes. Recall is
the share of the words of planted passages that are in a reported passage.
"""

import json
import shutil
import statistics
import string
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tables import Table, main
from nearkin.quality.lab.measurements import run_nearkin
from nearkin.quality.lab.synth import SynthSettings, synth

HERE = Path(__file__).parent
RECORD = HERE / "passages.json"
PAGE = HERE.parent / "docs" / "explanation" / "passages.md"
LEAST = 50
PLANTED_SHARE = 0.02
"""The share of the documents that get a passage of another document."""
PLANTED_WORDS = (60, 200)


class PlantedPassage(NamedTuple):
    """A passage that was inserted into a document."""

    id: str
    start: int
    """The first byte in the text."""
    end: int
    """The byte after the last one."""


def plant_passages(folder: Path, documents: int, part: int = 0) -> list[PlantedPassage]:
    """Writes a part of a corpus in which some documents contain a passage of another one.

    Args:
        folder: Folder that gets the folder `corpus`.
        documents: Number of documents of the part.
        part: Number of the part, which decides its texts.

    Returns:
        The inserted passages.
    """
    settings = SynthSettings(documents=documents, length="fixed:1500", clustered=0.0, seed=1 + part)
    synth(folder / "synth", settings)
    table = pq.read_table(folder / "synth" / "documents")
    texts = table["text"].to_pylist()
    ids = [f"{part}-{id}" for id in table["id"].to_pylist()]
    shutil.rmtree(folder / "synth")
    rng = np.random.default_rng(7 + part)
    planted = []
    for target in rng.choice(documents, int(documents * PLANTED_SHARE), replace=False).tolist():
        words = texts[int(rng.integers(0, documents))].split()
        length = min(int(rng.integers(*PLANTED_WORDS)), len(words))
        first = int(rng.integers(0, len(words) - length + 1))
        passage = " ".join(words[first : first + length]).strip(string.punctuation)
        before, _, after = texts[target].partition(" ")
        texts[target] = f"{before} {passage} {after}"
        start = len(before.encode()) + 1
        planted.append(PlantedPassage(ids[target], start, start + len(passage.encode())))
    (folder / "corpus").mkdir(exist_ok=True)
    written = pa.table({"id": ids, "text": texts})
    pq.write_table(written, folder / "corpus" / f"part-{part:02}.parquet", compression="snappy")
    return planted


def measure_run(folder: Path) -> dict[str, float]:
    """Returns the CPU seconds of a run, its peak memory, its size and the repeated share."""
    out = folder / "out"
    options = ("--id", "id", "--min", LEAST, "--memory", "2GB", "--overwrite", "--quiet")
    usage = run_nearkin("passages", folder / "corpus", *options, "--out", out)
    facts = json.loads((out / "passages.json").read_bytes())
    return {
        "cpu_seconds": usage.cpu,
        "megabytes": facts["counts"]["text_bytes"] / 1e6,
        "peak_memory": facts["peak_memory"] / 1e9,
        "repeated": facts["counts"]["repeated_bytes"] / facts["counts"]["text_bytes"],
    }


def measure_recall(planted: list[PlantedPassage], out: Path) -> float:
    """Returns the share of the bytes of planted passages that are in a reported one."""
    spans: dict[str, list[tuple[int, int]]] = {}
    found = pq.read_table(out / "passages.parquet", columns=["id", "start", "end"])
    for row in found.to_pylist():
        spans.setdefault(row["id"], []).append((row["start"], row["end"]))
    total = covered = 0
    for passage in planted:
        reached = passage.start
        total += passage.end - passage.start
        for start, end in sorted(spans.get(passage.id, [])):
            first = max(start, reached)
            if first < min(end, passage.end):
                covered += min(end, passage.end) - first
                reached = min(end, passage.end)
    return covered / total


def passages_table(full: bool) -> Table:
    """Measures corpora of two sizes."""
    rows = []
    for documents in (100_000, 400_000) if full else (2_000, 20_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            planted = plant_passages(folder, documents)
            measure_run(folder)
            runs = [measure_run(folder) for _ in range(5 if full else 1)]
            recall = measure_recall(planted, folder / "out")
        seconds = statistics.median(run["cpu_seconds"] for run in runs)
        last = runs[-1]
        rows.append(
            (
                f"{documents:,}",
                f"{last['megabytes']:,.0f} MB",
                f"{seconds:.1f}",
                f"{last['megabytes'] / seconds:.0f}",
                f"{last['peak_memory']:.2f} GB",
                f"{last['repeated']:.1%}",
                f"{recall:.4f}",
            )
        )
    note = (
        f"Generated documents of 1.5 kB in Parquet, with planted passages of {PLANTED_WORDS[0]} to "
        f"{PLANTED_WORDS[1]} words, `--min {LEAST} --memory 2GB`. CPU seconds are those of the "
        "whole process."
    )
    columns = ("documents", "text", "CPU s", "MB per CPU s", "peak memory", "repeated", "recall")
    return Table("passages", note, columns, rows)


def growth_table(full: bool) -> Table:
    """Measures a corpus of one part, and one of several parts of the same size."""
    documents = 660_000 if full else 2_000
    rows = []
    first = 0.0
    for parts in (1, 10) if full else (1, 3):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            planted = [
                passage
                for part in range(parts)
                for passage in plant_passages(folder, documents, part)
            ]
            run = measure_run(folder)
            recall = measure_recall(planted, folder / "out")
        seconds = 1000 * run["cpu_seconds"] / run["megabytes"]
        first = first or seconds
        rows.append(
            (
                f"{run['megabytes']:,.0f} MB",
                f"{run['cpu_seconds']:.1f}",
                f"{seconds:.1f}",
                f"{seconds / first - 1:+.0%}",
                f"{run['peak_memory']:.2f} GB",
                f"{recall:.4f}",
            )
        )
    note = (
        "The same with more text, one run each, after a run that compiled the kernels. The growth "
        "is that of the CPU seconds per GB."
    )
    columns = ("text", "CPU s", "CPU s per GB", "growth", "peak memory", "recall")
    return Table("growth", note, columns, rows)


if __name__ == "__main__":
    main(__doc__, [passages_table, growth_table], RECORD, PAGE)
