"""Measures nearkin decontaminate on generated corpora with planted items of a suite.

python -m benchmarks.decontamination                 20,000 documents, 9,000 items, once
python -m benchmarks.decontamination --full --write  1,000,000 documents, 90,000 items, three runs,
                                                     and a comparison with decon over 200,000
                                                     documents; writes the tables

CPU seconds are those of whole processes, with reading the suite. Recall is the share of the planted
items that are found in their documents; precision is that of the contaminated documents.
"""

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.pages import write_pages
from benchmarks.peers import RELEASE, TOOL_COLUMNS, WORK, run_apart
from benchmarks.rust_tools import DECON, build_tool
from benchmarks.tables import Table, main
from nearkin.errors import RunError
from nearkin.quality.lab.contaminated_corpus import TEMPLATE, PlantedForm, write_contaminated_corpus
from nearkin.quality.lab.measurements import ProcessUsage, run_nearkin, run_process
from nearkin.texts.decontamination.request import OPERATING_POINTS

HERE = Path(__file__).parent
RECORD = HERE / "decontamination.json"
MEMORY = "4GB"


def measure_run(folder: Path, point: str) -> dict[str, float]:
    """Returns the CPU seconds of a run, its peak memory and its size."""
    out = folder / "out"
    suite = ("--against", folder / "suite.parquet", "--suite-id", "id", "--id", "id")
    options = ("--operating-point", point, "--memory", MEMORY, "--overwrite", "--quiet")
    documents = folder / "documents.parquet"
    usage = run_nearkin("decontaminate", documents, *suite, *options, "--out", out)
    facts = json.loads((out / "run.json").read_bytes())
    return {
        "cpu_seconds": usage.cpu,
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


def write_json_lines(folder: Path, documents: int, items: int) -> float:
    """Writes a corpus and its suite as JSON lines, the suite also in the form of decon.

    Args:
        folder: Folder that gets the corpus.
        documents: Number of documents.
        items: Number of items.

    Returns:
        The size of the texts, in MB.
    """
    facts = write_contaminated_corpus(folder / "corpus", documents, items)
    for name in ("documents", "suite", "decon-suite"):
        (folder / name).mkdir()
    with (folder / "documents" / "part.jsonl").open("w") as file:
        for row in pq.read_table(folder / "corpus" / "documents.parquet").to_pylist():
            file.write(json.dumps(row) + "\n")
    suite = pq.read_table(folder / "corpus" / "suite.parquet").to_pylist()
    with (folder / "suite" / "part.jsonl").open("w") as file:
        for row in suite:
            file.write(json.dumps(row) + "\n")
    with (folder / "decon-suite" / "suite-1.jsonl").open("w") as file:
        for number, row in enumerate(suite):
            item = {"eval_key": "suite", "eval_instance_index": number, "split": "test"}
            item |= {"question": row["question"], "answer": "", "doc_id": number}
            file.write(json.dumps({**item, "fingerprint": row["id"]}) + "\n")
    return facts["text_bytes"] / 1e6


def read_decon_hits(reports: Path) -> set[tuple[str, str]]:
    """Returns the ids of documents and items that decon reported."""
    hits = set()
    for path in reports.iterdir():
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            hits.add((f"d{row['training_line']}", str(row["eval_instance_index"])))
    return hits


def read_nearkin_hits(out: Path) -> set[tuple[str, str]]:
    """Returns the ids of documents and items that nearkin reported."""
    hits = pq.read_table(out / "hits.parquet", columns=["id", "item"]).to_pylist()
    return {(hit["id"], hit["item"]) for hit in hits}


def score_hits(folder: Path, hits: set[tuple[str, str]]) -> tuple[str, str, str]:
    """Returns the recall of planted items, the precision of documents, and the flagged templates.

    The first two are shares of planted items and of flagged documents.
    """
    truth = pq.read_table(folder / "corpus" / "truth.parquet").to_pylist()
    planted = {(row["id"], row["item"]) for row in truth if row["item"] is not None}
    template = {row["id"] for row in truth if row["form"] == TEMPLATE}
    flagged = {id for id, _ in hits}
    right = flagged & {id for id, _ in planted}
    return (
        f"{len(planted & hits) / len(planted):.4f}",
        f"{len(right) / max(1, len(flagged)):.4f}",
        f"{len(flagged & template) / len(template):.4f}",
    )


def peers_table(full: bool) -> Table:
    """Measures nearkin and decon on one corpus of JSON lines, once each."""
    documents, items = (200_000, 90_000) if full else (20_000, 9_000)
    folder = WORK / "decontamination"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    megabytes = run_apart(write_json_lines, folder, documents, items)
    rows = []

    def add(name: str, release: str, usage: ProcessUsage, scores: tuple[str, str, str]) -> None:
        rows.append(
            (
                name,
                release,
                f"{usage.seconds:.0f}",
                f"{usage.cpu:.1f}",
                f"{megabytes / usage.cpu:.0f}",
                f"{usage.memory / 1e9:.2f} GB",
                *scores,
            )
        )

    for point in OPERATING_POINTS:
        options = ("--operating-point", point, "--memory", MEMORY, "--overwrite", "--quiet")
        suite = ("--against", folder / "suite" / "part.jsonl", "--suite-id", "id", "--id", "id")
        out = folder / "out"
        usage = run_nearkin("decontaminate", folder / "documents", *suite, *options, "--out", out)
        add(f"nearkin, `{point}`", RELEASE, usage, score_hits(folder, read_nearkin_hits(out)))
    reports = folder / "reports"
    try:
        program = build_tool(DECON)
        line = [str(program), "detect", "--training-dir", str(folder / "documents")]
        line += ["--evals-dir", str(folder / "decon-suite"), "--report-output-dir", str(reports)]
        usage = run_process(line)
        add("decon", DECON.version, usage, score_hits(folder, read_decon_hits(reports)))
    except RunError as error:
        failure = f"failed: {str(error).strip().splitlines()[-1]}"
        rows.append(("decon", DECON.version, failure, "", "", "", "", "", ""))
    shutil.rmtree(folder)
    note = (
        f"The same forms in {documents:,} documents ({megabytes:,.0f} MB of text) and {items:,} "
        "items as JSON lines, one run each with the reading of the suite. decon runs with its "
        "defaults. The documents consist of invented words; its authors report 171 MB/s over "
        "others on their machine."
    )
    columns = (*TOOL_COLUMNS, "template documents flagged")
    return Table("decontamination_peers", note, columns, rows)


if __name__ == "__main__":
    main(__doc__, [decontamination_table, peers_table], RECORD)
    if "--write" in sys.argv:
        write_pages()
