"""Measures the CPU time of single stages: text to signatures by language, band keys and buckets.

python -m benchmarks.stages                 quick sizes, to the terminal
python -m benchmarks.stages --full --write  full sizes; writes stages.json and
docs/contributing/benchmarks.md
python -m benchmarks.stages --previous FILE  with a column of the figures of another record
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.languages import load_samples, make_texts
from benchmarks.pages import write_pages
from benchmarks.tables import Table
from nearkin.quality.lab.measurements import describe_machine
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.band_keys import slot_layout, write_band_keys
from nearkin.stages.lsh.buckets import find_buckets
from nearkin.stages.measures import BandingRequest
from nearkin.stages.measures.jaccard import Jaccard
from nearkin.stages.sketch.sketcher import Sketcher

RECORD = Path(__file__).parent / "stages.json"
RUNS = 5
TEXT_BYTES = 1500
SLICE_DOCUMENTS = 2000
CHUNK_DOCUMENTS = 1 << 16
"""The number of documents whose keys the engine computes at a time."""
NEAR_DUPLICATES = 0.25
"""The share of documents whose signatures agree with another one in most slots."""


def cpu_seconds(work: Callable[[], object]) -> list[float]:
    """Returns the CPU time of each of RUNS runs, after one run to warm up.

    Args:
        work: Function to measure.
    """
    work()
    seconds = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return seconds


def measure_languages(full: bool) -> Table:
    """Measures text to signatures in one thread, by language."""
    sketcher = Sketcher(Spec())
    rows = []
    for language in load_samples():
        texts = make_texts(language, 600, TEXT_BYTES)
        column = pa.array(texts * (10 if full else 2), pa.large_string())

        def sketch(column: pa.Array = column) -> None:
            for at in range(0, len(column), SLICE_DOCUMENTS):
                sketcher.sketch(column.slice(at, SLICE_DOCUMENTS))

        rates = [column.nbytes / 1e6 / seconds for seconds in cpu_seconds(sketch)]
        runs = ", ".join(f"{rate:.0f}" for rate in rates)
        rows.append((language, f"{statistics.median(rates):.0f}", runs))
    return Table(
        "text to signatures, by language",
        "MB of UTF-8 per CPU second, texts of 1.5 kB, one thread, by `nearkin.Sketcher`. The texts "
        "are generated: random walks over pairs of characters of short samples, with ideographs "
        "and Hangul syllables from national standards (`benchmarks/languages.py`). So letters, "
        "marks, punctuation and lengths of words have the frequencies of a language, and the words "
        "do not exist.",
        ("language", "median MB/s", "runs"),
        rows,
    )


def measure_candidates(full: bool) -> Table:
    """Measures the band keys and the buckets of random signatures with near-duplicates."""
    documents = 1_000_000 if full else 100_000
    rng = np.random.default_rng(1)
    signatures = rng.integers(0, 2**32, (documents, 128), np.uint32)
    copies = rng.permutation(documents)[: int(documents * NEAR_DUPLICATES)]
    signatures[copies] = signatures[rng.integers(0, documents, len(copies))]
    signatures[copies, :: rng.integers(5, 9)] += np.uint32(1)
    banding = Jaccard(Spec()).banding(BandingRequest(0.8, 0.95))
    layout = slot_layout(banding.rows)
    salts = np.zeros(documents, np.uint64)
    keys = np.empty((banding.bands, documents), np.uint64)
    active = np.ones(documents, bool)

    def build_keys() -> None:
        for first in range(0, documents, CHUNK_DOCUMENTS):
            rows = slice(first, first + CHUNK_DOCUMENTS)
            part = np.empty((banding.bands, len(signatures[rows])), np.uint64)
            write_band_keys(layout, signatures[rows], salts[rows], part)
            keys[:, rows] = part

    def build_buckets() -> None:
        for band_keys in keys:
            find_buckets(band_keys, active)

    megabytes = documents * TEXT_BYTES / 1e6
    rows = []
    for name, work in (("band keys", build_keys), ("buckets", build_buckets)):
        costs = [seconds * 1e3 / megabytes for seconds in cpu_seconds(work)]
        runs = ", ".join(f"{cost:.3f}" for cost in costs)
        rows.append((name, f"{statistics.median(costs):.3f}", runs))
    return Table(
        "band keys and buckets",
        f"CPU milliseconds per MB of text, for {documents:,} documents of 1.5 kB in "
        f"{banding.bands} bands of {banding.rows} rows. Signatures are random, and "
        f"{NEAR_DUPLICATES:.0%} of them are near-duplicates of another one.",
        ("stage", "median ms/MB", "runs"),
        rows,
    )


def add_previous(table: Table, record: Path) -> Table:
    """Returns a table with a column of the medians of another record.

    Args:
        table: Measured table.
        record: JSON file that this script wrote with another version of nearkin.
    """
    tables = {entry["name"]: entry for entry in json.loads(record.read_bytes())["tables"]}
    medians = {row[0]: row[1] for row in tables[table.name]["rows"]}
    columns = (table.columns[0], "before", *table.columns[1:])
    rows = [(row[0], medians.get(row[0], ""), *row[1:]) for row in table.rows]
    return table._replace(columns=columns, rows=rows)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--previous", type=Path)
    options = parser.parse_args()
    tables = []
    for measure in (measure_languages, measure_candidates):
        table = measure(options.full)
        if options.previous:
            table = add_previous(table, options.previous)
        tables.append(table)
        print(f"{table.name}\n{table.markdown()}", flush=True)
    if options.write:
        record = {"machine": describe_machine(), "tables": [table._asdict() for table in tables]}
        options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
        if options.out == RECORD:
            write_pages()


if __name__ == "__main__":
    main()
