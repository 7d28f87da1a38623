import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine import candidates, run
from nearkin.engine import exact_groups as collapse
from nearkin.engine import verification as verifying
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.reports.files import read_report
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.pairs import run_pairs
from nearkin.runtime.outputs import MANIFEST
from nearkin.runtime.progress import Silent
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.slot_bands import solve_banding
from nearkin.stages.shingle import Shingler, text_buffers
from tests.prepared_process import prepared_line

COLUMNS = Columns(id="id", carried_columns=("source",))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """7,000 documents in three files: clusters, a hot one, boilerplate, hostile ones (two
    nulls)."""
    folder = tmp_path_factory.mktemp("synth") / "corpus"
    settings = SynthSettings(
        documents=7000,
        length="lognormal:600:0.5",
        hot_clusters=1,
        hot_size=400,
        boilerplate=0.1,
        hostile=24,
        files=3,
        seed=3,
    )
    synth(folder, settings)
    return folder


def job(inputs: Any, out: Path, **other: Any) -> Job:
    settings = {
        name: other.pop(name) for name in list(other) if name in RunOptions.__dataclass_fields__
    }
    given = tuple(map(str, inputs)) if isinstance(inputs, list) else (str(inputs),)
    columns = other.pop("columns", COLUMNS)
    return Job(given, out, columns, RunOptions(**{"source": "source", **settings}), **other)


def finished(inputs: Any, out: Path, **other: Any) -> dict[str, Any]:
    return run_dedup(job(inputs, out, **other), Silent()).to_json()


