"""Measures nearkin decontaminate on generated corpora with planted items of a suite.

python -m benchmarks.decontamination                 20,000 documents, 9,000 items, once
python -m benchmarks.decontamination --full --write  1,000,000 documents, 90,000 items, three runs;
                                                     writes the table

CPU seconds are those of whole processes, with reading the suite. Recall is the share of the planted
items that are found in their documents; precision is that of the contaminated documents.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.pages import write_pages
from benchmarks.tables import Table, main
from nearkin.decontamination.request import OPERATING_POINTS
from nearkin.lab.contaminated_corpus import TEMPLATE, PlantedForm, write_contaminated_corpus

HERE = Path(__file__).parent
RECORD = HERE / "decontamination.json"
MEMORY = "4GB"


def measure_run(folder: Path, point: str) -> dict[str, float]:
    """Returns the CPU seconds of a run, its peak memory and its size."""
    line = [sys.executable, "-m", "nearkin", "decontaminate", str(folder / "documents.parquet")]
    line += ["--against", str(folder / "suite.parquet"), "--suite-id", "id", "--id", "id"]
    line += ["--operating-point", point, "--memory", MEMORY, "--overwrite", "--quiet", "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run(
        [*line, "--out", str(folder / "out")], check=True, capture_output=True, text=True
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = json.loads(printed)
    return {
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "megabytes": facts["counts"]["text_bytes"] / 1e6,
        "peak_memory": facts["peak_memory"] / 1e9,
    }


def measure_quality(folder: Path) -> dict[str, float]:
    """Returns the recall of each form, the share of flagged template documents, and precision."""
    truth = pq.read_table(folder / "truth.parquet").to_pylist()
    hits = pq.read_table(folder / "out" / "hits.parquet", columns=["id", "item"]).to_pylist()
    found = {(hit["id"], hit["item"]) for hit in hits}
    flagged = {hit["id"] for hit in hits}
    quality = {}
    for form in PlantedForm:
        planted = [(row["id"], row["item"]) for row in truth if row["form"] == form]
        quality[str(form)] = sum(pair in found for pair in planted) / max(len(planted), 1)
    template = [row["id"] for row in truth if row["form"] == TEMPLATE]
    quality[TEMPLATE] = sum(id in flagged for id in template) / max(len(template), 1)
    planted_ids = {row["id"] for row in truth if row["item"] is not None}
    quality["precision"] = len(flagged & planted_ids) / max(len(flagged), 1)
    return quality


def decontamination_table(full: bool) -> Table:
    """Measures both operating points."""
    documents, items = (1_000_000, 90_000) if full else (20_000, 9_000)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "corpus"
        facts = write_contaminated_corpus(folder, documents, items)
        for point in OPERATING_POINTS:
            runs = [measure_run(folder, point) for _ in range(3 if full else 1)]
            quality = measure_quality(folder)
            seconds = statistics.median(run["cpu_seconds"] for run in runs)
            last = runs[-1]
            rows.append(
                (
                    f"`{point}`",
                    f"{last['megabytes']:,.0f} MB",
                    f"{seconds:.1f}",
                    f"{last['megabytes'] / seconds:.0f}",
                    f"{last['peak_memory']:.2f} GB",
                    f"{min(quality[form] for form in PlantedForm):.4f}",
                    f"{quality['precision']:.4f}",
                    f"{quality[TEMPLATE]:.4f}",
                )
            )
    note = (
        f"`nearkin decontaminate` of {documents:,} generated documents in Parquet against a suite "
        f"of {items:,} items, `--memory {MEMORY}`. {facts['planted']:,} documents hold an item: "
        "plain, in lines of 8 words, in upper case, without punctuation, or embedded in ten times "
        f"its length. {facts['template']:,} documents begin with the instruction of a part of the "
        "items. CPU seconds are those of the whole process, with the reading of the suite. Recall "
        "is that of the worst of the five forms."
    )
    columns = (
        "operating point",
        "text",
        "CPU s",
        "MB per CPU s",
        "peak memory",
        "recall",
        "precision",
        "template documents flagged",
    )
    return Table("decontamination", note, columns, rows)


if __name__ == "__main__":
    main(__doc__, [decontamination_table], RECORD)
    if "--write" in sys.argv:
        write_pages()
