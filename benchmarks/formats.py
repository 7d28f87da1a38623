"""Measures reading and copying documents of each format, for docs/reference/benchmarks.md.

python -m benchmarks.formats                 quick sizes, to the terminal
python -m benchmarks.formats --full --write  full sizes; writes formats.json and the page

If NEARKIN_BASE names the folder of another version, its tasks run in between, and a second column
shows them. CPU seconds hold on a busy machine, wall times do not.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.pages import write_pages
from benchmarks.tables import Table, main

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


def make_corpus(folder: Path, documents: int) -> float:
    """Writes one corpus in each format.

    Args:
        folder: The folder of the files.
        documents: Number of documents of about 1.5 kB, of which one in 15 is a copy.

    Returns:
        The size of the texts, in megabytes.
    """
    random_ = random.Random(1)
    words = [
        "".join(random_.choices("etaoinshrdlucmfwypvbgkjqxz", k=random_.randrange(2, 10)))
        for _ in range(20_000)
    ]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    texts = [" ".join(random_.choices(words, weights, k=250)) for _ in range(documents)]
    for at in range(0, documents, 15):
        texts[at] = texts[at // 2]
    rows = [
        {
            "id": f"document-{at}",
            "url": f"example.org/{at}",
            "text": text,
            "date": "2024-01-02",
            "language": "en",
            "score": random_.random(),
            "rank": at,
            "digest": f"{random_.getrandbits(256):064x}",
            "length": len(text),
            "source": "crawl",
            "title": text[:40],
            "checked": True,
        }
        for at, text in enumerate(texts)
    ]
    content = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    (folder / "corpus.jsonl").write_bytes(content)
    for suffix, codec in (("zst", "zstd"), ("gz", "gzip")):
        with pa.CompressedOutputStream(str(folder / f"corpus.jsonl.{suffix}"), codec) as stream:
            stream.write(content)
    table = pa.Table.from_pylist(rows)
    pa.csv.write_csv(table, folder / "corpus.csv")
    pq.write_table(table, folder / "corpus.parquet", row_group_size=documents)
    return sum(map(len, texts)) / 1e6


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


def formats(full: bool) -> Table:
    """Measures the CPU milliseconds for each megabyte of text, by workload.

    Args:
        full: Whether the corpus has 1,000,000 documents instead of 40,000.
    """
    documents = 1_000_000 if full else 40_000
    versions = [HERE.parent]
    if BASE in os.environ:
        versions.append(Path(os.environ[BASE]).absolute())
    rows = []
    with tempfile.TemporaryDirectory(prefix="nearkin-formats-") as name:
        folder = Path(name)
        megabytes = make_corpus(folder, documents)
        for workload, (task, file, options) in {**WORKLOADS, **NEW_WORKLOADS}.items():
            measured = versions if workload in WORKLOADS else versions[:1]
            seconds: dict[Path, list[float]] = {version: [] for version in measured}
            for _ in range(5 if full else 2):
                for version in measured:
                    seconds[version].append(run_task(version, folder, task, file, options))
            medians = [statistics.median(runs) * 1e3 / megabytes for runs in seconds.values()]
            shown = [f"{median:.1f}" for median in medians]
            shown += [""] * (len(versions) - len(shown))
            rows.append((workload, *shown, f"{1e3 / medians[0]:.0f}"))
    columns = ["workload", "ms/MB", "ms/MB before", "MB/s per core"]
    if len(versions) == 1:
        columns.remove("ms/MB before")
    note = (
        f"CPU time of reading and copying {documents:,} documents of about 1.5 kB in 12 columns, "
        "in milliseconds for each megabyte of text. `read` is the reading of the texts alone; "
        "`dedup` is the whole command with its start."
    )
    return Table("formats", note, tuple(columns), rows)


if __name__ == "__main__":
    main(__doc__, [formats], RECORD)
    if RECORD.exists():
        write_pages()
