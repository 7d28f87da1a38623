"""Measures the figures of docs/contributing/benchmarks.md.

python -m benchmarks.run                     quick sizes, to the terminal
python -m benchmarks.run --full --write      full sizes; writes figures.json, the README's figure
                                             and docs/contributing/benchmarks.md
python -m benchmarks.run --baseline          quick sizes; writes benchmarks/baseline.json
python -m benchmarks.run --compare FILE      quick sizes beside a stored baseline; ends with 1 if a
                                             figure is slower by more than a half
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import write_pages
from benchmarks.whole_runs import (
    BenchResult,
    measure_commands,
    measure_low_similarities,
    measure_texts,
)
from nearkin.quality.lab.measurements import (
    describe_machine,
    run_nearkin,
    run_process,
    time_runs,
)
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.settings.spec import Spec
from nearkin.stages.shingle import Shingler
from nearkin.stages.verify.jaccard import SetBuilder

HERE = Path(__file__).parent
MAX_SLOWDOWN = 1.5
CHECKED_PAIRS = 2000
"""The number of reported pairs whose similarity is recomputed with Python sets."""


def whole_runs(folder: Path, full: bool, runs: int) -> Iterator[BenchResult]:
    """Measures whole runs over large files.

    Args:
        folder: Folder for the corpus and the outputs.
        full: Whether to measure the full sizes.
        runs: Number of runs of what is timed.
    """
    documents = 400_000 if full else 50_000
    synth(folder / "large", SynthSettings(documents=documents, length="lognormal:1500:0.3"))
    yield from measure_commands(folder / "large/documents", folder, documents, runs)
    yield from measure_low_similarities(folder, 50_000 if full else 10_000, runs)


def scaling(folder: Path, full: bool, runs: int) -> Iterator[BenchResult]:
    """Measures the time per document at two sizes, and the peak memory under a limit.

    Args:
        folder: Folder for the corpus and the outputs.
        full: Whether to measure the full sizes.
        runs: Number of runs of what is timed.
    """
    sizes = (1_000_000, 10_000_000) if full else (100_000, 400_000)
    for documents in sizes:
        corpus = folder / f"short-{documents}"
        settings = SynthSettings(documents=documents, length="fixed:200", files=4)
        made = time_runs(partial(synth, corpus, settings), 1)
        yield BenchResult.from_runs(
            f"nearkin lab synth, {documents:,} documents of 200 B", "s", made
        )
        seconds, memory = [], []
        for _ in range(runs if documents == sizes[0] else 1):
            out = folder / "short-out"
            done = run_nearkin(
                "dedup", corpus / "documents", "--memory", "4GB", "--out", out, "--overwrite"
            )
            seconds.append(done.seconds / documents * 1e6)
            memory.append(json.loads((out / "run.json").read_bytes())["peak_memory"] / 1e9)
        yield BenchResult.from_runs(
            f"nearkin dedup --memory 4GB, {documents:,} documents of 200 B, each", "µs", seconds
        )
        yield BenchResult.from_runs(
            f"nearkin dedup --memory 4GB, {documents:,} documents of 200 B: anonymous memory",
            "GB",
            memory,
        )


def truth(folder: Path, full: bool, runs: int) -> Iterator[BenchResult]:
    """Measures the recall of planted pairs, and the precision of pairs and removed documents.

    Args:
        folder: Folder for the corpus and the outputs.
        full: Whether to measure the full sizes.
        runs: Number of runs of what is timed.
    """
    documents = 100_000 if full else 20_000
    corpus, out = folder / "truth", folder / "truth-out"
    synth(
        corpus,
        SynthSettings(documents=documents, length="lognormal:1500:0.5", similarity=(0.7, 0.95)),
    )
    run_nearkin(
        "pairs",
        corpus / "documents",
        "--id",
        "id",
        "--expand-exact",
        "--out",
        folder / "truth.parquet",
        "--overwrite",
    )
    reported = pq.read_table(folder / "truth.parquet").to_pandas()
    planted = pq.read_table(corpus / "truth.parquet").to_pandas()
    planted = planted[planted.similarity >= 0.8]
    hits = planted.merge(reported, on=["id_a", "id_b"])
    yield BenchResult.from_runs(
        f"recall of planted pairs at 0.8 and above, {documents:,} documents",
        "",
        [len(hits) / len(planted)],
    )
    run_nearkin("dedup", corpus / "documents", "--id", "id", "--out", out, "--overwrite")
    clusters = pq.read_table(out / "clusters.parquet").to_pandas()
    removed = clusters[~clusters.kept]
    sample = reported.sample(min(CHECKED_PAIRS, len(reported)), random_state=1)
    sets = exact_sets(
        corpus / "documents", {*removed.id, *removed.cluster, *sample.id_a, *sample.id_b}
    )
    right = [
        similarity(sets[a], sets[b]) == s >= 0.8
        for a, b, s in zip(sample.id_a, sample.id_b, sample.similarity, strict=True)
    ]
    yield BenchResult.from_runs(
        f"precision of reported pairs, {len(sample):,} recomputed", "", [float(np.mean(right))]
    )
    kept = [
        similarity(sets[a], sets[b]) >= 0.8
        for a, b in zip(removed.id, removed.cluster, strict=True)
    ]
    yield BenchResult.from_runs(
        f"removed documents similar enough to the one kept, {len(removed):,} recomputed",
        "",
        [float(np.mean(kept))],
    )


def exact_sets(documents: Path, ids: set[str]) -> dict[str, frozenset[int]]:
    """Returns the shingle sets of some documents as Python sets, by id."""
    table = pq.read_table(documents)
    rows = [row for row, name in enumerate(table["id"].to_pylist()) if name in ids]
    some = table.take(rows)
    sets = SetBuilder(Shingler(Spec())).build(
        pa.concat_arrays(some["text"].cast(pa.large_string()).chunks)
    )
    ends = np.cumsum(sets.sizes)[:-1]
    return dict(
        zip(
            some["id"].to_pylist(),
            map(frozenset, map(np.ndarray.tolist, np.split(sets.hashes, ends))),
            strict=True,
        )
    )


def similarity(a: frozenset[int], b: frozenset[int]) -> float:
    """Returns the Jaccard similarity of two sets."""
    return len(a & b) / len(a | b)


def starting(folder: Path, full: bool, runs: int) -> Iterator[BenchResult]:
    """Measures the import, a small run with a warm cache, and the first run with an empty one.

    Args:
        folder: Folder for the corpus and the outputs.
        full: Whether to measure the full sizes.
        runs: Number of runs of what is timed.
    """
    few = folder / "few"
    synth(few, SynthSettings(documents=100))
    warm = ["dedup", few / "documents", "--out", folder / "few-out", "--overwrite"]
    run_nearkin(*warm)
    imports = [
        run_process([sys.executable, "-c", "import nearkin"]).seconds for _ in range(runs + 2)
    ]
    bare = [run_process([sys.executable, "-c", "pass"]).seconds for _ in range(runs + 2)]
    yield BenchResult.from_runs(
        "import nearkin, over a bare Python",
        "s",
        [max(a - b, 0.0) for a, b in zip(imports, bare, strict=True)],
    )
    yield BenchResult.from_runs(
        "nearkin --help", "s", [run_nearkin("--help").seconds for _ in range(runs)]
    )
    pairs = ["pairs", few / "documents", "--out", folder / "few.parquet", "--overwrite"]
    run_nearkin(*pairs)
    yield BenchResult.from_runs(
        "nearkin pairs, 100 documents, warm: CPU time",
        "s",
        [run_nearkin(*pairs).cpu for _ in range(runs + 2)],
    )
    yield BenchResult.from_runs(
        "nearkin dedup, 100 documents, warm", "s", [run_nearkin(*warm).seconds for _ in range(runs)]
    )
    with tempfile.TemporaryDirectory() as empty:
        cold = run_nearkin(*warm, environment={**os.environ, "NEARKIN_CACHE_DIR": empty})
    yield BenchResult.from_runs(
        "nearkin dedup, 100 documents, empty JIT cache", "s", [cold.seconds]
    )


def measure(full: bool, runs: int) -> list[BenchResult]:
    """Measures and prints every figure."""
    measured = []
    with tempfile.TemporaryDirectory(prefix="nearkin-benchmarks-") as folder:
        parts = (
            measure_texts(runs),
            *(part(Path(folder), full, runs) for part in (whole_runs, scaling, truth, starting)),
        )
        for part in parts:
            for one in part:
                print(f"{one.name:90} {one.value:10.3f} {one.unit}", flush=True)
                measured.append(one)
    return measured


def compare(measured: list[BenchResult], baseline: Path) -> int:
    """Compares results with a baseline. Returns 1 if one of them is much slower.

    Args:
        measured: Results.
        baseline: JSON file of the results to compare with.
    """
    before = {entry["name"]: entry for entry in json.loads(baseline.read_text("utf-8"))["figures"]}
    worst = 1.0
    for one in measured:
        if one.name in before and one.unit in ("MB/s", "s", "µs"):
            ratio = one.value / before[one.name]["value"]
            slower = 1 / ratio if one.unit == "MB/s" else ratio
            worst = max(worst, slower)
            print(f"{one.name:90} {slower:6.2f} times the baseline's time")
    return int(worst > MAX_SLOWDOWN)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    measured = measure(options.full, options.runs)
    record = {"machine": describe_machine(), "figures": [asdict(one) for one in measured]}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    if options.baseline:
        (HERE / "baseline.json").write_text(text, "utf-8")
    if options.write:
        (HERE / "figures.json").write_text(text, "utf-8")
        write_pages()
    return compare(measured, options.compare) if options.compare else 0


if __name__ == "__main__":
    sys.exit(main())
