"""Tests that a result does not depend on where the tasks of a run are done."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.parts import are_files_parts
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.executor import Executor
from nearkin.runtime.progress import Silent
from tests.engine.variants import variants_of_a_text
from tests.late_tasks import LateTasks
from tests.processes import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Returns an executor of two processes."""
    executor = Processes(2)
    yield executor
    executor.close()


DOCUMENTS = 6_000


@cache
def documents() -> pa.Table:
    """Returns 6,000 documents, of which many are copies or near-copies, and some are rejected."""
    rng = np.random.default_rng(3)
    words = np.array([f"word{number}" for number in range(800)])
    texts: list[str | None] = []
    for number in range(DOCUMENTS):
        text = " ".join(rng.choice(words, 30))
        if number < 200:
            text = " ".join([*words[:29], str(number)])
        elif number % 3 == 1:
            text = f"{texts[-1] or text} {number % 4}"
        texts.append(None if number % 97 == 5 else text)
    numbers = range(len(texts))
    columns = {
        "id": [f"d{number}" for number in numbers],
        "text": texts,
        "site": [f"site {number % 7}" for number in numbers],
        "group": [f"group {number // 3 % 5}" for number in numbers],
    }
    return pa.table(columns)


def write_parquet(folder: Path, table: pa.Table) -> None:
    for number in range(3):
        part = table.slice(2_000 * number, 2_000)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=300)


def write_lines(folder: Path, table: pa.Table) -> None:
    table.to_pandas().to_json(folder / "all.jsonl", orient="records", lines=True)


