"""Measures reading and copying documents of each format, for docs/contributing/benchmarks.md.

python -m benchmarks.formats                 20,000 documents, to the terminal
python -m benchmarks.formats --full --write  400,000 documents; writes formats.json and the page
python -m benchmarks.formats --quick         300 documents, once, to see that it works

If NEARKIN_BASE names the folder of another version, its tasks run in between, and a second column
shows them. CPU seconds hold on a busy machine, wall times do not.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.pages import write_pages
from benchmarks.tables import Table
from nearkin.quality.lab.measurements import describe_machine

HERE = Path(__file__).parent
RECORD = HERE / "formats.json"
BASE = "NEARKIN_BASE"
"""The variable with the folder of another version, to be measured too."""
DEDUP = ("--id", "id", "--overwrite")
WORKLOADS = {
    "read JSON lines, 12 fields": ("read", "corpus.jsonl", ()),
    "read JSON lines, zstd": ("read", "corpus.jsonl.zst", ()),
    "read JSON lines, gzip": ("read", "corpus.jsonl.gz", ()),
    "read CSV, 12 columns": ("read", "corpus.csv", ()),
    "read Parquet, snappy, one row group": ("read", "corpus.parquet", ()),
    "dedup, Parquet with snappy": ("dedup", "corpus.parquet", ()),
    "dedup, jsonl.zst in and out": ("dedup", "corpus.jsonl.zst", ()),
}
NEW_WORKLOADS = {
    "dedup, Parquet, --codec none": ("dedup", "corpus.parquet", ("--codec", "none")),
    "dedup, Parquet, --output ids": ("dedup", "corpus.parquet", ("--output", "ids")),
}
"""Workloads with options that the other version may lack."""


@dataclass(frozen=True)
class Size:
    """The size of a measurement.

    Attributes:
        documents: Number of documents of about 1.5 kB.
        runs: Number of runs of each workload, of which the median counts.
    """

    documents: int
    runs: int


QUICK = Size(documents=300, runs=1)
USUAL = Size(documents=20_000, runs=2)
FULL = Size(documents=400_000, runs=5)
BLOCK = 2000
"""Number of documents that are written at a time, so that a large corpus fits into memory."""
COPIES = 15
"""One document in this many is a copy of an earlier one."""


class TextSource:
    """Random texts of about 1.5 kB, of which some are copies of earlier ones."""

    WORDS = 20_000
    LENGTH = 250

    def __init__(self) -> None:
        letters = random.Random(1)
        self._words = [
            "".join(letters.choices("etaoinshrdlucmfwypvbgkjqxz", k=letters.randrange(2, 10)))
            for _ in range(self.WORDS)
        ]
        # Without sums, each text would take the time of adding up the weights of all words.
        self._sums = list(accumulate(1 / (rank + 1) for rank in range(self.WORDS)))

    def text(self, number: int) -> str:
        """Returns the text of a document.

        Args:
            number: Number of the document, from 0.
        """
        while number and number % COPIES == 0:
            number //= 2
        choices = random.Random(number).choices(self._words, cum_weights=self._sums, k=self.LENGTH)
        return " ".join(choices)


def make_row(number: int, text: str) -> dict[str, object]:
    """Returns a document with 12 fields.

    Args:
        number: Number of the document, from 0.
        text: Its text.
    """
    values = random.Random(f"row {number}")
    return {
        "id": f"document-{number}",
        "url": f"example.org/{number}",
        "text": text,
        "date": "2024-01-02",
        "language": "en",
        "score": values.random(),
        "rank": number,
        "digest": f"{values.getrandbits(256):064x}",
        "length": len(text),
        "source": "crawl",
        "title": text[:40],
        "checked": True,
    }


def make_corpus(folder: Path, documents: int) -> float:
    """Writes one corpus in each format. The Parquet file has a single row group.

    Args:
        folder: The folder of the files.
        documents: Number of documents.

    Returns:
        The size of the texts, in megabytes.
    """
    source = TextSource()
    schema = pa.Table.from_pylist([make_row(0, source.text(0))]).schema
    characters = 0
    with ExitStack() as stack:
        lines = [
            stack.enter_context(open_stream(folder / f"corpus.jsonl{suffix}", codec))
            for suffix, codec in (("", None), (".zst", "zstd"), (".gz", "gzip"))
        ]
        table = stack.enter_context(pq.ParquetWriter(folder / "corpus.parquet", schema))
        csv = stack.enter_context(pyarrow.csv.CSVWriter(folder / "corpus.csv", schema))
        for start in range(0, documents, BLOCK):
            numbers = range(start, min(start + BLOCK, documents))
            rows = [make_row(number, source.text(number)) for number in numbers]
            characters += sum(len(str(row["text"])) for row in rows)
            content = b"".join(orjson.dumps(row) + b"\n" for row in rows)
            for stream in lines:
                stream.write(content)
            batch = pa.RecordBatch.from_pylist(rows, schema)
            table.write_batch(batch, row_group_size=documents)
            csv.write_batch(batch)
    return characters / 1e6


def open_stream(path: Path, codec: str | None) -> Any:
    """Returns a stream that writes a file, compressed if a codec is given.

    Args:
        path: The file.
        codec: Name of the codec, or None.
    """
    return pa.OSFile(str(path), "wb") if codec is None else pa.CompressedOutputStream(path, codec)


def run_task(version: Path, folder: Path, task: str, name: str, options: tuple[str, ...]) -> float:
    """Returns the CPU seconds of a task.

    Args:
        version: The folder of the version of nearkin.
        folder: The folder of the corpora.
        task: `read` or `dedup`.
        name: The name of the file.
        options: Further options of the command.
    """
    command = [sys.executable, str(HERE / "format_task.py"), task, str(folder / name)]
    if task == "dedup":
        command += [str(folder / "out"), *DEDUP, *options]
    environment = {**os.environ, "PYTHONPATH": str(version)}
    ended = subprocess.run(command, check=True, capture_output=True, env=environment)
    shutil.rmtree(folder / "out", ignore_errors=True)
    return float(json.loads(ended.stdout)[0])


def measure_formats(size: Size, workloads: Collection[str] | None = None) -> Table:
    """Measures the CPU milliseconds for each megabyte of text, by workload.

    Args:
        size: Number of documents and of runs.
        workloads: Names of the workloads. All by default.
    """
    versions = [HERE.parent]
    if BASE in os.environ:
        versions.append(Path(os.environ[BASE]).absolute())
    rows = []
    with tempfile.TemporaryDirectory(prefix="nearkin-formats-") as name:
        folder = Path(name)
        megabytes = make_corpus(folder, size.documents)
        for workload, (task, file, options) in {**WORKLOADS, **NEW_WORKLOADS}.items():
            if workloads is not None and workload not in workloads:
                continue
            measured = versions if workload in WORKLOADS else versions[:1]
            seconds: dict[Path, list[float]] = {version: [] for version in measured}
            for _ in range(size.runs):
                for version in measured:
                    seconds[version].append(run_task(version, folder, task, file, options))
            medians = [statistics.median(runs) * 1e3 / megabytes for runs in seconds.values()]
            shown = [f"{median:.1f}" for median in medians]
            shown += [""] * (len(versions) - len(shown))
            rows.append((workload, *shown, f"{1e3 / medians[0]:.0f}"))
            print(f"{workload}: {' '.join(shown)} ms/MB", file=sys.stderr, flush=True)
    columns = ["workload", "ms/MB", "ms/MB before", "MB/s per core"]
    if len(versions) == 1:
        columns.remove("ms/MB before")
    note = (
        f"CPU time of reading and copying {size.documents:,} documents of about 1.5 kB in 12 "
        "columns, in milliseconds for each megabyte of text. `read` is the reading of the texts "
        "alone; `dedup` is the whole command with its start."
    )
    return Table("formats", note, tuple(columns), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: Arguments of the command line. Those of the process by default.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_const", dest="size", const=FULL, default=USUAL)
    sizes.add_argument("--quick", action="store_const", dest="size", const=QUICK)
    parser.add_argument("--write", action="store_true", help="write the record and the page")
    parser.add_argument("--out", type=Path, default=RECORD, help="file of the record")
    parser.add_argument("workloads", nargs="*", help="workloads to measure; all by default")
    options = parser.parse_args(arguments)
    if unknown := set(options.workloads) - {*WORKLOADS, *NEW_WORKLOADS}:
        parser.error(f"unknown workload {min(unknown)!r}")
    table = measure_formats(options.size, options.workloads or None)
    print(f"{table.name}\n{table.markdown()}", flush=True)
    if options.write:
        record = {"machine": describe_machine(), "tables": [table._asdict()]}
        options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
        if options.out == RECORD:
            write_pages()


if __name__ == "__main__":
    main()
