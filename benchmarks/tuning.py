"""Compares plans with measured runs, and measures a frequency cut under a banner, for docs/how-to.

python -m benchmarks.tuning                 quick sizes, to the terminal
python -m benchmarks.tuning --full --write  full sizes; writes tuning.json and tables of docs/how-to
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.tables import Table, main
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.quality.plan.capacity import plan
from nearkin.quality.plan.workload import Workload

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGES = (DOCS / "how-to" / "plan-and-tune.md", DOCS / "contributing" / "measured-boilerplate.md")
BANNER = (
    "we and our partners store and read information on this device such as cookies to measure how "
    "pages are used and to show "
    "you advertisements that fit your interests you can accept all of them refuse all of them or "
    "choose one by one in the "
    "settings and change your mind whenever you like on the page about privacy at the bottom"
)


class WatchedRun(NamedTuple):
    """The time and the largest work folder of a run, and its run record."""

    seconds: float
    disk: int
    record: dict


def dedup(inputs: Path, out: Path, *options: str) -> WatchedRun:
    """Runs `nearkin dedup` as a process and measures its work folder meanwhile."""
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "dedup",
        str(inputs),
        "--id",
        "id",
        "--out",
        str(out),
        "--overwrite",
        *options,
    ]
    began = time.perf_counter()
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, size_of(out.with_name(out.name + ".partial")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        subprocess.run(line, check=True, capture_output=True)
    finally:
        done.set()
        watcher.join()
    return WatchedRun(
        time.perf_counter() - began, peak, json.loads((out / "run.json").read_bytes())
    )


def size_of(folder: Path) -> int:
    """Returns the size of the files in a folder. Files that are deleted meanwhile do not count."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(path) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def plans(full: bool) -> Table:
    """Compares the predicted memory, disk space and time with the measured ones."""
    corpora = [
        (300_000, "lognormal:500:0.5"),
        (150_000, "fixed:1500"),
        (20_000, "lognormal:12000:0.5"),
    ]
    scale, rows = 1 if full else 4, []
    for documents, length in corpora:
        with tempfile.TemporaryDirectory() as folder:
            corpus, out = Path(folder) / "synth", Path(folder) / "out"
            synth(corpus, SynthSettings(documents=documents // scale, length=length, seed=7))
            dedup(corpus / "documents", out)
            runs = [dedup(corpus / "documents", out) for _ in range(3)]
            record = runs[0].record
            sketch, counts = record["stages"]["sketch"], record["counts"]
            inputs = size_of(corpus / "documents")
        n = counts["read"]
        found = plan(
            Workload(
                n,
                shingles=round(sketch["shingles"] / n),
                text_bytes=sketch["text_bytes"] / n,
                input_bytes=inputs,
                duplicates=counts["removed"] / n,
                cores=record["workers"],
            )
        )
        memory = statistics.median(run.record["peak_memory"] for run in runs)
        disk = max(run.disk for run in runs)
        seconds = statistics.median(run.seconds for run in runs)
        row = [f"{n:,} × {length}"]
        pairs = (
            ("memory", memory, 1e6, "MB"),
            ("disk at the peak", disk, 1e6, "MB"),
            ("seconds", seconds, 1, "s"),
        )
        for name, measured, unit, label in pairs:
            predicted = found.value(name)
            row.append(
                f"{predicted / unit:,.4g} / {measured / unit:,.4g} {label} "
                f"({predicted / measured:.2f})"
            )
        rows.append(tuple(row))
    note = (
        "Predicted / measured (ratio), by `nearkin plan` and `nearkin dedup`, threshold 0.8; "
        "medians of 3 whole processes."
    )
    return Table("plans", note, ("corpus", "memory", "disk at the peak", "time"), rows)


FORMS = {
    "no banner": (),
    "every pair of a bucket": ("--hot-bucket-size", "10000000"),
    "default": (),
    "--max-df 0.1": ("--max-df", "0.1"),
}


def banner(full: bool) -> Table:
    """Measures a growing corpus with a common banner, with and without a frequency cut."""
    sizes = (5_000, 10_000, 20_000, 40_000) if full else (5_000, 10_000)
    rows, growth = [], {name: list[int]() for name in FORMS}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            plain, under, wanted = _corpora(Path(folder), n)
            for name, options in FORMS.items():
                out = Path(folder) / "out"
                run = dedup(
                    plain if name == "no banner" else under,
                    out,
                    "--bands",
                    "13",
                    "--rows",
                    "7",
                    *options,
                )
                clusters = pq.read_table(out / "clusters.parquet", columns=["id", "cluster"])
                cluster = dict(
                    zip(clusters["id"].to_pylist(), clusters["cluster"].to_pylist(), strict=True)
                )
                together = sum(cluster[a] == cluster[b] for a, b in wanted)
                candidates = run.record["stages"]["candidates"]["candidates"]
                growth[name].append(candidates)
                counts = (
                    f"{candidates:,}",
                    f"{candidates / n:,.1f}",
                    f"{together / len(wanted):.3f}",
                )
                rows.append(
                    (
                        f"{n:,}",
                        name,
                        *counts,
                        f"{run.record['counts']['removed_near']:,}",
                        f"{run.seconds:.1f} s",
                    )
                )
    powers = {
        name: np.polyfit(np.log(sizes), np.log(np.maximum(found, 1)), 1)[0]
        for name, found in growth.items()
    }
    note = (
        f"Documents of 250 bytes of their own text, 80 % of them behind one banner of "
        f"{len(BANNER.split())} words; a quarter "
        "are near-duplicates (similarity of their own text 0.8 to 1). 13 × 7, threshold 0.8. "
        "Candidates grow with the corpus "
        f"to the power of: {', '.join(f'{name} {power:.2f}' for name, power in powers.items())}."
    )
    columns = (
        "documents",
        "setting",
        "candidates",
        "a document",
        "planted pairs in one cluster",
        "removed as near",
        "time",
    )
    return Table("banner", note, columns, rows)


def _corpora(folder: Path, n: int) -> tuple[Path, Path, set[tuple[str, str]]]:
    """Writes a corpus with and without a banner, and returns the true pairs of its texts."""
    synth(
        folder / "synth",
        SynthSettings(documents=n, length="fixed:250", similarity=(0.8, 1.0), seed=3),
    )
    table = pq.read_table(folder / "synth" / "documents").select(["id", "text"])
    texts, under = (
        table["text"].cast(pa.string()),
        np.random.Generator(np.random.PCG64(5)).random(n) < 0.8,
    )
    covered = pc.if_else(pa.array(under), pc.binary_join_element_wise(BANNER, texts, " "), texts)
    pq.write_table(table.set_column(1, "text", covered), folder / "banner.parquet")
    truth = pq.read_table(folder / "synth" / "truth.parquet").to_pylist()
    wanted = {(row["id_a"], row["id_b"]) for row in truth if 0.8 <= row["similarity"] < 1}
    return folder / "synth" / "documents", folder / "banner.parquet", wanted


if __name__ == "__main__":
    main(__doc__, (plans, banner), HERE / "tuning.json", *PAGES)