@pytest.fixture(scope="session")
def reference(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run."""
    out = tmp_path_factory.mktemp("reference") / "out"
    finished(corpus / "documents", out)
    return out


def texts_of(corpus: Path) -> dict[str, str | None]:
    table = pq.read_table(corpus / "documents")
    return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))


def shingle_sets(texts: list[str], spec: Spec | None = None) -> list[set[int]]:
    hashes = Shingler(spec or Spec()).texts(*text_buffers(pa.array(texts, pa.large_string())))
    return [
        set(hashes.hashes[a:b].tolist())
        for a, b in zip(hashes.offsets, hashes.offsets[1:], strict=False)
    ]


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def same_result(a: Path, b: Path) -> None:
    for name in ("clusters.parquet", "pairs.parquet", "rejected.jsonl"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_every_document_is_accounted_for(reference: Path) -> None:
    facts = json.loads((reference / "run.json").read_bytes())
    counts = facts["counts"]
    assert counts["read"] == 7000
    assert counts["rejected"] == 2
    assert counts["kept"] + counts["removed"] + counts["rejected"] == 7000
    clusters = pq.read_table(reference / "clusters.parquet")
    assert len(clusters) == 6998
    assert (
        sum(clusters["kept"].to_pylist())
        == counts["kept"]
        == len(pq.read_table(reference / "kept"))
    )
    rejected = [
        json.loads(line) for line in (reference / "rejected.jsonl").read_text().splitlines()
    ]
    assert {entry["reason"] for entry in rejected} == {"text is null"}
    assert all(entry["file"].startswith("part-") for entry in rejected)
    report = json.loads((reference / "report.json").read_bytes())
    assert report["rejected"] == [["text is null", 2]]


def test_every_removed_document_resembles_the_one_kept_for_it(
    corpus: Path, reference: Path
) -> None:
    texts = texts_of(corpus)
    rows = [
        row for row in pq.read_table(reference / "clusters.parquet").to_pylist() if not row["kept"]
    ]
    assert len(rows) > 500
    kept = set(pq.read_table(reference / "kept")["id"].to_pylist())
    assert all(row["cluster"] in kept and row["id"] not in kept for row in rows)
    pairs = zip(
        shingle_sets([texts[row["id"]] for row in rows]),
        shingle_sets([texts[row["cluster"]] for row in rows]),
        strict=True,
    )
    for row, (a, b) in zip(rows, pairs, strict=True):
        assert len(a & b) >= 0.8 * len(a | b)
        assert row["similarity"] == pytest.approx(jaccard(a, b), abs=1e-12)


def test_recall_and_precision_of_planted_pairs(corpus: Path, tmp_path: Path) -> None:
    truth = pq.read_table(corpus / "truth.parquet").to_pylist()
    texts = texts_of(corpus)
    run_pairs(job(corpus / "documents", tmp_path / "p.parquet"), Silent(), expand_exact=True)
    found = {
        (row["id_a"], row["id_b"]): row["similarity"]
        for row in pq.read_table(tmp_path / "p.parquet").to_pylist()
    }
    ids = sorted({name for pair in found for name in pair})
    sets = dict(zip(ids, shingle_sets([texts[name] for name in ids]), strict=True))
    assert all(
        similarity == jaccard(sets[a], sets[b]) >= 0.8 for (a, b), similarity in found.items()
    )
    # Of the hot cluster, members are paired with its leaders only.
    planted = [row for row in truth if row["similarity"] >= 0.8 and row["cluster"] != 0]
    assert len(planted) > 300
    assert np.mean([(row["id_a"], row["id_b"]) in found for row in planted]) >= 0.95


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_do_not_change_the_result(
    workers: int, corpus: Path, reference: Path, tmp_path: Path
) -> None:
    finished(corpus / "documents", tmp_path / "out", workers=workers)
    same_result(tmp_path / "out", reference)


def test_partitions_do_not_change_the_result(
    corpus: Path, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are partitioned and pairs are spilled, as with little memory."""
    monkeypatch.setattr(candidates, "BYTES_PER_KEY", (512 << 20) // 4 // 1000)
    monkeypatch.setattr(run, "BYTES_PER_PAIR", (512 << 20) // 8 // 50)
    monkeypatch.setattr(collapse, "DOCUMENTS_AT_ONCE", 1000)
    monkeypatch.setattr(verifying, "PAIRS_PER_TASK", 100)
    monkeypatch.setattr("nearkin.stages.cluster.election.PAIRS_PER_ELECTION", 100)
    monkeypatch.setattr(candidates, "PAIRS_PER_BATCH", 100)
    finished(corpus / "documents", tmp_path / "out", memory=512 << 20)
    same_result(tmp_path / "out", reference)


def test_files_and_their_order_do_not_change_the_result(
    corpus: Path, reference: Path, tmp_path: Path
) -> None:
    parts = sorted((corpus / "documents").iterdir())
    finished([parts[2], parts[0], parts[1]], tmp_path / "shuffled")
    same_result(tmp_path / "shuffled", reference)
    whole = tmp_path / "one.parquet"
    pq.write_table(
        pa.concat_tables([pq.read_table(part) for part in parts]), whole, row_group_size=333
    )
    finished(whole, tmp_path / "one")
    assert (tmp_path / "one/clusters.parquet").read_bytes() == (
        reference / "clusters.parquet"
    ).read_bytes()
    reordered = pa.concat_tables([pq.read_table(part) for part in parts]).sort_by(
        [("text", "descending")]
    )
    pq.write_table(reordered, tmp_path / "reordered.parquet")
    finished(tmp_path / "reordered.parquet", tmp_path / "again")
    tables = [
        pq.read_table(folder / "clusters.parquet").sort_by("id")
        for folder in (reference, tmp_path / "again")
    ]
    assert tables[0].equals(tables[1])


KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
from nearkin.engine import sketching
from nearkin.engine.options import RunOptions
import nearkin as nk
from nearkin.corpus import Columns
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job

sketching.SEGMENT_SECONDS = 0.0

class Killer:
    def __init__(self, stage, advances):
        self.wanted, self.left, self.now = stage, advances, None
    def stage(self, name, total=None):
        self.now = name
        self.strike()
    def advance(self, count):
        self.strike()
    def strike(self):
        if self.now == self.wanted:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    def close(self):
        pass

def run_until(inputs, out, stage, advances):
    columns = Columns(id="id", carried_columns=("source",))
    job = Job((inputs,), Path(out), columns, RunOptions(source="source"))
    run_dedup(job, Killer(stage, int(advances)))

inputs, *moments = sys.argv[1:]
for moment in moments:
    process = multiprocessing.get_context("fork").Process(
        target=run_until, args=(inputs, *moment.rsplit(":", 2))
    )
    process.start()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        sys.exit(f"{moment} ended with {process.exitcode}")
"""
"""A program that imports nearkin, and forks a process for each run, which kills itself.

Its arguments are the inputs and, for each run, `OUT:STAGE:ADVANCES`.
"""
MOMENTS = [
    ("sketch", 0),
    ("sketch", 2),
    ("sketch", 3),
    ("collapse", 0),
    ("bands", 0),
    ("bands", 5),
    ("verify", 0),
    ("verify", 1),
    ("cluster", 0),
    ("write", 0),
    ("write", 2),
]


def kill_runs(inputs: Path, *moments: tuple[Path, str, int]) -> None:
    """Starts runs that are killed.

    Args:
        inputs: Folder of the documents.
        *moments: The output of each run, the stage in which it is killed, and after how many steps.
    """
    given = [f"{out}:{stage}:{advances}" for out, stage, advances in moments]
    line = prepared_line("python", "-c", KILLED, str(inputs), *given)
    subprocess.run(line, check=True)


@pytest.fixture(scope="module")
def killed_runs(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a killed run for each of MOMENTS."""
    folder = tmp_path_factory.mktemp("killed")
    moments = [(folder / f"{stage}{advances}", stage, advances) for stage, advances in MOMENTS]
    kill_runs(corpus / "documents", *moments)
    return folder


@pytest.mark.parametrize(("stage", "advances"), MOMENTS)
def test_a_killed_run_resumes_to_the_same_bytes(
    stage: str, advances: int, corpus: Path, reference: Path, killed_runs: Path
) -> None:
    out = killed_runs / f"{stage}{advances}"
    assert not out.exists()
    if (stage, advances) != MOMENTS[0]:
        with pytest.raises(UsageError, match="these settings; continue it with resume=True"):
            finished(corpus / "documents", out)
    finished(corpus / "documents", out, resume=True)
    same_result(out, reference)
    assert not job(corpus, out).work_folder.exists()


def killed_run(corpus: Path, out: Path, stage: str = "verify") -> None:
    kill_runs(corpus, (out, stage, 0))
    assert job(corpus, out).work_folder.exists()


def test_resume_refuses_changed_inputs_and_parameters(corpus: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus / "documents", copy)
    out = tmp_path / "out"
    killed_run(copy, out)
    with pytest.raises(
        UsageError,
        match=r"begun with threshold=0\.8, and this run has threshold=0\.7; .*overwrite=True",
    ):
        finished(copy, out, resume=True, threshold=0.7)
    with pytest.raises(UsageError, match=r"begun with k=128, and this run has k=64"):
        finished(copy, out, resume=True, spec=Spec(k=64))
    first = copy / "part-00000.parquet"
    pq.write_table(pq.read_table(first).slice(1), first)
    with pytest.raises(UsageError, match=r"the input .*part-00000\.parquet has changed"):
        finished(copy, out, resume=True)
    first.unlink()
    with pytest.raises(UsageError, match=r"part-00000\.parquet is missing now"):
        finished(copy, out, resume=True)
    assert finished(copy, out, overwrite=True)["counts"]["read"] < 7000


def test_a_run_of_another_version_is_not_resumed(corpus: Path, tmp_path: Path) -> None:
    killed_run(corpus / "documents", tmp_path / "out")
    manifest_file = tmp_path / "out.partial" / MANIFEST
    manifest = json.loads(manifest_file.read_bytes())
    manifest_file.write_text(json.dumps({**manifest, "nearkin": "0.0.1"}))
    with pytest.raises(UsageError, match=r"begun with nearkin 0\.0\.1, and this is nearkin"):
        finished(corpus / "documents", tmp_path / "out", resume=True)


def test_input_with_only_a_new_time_is_unchanged(
    corpus: Path, reference: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus / "documents", copy)
    killed_run(copy, tmp_path / "out")
    os.utime(copy / "part-00001.parquet", (1, 1))
    finished(copy, tmp_path / "out", resume=True)
    same_result(tmp_path / "out", reference)


def test_existing_output_is_replaced_or_resumed_only_on_request(
    corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(
        UsageError,
        match=r"out exists; continue it with resume=True, replace it with overwrite=True",
    ):
        finished(corpus / "documents", tmp_path / "out")
    with pytest.raises(UsageError, match="is not the output of a run"):
        finished(corpus / "documents", tmp_path / "out", resume=True)
    first = finished(corpus / "documents", tmp_path / "out", overwrite=True)
    assert finished(corpus / "documents", tmp_path / "out", resume=True) == json.loads(
        json.dumps(first)
    )


def test_resume_without_a_previous_run_starts_one(
    corpus: Path, reference: Path, tmp_path: Path
) -> None:
    finished(corpus / "documents", tmp_path / "deep/out", resume=True)
    same_result(tmp_path / "deep/out", reference)


def test_run_that_a_full_disk_stopped_can_be_resumed(corpus: Path, tmp_path: Path) -> None:
    """A file size limit stands in for a full disk: writing fails with the system's error in the
    middle of a stage."""
    command = ["dedup", str(corpus / "documents"), "--out", str(tmp_path / "out")]
    code = f"""
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from nearkin.cli.app import run
sys.exit(run({[*command, "--id", "id", "--source", "source"]!r}))
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    failed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1, failed.stderr
    assert failed.stderr.startswith("nearkin: cannot write in ")
    assert ("--resume" in failed.stderr) == (tmp_path / "out.partial").exists()
    assert "Traceback" not in failed.stderr
    assert finished(corpus / "documents", tmp_path / "out", resume=True)["counts"]["read"] == 7000


def test_saved_signatures_are_banded_again_without_sketching(corpus: Path, tmp_path: Path) -> None:
    finished(corpus / "documents", tmp_path / "saved", save_signatures=True)
    summary = finished(tmp_path / "saved", tmp_path / "again", threshold=0.6, bands=20, rows=4)
    assert (tmp_path / "saved/signatures").is_dir()
    finished(corpus / "documents", tmp_path / "direct", threshold=0.6, bands=20, rows=4)
    same_result(tmp_path / "again", tmp_path / "direct")
    assert summary["counts"]["rejected"] == 2
    run_pairs(
        job(
            tmp_path / "saved",
            tmp_path / "p.parquet",
            threshold=0.6,
            bands=20,
            rows=4,
            pair_budget=0,
        ),
        Silent(),
    )
    # the file of pairs says in its footer what was asked for; the rows are the same
    found, expected = (
        pq.read_table(path) for path in (tmp_path / "p.parquet", tmp_path / "direct/pairs.parquet")
    )
    assert found.replace_schema_metadata(None).equals(expected.replace_schema_metadata(None))


def test_saved_signatures_of_inputs_that_changed(
    corpus: Path, reference: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus / "documents", copy)
    finished(copy, tmp_path / "saved", save_signatures=True)
    with pytest.raises(UsageError, match="column 'quality' was not kept"):
        finished(
            tmp_path / "saved",
            tmp_path / "x",
            columns=Columns(carried_columns=("quality",)),
            source="quality",
        )
    (copy / "part-00002.parquet").unlink()
    with pytest.raises(UsageError, match="part-00002"):
        finished(tmp_path / "saved", tmp_path / "x")
    with pytest.raises(UsageError, match="run it again with save_signatures=True"):
        finished(reference, tmp_path / "x")


def write_texts(path: Path, texts: list[str]) -> Path:
    pq.write_table(pa.table({"text": texts}), path)
    return path


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([], 0),
        (["only one document here"], 1),
        ([""] * 7, 7),
        (["the same in every row of it"] * 6000, 1),
        (["x y"] * 3, 1),
    ],
    ids=["empty corpus", "one document", "empty documents", "identical", "three identical"],
)
def test_degenerate_corpora(texts: list[str], kept: int, tmp_path: Path) -> None:
    path = write_texts(tmp_path / "a.parquet", texts)
    summary = finished(path, tmp_path / "out", columns=Columns(), source=None)
    assert summary["counts"]["kept"] == kept
    assert summary["counts"]["read"] == len(texts)
    assert len(pq.read_table(tmp_path / "out/kept/a.parquet")) == kept


def test_empty_documents_can_be_dropped(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "a.parquet", ["", "some words", " ", "more words"])
    summary = finished(path, tmp_path / "out", columns=Columns(), source=None, empty="drop")
    assert (
        summary["counts"]["kept"],
        summary["counts"]["removed"],
        summary["counts"]["empty"],
    ) == (2, 2, 2)
    rows = pq.read_table(tmp_path / "out/clusters.parquet").to_pylist()
    assert [(row["kind"], row["kept"], row["similarity"]) for row in rows[:2]] == [
        ("empty", False, None),
        ("unique", True, 1.0),
    ]


def test_repeated_ids(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": ["a", "b", "a", "c"],
            "text": ["one two three", "four five six", "seven eight nine", "one two three"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.slice(1, 1), tmp_path / "b.parquet")
    summary = finished(
        [tmp_path / "a.parquet", tmp_path / "b.parquet"],
        tmp_path / "out",
        columns=Columns(id="id"),
        source=None,
    )
    ids = pq.read_table(tmp_path / "out/clusters.parquet")["id"].to_pylist()
    assert ids == [
        "a#a.parquet:0000000000",
        "b#a.parquet:0000000001",
        "a#a.parquet:0000000002",
        "c",
        "b#b.parquet:0000000000",
    ]
    assert summary["counts"]["repeated_ids"] == 4
    assert any("4 rows share an id" in warning for warning in summary["warnings"])


def test_bad_rows_and_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"text": "one two three four"}\n{"text": \n{"text": null}\n{"text": "\xff"}\n'
    )
    (tmp_path / "b.parquet").write_bytes(b"no parquet")
    (tmp_path / "c.jsonl").write_bytes(b'{"text": "One two three four!"}\n')
    summary = finished(tmp_path, tmp_path.with_name("out"), columns=Columns(), source=None)
    counts = summary["counts"]
    assert (counts["read"], counts["kept"], counts["removed"], counts["rejected"]) == (6, 1, 1, 4)
    rejected = [
        json.loads(line)
        for line in (tmp_path.with_name("out") / "rejected.jsonl").read_text().splitlines()
    ]
    assert [(entry["file"], entry.get("row")) for entry in rejected] == [
        ("a.jsonl", 1),
        ("a.jsonl", 2),
        ("a.jsonl", 3),
        ("b.parquet", None),
    ]
    shutil.rmtree(tmp_path.with_name("out"))
    with pytest.raises(RunError, match=r"a\.jsonl, line 2: the row is not valid JSON"):
        finished(
            tmp_path, tmp_path.with_name("out"), columns=Columns(), source=None, on_error="fail"
        )


def test_a_document_of_many_megabytes(tmp_path: Path, full: bool) -> None:
    megabytes = 50 if full else 10
    large = " ".join(f"w{i % 5003}x{i % 7919}" for i in range(96_000 * megabytes))
    assert len(large) > megabytes * 1e6
    path = write_texts(tmp_path / "a.parquet", ["small one here", large, large + " and an end"])
    summary = finished(path, tmp_path / "out", columns=Columns(), source=None)
    assert (summary["counts"]["kept"], summary["counts"]["removed_near"]) == (2, 1)


def near_identical(path: Path, n: int) -> Path:
    """n texts of 120 words, each different from a common one in a word or two."""
    rng = np.random.default_rng(1)
    words = np.array([f"word{i}" for i in range(120)])
    changed = rng.integers(0, 120, (n, 2))
    texts = []
    for i in range(n):
        own = words.copy()
        own[changed[i]] = f"own{i}"
        texts.append(" ".join(own))
    return write_texts(path, texts)


def test_near_identical_documents_end_as_few_kept_ones(tmp_path: Path, full: bool) -> None:
    n = 100_000 if full else 20_000
    path = near_identical(tmp_path / "a.parquet", n)
    summary = finished(path, tmp_path / "out", columns=Columns(), source=None, max_removed=1)
    assert summary["counts"]["kept"] <= 5
    facts = summary["stages"]["candidates"]
    bands = summary["bands"]
    assert facts["candidates"] <= n * 100 * bands
    assert facts["hot_buckets"] >= 1
    assert read_report(tmp_path / "out").hot_buckets


def test_blocks_are_never_compared(corpus: Path, tmp_path: Path) -> None:
    finished(corpus / "documents", tmp_path / "out", block_by="source")
    table = pq.read_table(corpus / "documents")
    sources = dict(zip(table["id"].to_pylist(), table["source"].to_pylist(), strict=True))
    rows = pq.read_table(tmp_path / "out/clusters.parquet").to_pylist()
    assert all(sources[row["id"]] == sources[row["cluster"]] for row in rows)


def test_keep_policy_decides(corpus: Path, tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": [
                "the same words in all of these",
                "The same words in all of these.",
                "the same words IN all of these",
            ],
            "source": ["web", "gold", "books"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    columns = Columns(carried_columns=("source",))
    finished(
        tmp_path / "a.parquet",
        tmp_path / "out",
        columns=columns,
        keep="source:gold>books",
        source=None,
    )
    assert pq.read_table(tmp_path / "out/kept")["source"].to_pylist() == ["gold"]


@pytest.mark.parametrize("verify", ["estimate", "none"])
def test_report_says_that_a_run_is_not_verified(verify: str, corpus: Path, tmp_path: Path) -> None:
    summary = finished(corpus / "documents", tmp_path / "out", verify=verify)
    assert read_report(tmp_path / "out").parameters.verify == verify
    assert any(f"verify={verify}" in warning for warning in summary["warnings"])


def test_components_hold_the_floor(corpus: Path, tmp_path: Path) -> None:
    summary = finished(corpus / "documents", tmp_path / "out", cluster="components", floor=0.7)
    texts = texts_of(corpus)
    rows = [
        row
        for row in pq.read_table(tmp_path / "out/clusters.parquet").to_pylist()
        if not row["kept"]
    ]
    sets = zip(
        shingle_sets([texts[r["id"]] for r in rows]),
        shingle_sets([texts[r["cluster"]] for r in rows]),
        strict=True,
    )
    for row, (a, b) in zip(rows, sets, strict=True):
        assert row["similarity"] == pytest.approx(jaccard(a, b), abs=1e-12)
        assert len(a & b) >= 0.7 * len(a | b)
    assert summary["counts"]["removed"] == len(rows)


def test_small_corpora_are_compared_completely(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    pq.write_table(pq.read_table(corpus / "documents").slice(0, 1500), path)
    run_pairs(job(path, tmp_path / "all.parquet", threshold=0.3), Silent(), expand_exact=True)
    found = {
        (row["id_a"], row["id_b"]) for row in pq.read_table(tmp_path / "all.parquet").to_pylist()
    }
    texts = {
        name: text
        for name, text in zip(
            *(pq.read_table(path)[c].to_pylist() for c in ("id", "text")), strict=True
        )
        if text
    }
    sets = dict(zip(texts, shingle_sets(list(texts.values())), strict=True))
    postings: dict[int, list[str]] = {}
    for name, values in sets.items():
        for value in values:
            postings.setdefault(value, []).append(name)
    suspects = {
        (a, b) for names in postings.values() for i, a in enumerate(names) for b in names[i + 1 :]
    }
    assert found == {pair for pair in suspects if jaccard(sets[pair[0]], sets[pair[1]]) >= 0.3}


CLONED = ("pip/_vendor/rich", "rich", "multiprocess", "multiprocessing", "packaging", "encodings")
"""Packages of this Python installation that exist twice in part."""


@pytest.fixture(scope="session")
def source_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from nearkin.quality.lab.demo_corpus import installation_folders, write_source_corpus

    copied = tmp_path_factory.mktemp("packages")
    for folder in installation_folders():
        for package in CLONED:
            if (folder / package).is_dir():
                shutil.copytree(folder / package, copied / package, dirs_exist_ok=True)
    path = tmp_path_factory.mktemp("code") / "code.parquet"
    write_source_corpus(path, limit=4900, folders=[copied])
    return path


LOWEST = 0.5


def similarities(path: Path) -> dict[tuple[str, str], float]:
    """Returns the similarity of each pair of a file."""
    return {
        (row["id_a"], row["id_b"]): row["similarity"] for row in pq.read_table(path).to_pylist()
    }


@pytest.fixture(scope="session")
def compared(
    source_code: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], float]:
    """The similarities of all pairs of that code, from the lowest threshold on."""
    path = tmp_path_factory.mktemp("compared") / "all.parquet"
    common = {"columns": Columns(id="id"), "source": None, "threshold": LOWEST}
    run_pairs(job(source_code, path, **common), Silent())
    return similarities(path)


@pytest.mark.parametrize("threshold", [LOWEST, 0.8, 0.9])
def test_real_text_against_brute_force(
    threshold: float,
    source_code: Path,
    compared: dict[tuple[str, str], float],
    tmp_path: Path,
) -> None:
    """Candidates from bands, on code of this Python, against every pair compared."""
    columns = Columns(id="id")
    common = {"columns": columns, "source": None, "threshold": threshold}
    banding = solve_banding(threshold, 0.95, 128)
    run_pairs(
        job(
            source_code,
            tmp_path / "lsh.parquet",
            bands=banding.bands,
            rows=banding.rows,
            hot_bucket_size=5000,
            **common,
        ),
        Silent(),
    )
    found = similarities(tmp_path / "lsh.parquet")
    truth = {pair: value for pair, value in compared.items() if value >= threshold}
    assert found.items() <= truth.items()
    assert len(truth) > 20
    assert len(found) >= 0.95 * len(truth)


def test_nothing_is_left_beside_the_output(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "only" / "out"
    finished(corpus / "documents", out)
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert sorted(path.name for path in out.iterdir()) == [
        ".nearkin-output.json",
        "clusters.parquet",
        "kept",
        "pairs.parquet",
        "rejected.jsonl",
        "report.html",
        "report.json",
        "run.json",
    ]


def test_hash_key_is_not_sent_to_the_tasks_of_other_processes(tmp_path: Path) -> None:
    class Elsewhere:
        workers = 1
        shares_memory = False
        shares_files = True

        def at(self, work: Path) -> Any:
            raise AssertionError

        def map(self, task: Any, items: Any) -> Any:
            raise AssertionError

    key = nk.HashKey(bytes(16))
    with pytest.raises(nk.UsageError, match="a hash key is not sent to the tasks of other"):
        nk.dedup(["a b c d"], key=key, executor=Elsewhere())
    with pytest.raises(nk.UsageError, match="executor='spark' is of type str; give"):
        nk.dedup(["a b c d"], executor="spark")  # type: ignore[arg-type]