def write_compressed_lines(folder: Path, table: pa.Table) -> None:
    rows = -(-len(table) // 3)
    for number in range(3):
        part = table.slice(rows * number, rows).to_pandas()
        part.to_json(folder / f"{number}.jsonl.gz", orient="records", lines=True)


def write_csv(folder: Path, table: pa.Table) -> None:
    pc.write_csv(table, folder / "all.csv")


WRITERS = {
    "parquet": write_parquet,
    "JSON lines": write_lines,
    "compressed JSON lines": write_compressed_lines,
    "CSV": write_csv,
}


TIMES = frozenset({"seconds", "compile_seconds", "build_latency"})
"""The facts of a stage that are times."""


def read_output(out: Path) -> dict[str, bytes]:
    """Returns the files of an output that do not depend on times."""
    paths = [path for path in out.rglob("*") if path.is_file() and path.parent.name != "columns"]
    timed = {
        "run.json",
        "report.html",
        "report.json",
        "card.md",
        ".nearkin-output.json",
        "checkpoint.json",
    }
    return {
        str(path.relative_to(out)): path.read_bytes() for path in paths if path.name not in timed
    }


def read_facts(out: Path) -> dict[str, Any]:
    """Returns what a run recorded and reported, without times."""
    record = json.loads((out / "run.json").read_bytes())
    report = json.loads((out / "report.json").read_bytes())
    stages = {
        stage: {name: value for name, value in facts.items() if name not in TIMES}
        for stage, facts in record["stages"].items()
    }
    reported = ("counts", "warnings", "hot_buckets", "verified", "estimated", "what_if")
    return {
        "counts": record["counts"],
        "stages": stages,
        **{name: report[name] for name in reported},
    }


def run_with_missing_pairs(
    folder: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Compares a run with hot buckets, of which pairs are missing, with that of threads.

    Returns:
        What both recorded and reported.
    """
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    # a round in which few leaders take all places leaves pairs that are similar enough
    monkeypatch.setattr("nearkin.engine.hot_bucket_loop.MOST_ROUNDS", 1)
    (folder / "in").mkdir()
    table = variants_of_a_text(variants=400, copies=60, changed_of_copies=6)
    pq.write_table(table, folder / "in" / "texts.parquet", row_group_size=50)
    options = RunOptions(spec=nk.Spec(), workers=2, hot_bucket_size=20, fanout=2, max_removed=1.0)
    job = Job((str(folder / "in"),), folder / "threads", Columns(id="id"), options)
    run_dedup(job, Silent())
    elsewhere = replace(job, out=folder / "out", executor=executor)
    run_dedup(elsewhere, Silent())
    assert read_output(elsewhere.out) == read_output(job.out)
    facts = read_facts(job.out)
    assert read_facts(elsewhere.out) == facts
    (warning,) = (text for text in facts["warnings"] if "may be missed" in text)
    for out in (job.out, elsewhere.out):
        assert warning[:40] in (out / "report.html").read_text()
    return facts


def compare_executors(job: Job, processes: Processes) -> set[str]:
    """Requires equal outputs of threads and processes, and returns the names of the tasks."""
    run_dedup(job, Silent())
    processes.maps.clear()
    elsewhere = replace(job, out=job.out.with_name("processes"), executor=processes)
    run_dedup(elsewhere, Silent())
    expected = read_output(job.out)
    assert {"clusters.parquet", "pairs.parquet", "rejected.jsonl"} <= expected.keys()
    assert read_output(elsewhere.out) == expected
    assert read_facts(elsewhere.out) == read_facts(job.out)
    return {task.__name__ for task in processes.maps}


def make_job(folder: Path, options: RunOptions) -> Job:
    columns = Columns(id="id", carried_columns=("site", "group"))
    return Job((str(folder / "in"),), folder / "threads", columns, options, save_signatures=True)


@pytest.mark.parametrize("format_name", WRITERS)
def test_output_does_not_depend_on_the_executor(
    format_name: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    (tmp_path / "in").mkdir()
    WRITERS[format_name](tmp_path / "in", documents())
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=2))
    assert "CopyApart" in compare_executors(replace(job, annotate=True), processes)


def test_result_over_compressed_files_does_not_depend_on_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    monkeypatch.setattr("nearkin.engine.sketching.SEGMENT_BYTES", 5_000)
    (tmp_path / "in").mkdir()
    table = documents()
    for number in range(8):
        path = tmp_path / "in" / f"{number}.jsonl.gz"
        part = table.slice(750 * number, 750).to_pandas()
        part.to_json(path, orient="records", lines=True)
        if number == 5:
            path.write_bytes(path.read_bytes()[:-900])
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=1))
    run_dedup(job, Silent())
    for workers in (2, 8) if full else (8,):
        corpus = FileCorpus.open([str(tmp_path / "in")])
        assert are_files_parts(corpus, job.columns, workers)
        parts = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=workers))
        run_dedup(replace(parts, out=tmp_path / f"{workers}"), Silent())
        assert read_output(tmp_path / f"{workers}") == read_output(job.out)


SETTINGS: dict[str, dict[str, Any]] = {
    "word shingles": {},
    "partitions": {},
    "hot buckets": {"hot_bucket_size": 20, "fanout": 5},
    "characters": {"spec": nk.Spec(unit="chars", n=4)},
    "truncated slots": {"spec": nk.Spec(slot_bits=8)},
    "probes": {"probes": 1, "bands": 10, "rows": 8},
    "estimates": {"verify": "estimate"},
    "an acceptance": {"accept": "safe"},
    "sources": {"across": "site"},
    "blocks": {"block_by": "group"},
    "related": {"related": 0.5},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_result_does_not_depend_on_the_executor(
    name: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    monkeypatch.setattr("nearkin.engine.scoring.PAIRS_PER_TASK", 200)
    if name == "partitions":
        monkeypatch.setattr("nearkin.engine.candidates.BYTES_PER_KEY", 1 << 16)
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())
    options = RunOptions(**{"spec": nk.Spec(), "workers": 2, **SETTINGS[name]})
    tasks = compare_executors(make_job(tmp_path, options), processes)
    assert {"SketchTask", "WriteKeys", "FindBuckets", "ComparePortion", "ScorePortion"} <= tasks
    assert ("WritePayloads" in tasks) == (name != "estimates")
    if name == "hot buckets":
        assert "ClusterBucket" in tasks


def test_missing_pairs_of_hot_buckets_do_not_depend_on_the_executor(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.maps.clear()
    facts = run_with_missing_pairs(tmp_path, processes, monkeypatch)
    assert "ClusterBucket" in {task.__name__ for task in processes.maps}
    missing = facts["stages"]["missing_pairs"]
    assert missing["pairs"] > 0
    assert missing["share"] > 0.05


@pytest.mark.parametrize("name", ["word shingles", "hot buckets"])
def test_tasks_that_are_done_again_late_change_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in", documents())
    job = make_job(tmp_path, RunOptions(**{"spec": nk.Spec(), "workers": 2, **SETTINGS[name]}))
    run_dedup(job, Silent())
    late = LateTasks(seed=1, share=1.0)
    elsewhere = replace(job, out=tmp_path / "late", executor=late)
    run_dedup(elsewhere, Silent())
    assert late.late > 100
    assert read_output(elsewhere.out) == read_output(job.out)


def test_late_tasks_of_one_field_do_not_replace_buckets_of_another(tmp_path: Path) -> None:
    table = documents()
    titles = [f"title {number // 2} {number // 2 * 7919 % 10007}" for number in range(len(table))]
    write_parquet(tmp_path, table.append_column("title", pa.array(titles)))
    options: dict[str, Any] = {
        "id": "id",
        "fields": ["text:jaccard>=0.8", "title:jaccard>=0.8"],
        "accept": "text or title",
        "max_removed": 1.0,
    }
    expected = nk.dedup(str(tmp_path), **options)
    late = LateTasks(seed=1, share=1.0)
    found = nk.dedup(str(tmp_path), executor=late, **options)
    assert late.late > 10
    assert found.clusters.arrow == expected.clusters.arrow


def write_parts(folder: Path, table: pa.Table, parts: int) -> None:
    """Writes the rows of a table to some files."""
    folder.mkdir()
    rows = -(-len(table) // parts)
    for number in range(parts):
        path = folder / f"{number}.parquet"
        pq.write_table(table.slice(rows * number, rows), path)


PARTS = [pytest.param(1, marks=pytest.mark.full), 3, pytest.param(8, marks=pytest.mark.full)]
"""The numbers of files of the inputs, each of which is a part."""
REFERENCES: dict[str, dict[str, Any]] = {
    "word shingles": {},
    "truncated slots": {"spec": nk.Spec(slot_bits=8)},
    "probes": {"probes": 1, "bands": 10, "rows": 8},
    "blocks": {"block_by": "group"},
    "an acceptance": {"accept": "safe"},
    "related": {"related": 0.5},
    "estimates": {"verify": "estimate"},
}


def make_reference(
    job: Job, parts: int, name: str, *, saves_hashes: bool, count: int = DOCUMENTS
) -> Job:
    """Returns a job over one half of the documents, whose reference is the other half.

    Args:
        name: Name of the reference: `files`, or `run` for a finished run.
        count: Number of documents, the first ones.
    """
    folder = job.out.parent
    table = documents()[:count]
    rows = pa.array(np.arange(len(table)) % 2 == 0)
    write_parts(folder / "in", table.filter(rows), parts)
    write_parts(folder / "old", table.filter(pa.compute.invert(rows)), parts)
    if name == "files":
        return replace(job, against=(str(folder / "old"),))
    saved = replace(
        job, inputs=(str(folder / "old"),), out=folder / "run", save_hashes=saves_hashes
    )
    run_dedup(saved, Silent())
    return replace(job, against=(str(saved.out),))


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("reference", ["files", "run"])
def test_result_with_a_reference_does_not_depend_on_the_executor(
    reference: str, parts: int, processes: Processes, tmp_path: Path
) -> None:
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=2, max_removed=1.0))
    job = make_reference(job, parts, reference, saves_hashes=True)
    tasks = compare_executors(job, processes)
    assert {"WriteKeys", "MatchKeys", "WritePayloads", "ScorePortion"} <= tasks
    assert json.loads((job.out / "run.json").read_bytes())["stages"]["against"]["near"] > 100


@pytest.mark.parametrize(
    "name",
    [
        "probes",
        *(pytest.param(name, marks=pytest.mark.full) for name in REFERENCES if name != "probes"),
    ],
)
def test_comparison_with_a_reference_does_not_depend_on_the_executor(
    name: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.reference_sides.DOCUMENTS_AT_ONCE", 500)
    monkeypatch.setattr("nearkin.engine.reference_sides.MEMORY_SHARE", 1 << 17)
    options = RunOptions(
        **{"spec": nk.Spec(), "workers": 2, "max_removed": 1.0, **REFERENCES[name]}
    )
    job = make_reference(make_job(tmp_path, options), 2, "run", saves_hashes=False)
    assert ("MatchKeys" in compare_executors(job, processes)) == (name != "an acceptance")


def test_late_tasks_of_a_reference_change_nothing(tmp_path: Path) -> None:
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=2, max_removed=1.0))
    job = make_reference(job, 8, "run", saves_hashes=True)
    run_dedup(job, Silent())
    late = LateTasks(seed=1, share=1.0)
    elsewhere = replace(job, out=tmp_path / "late", executor=late)
    run_dedup(elsewhere, Silent())
    assert late.late > 100
    assert read_output(elsewhere.out) == read_output(job.out)


@pytest.mark.parametrize("parts", PARTS)
def test_result_with_a_blocklist_does_not_depend_on_the_executor(
    parts: int, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.payload_batches.DOCUMENTS_PER_TASK", 500)
    table = documents()
    write_parts(tmp_path / "in", table, parts)
    blocklist = nk.Blocklist()
    blocklist.add([text for text in table["text"][:900].to_pylist() if text])
    blocklist.save(tmp_path / "blocked.arrow")
    job = make_job(tmp_path, RunOptions(spec=nk.Spec(), workers=2, max_removed=1.0))
    job = replace(job, blocklist=tmp_path / "blocked.arrow")
    assert "UsePayloads" in compare_executors(job, processes)
    assert json.loads((job.out / "run.json").read_bytes())["counts"]["removed_blocked"] > 500
