"""Jobs: from input files to a finished output folder, resumable until then, there whole or not at all."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus import (
    Batch,
    Columns,
    FileCorpus,
    TableCorpus,
    count_reasons,
    describe,
    first_change,
    make_ids,
    write_kept,
)
from nearkin.corpus.discovery import Selection
from nearkin.corpus.files import FileStatus
from nearkin.corpus.signatures import SignatureWriter
from nearkin.engine.local import tables
from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.containment import find_contained
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.sketching import REJECTED
from nearkin.engine.local.staged import second_pair_batches, to_final_clusters
from nearkin.engine.local.work import MANIFEST, WorkFolder
from nearkin.engine.memory import PeakMemory
from nearkin.engine.progress import Progress
from nearkin.engine.settings import Settings
from nearkin.errors import UsageError
from nearkin.evaluate.fleet import FleetMetrics
from nearkin.measures import measure_of
from nearkin.release import VERSION
from nearkin.report.collect import Wanted, collect, statistics
from nearkin.report.data import ReportData
from nearkin.report.page import render
from nearkin.runtime.files import disk_errors, to_json, write_durably
from nearkin.sketch.materials import NOTHING, Materials
from nearkin.sketch.sketcher import Sketches
from nearkin.spec import Spec
from nearkin.threads import Borrowed, ordered_map

RUN = "run.json"
SIGNATURES = "signatures"
SKIPPED_LISTED = 1000
"""Skipped files and folders that run.json names; the rest is counted."""


@dataclass(frozen=True)
class Job:
    """What to read, what to do with it, and where it goes.

    Attributes:
        inputs: Paths, globs, folders, URLs; or one folder of a run saved with signatures.
        out: The output folder (for `pairs`, the output file).
        columns: What of the inputs is read.
        settings: The request.
        annotate: Keep all rows and add the cluster columns, instead of dropping removed rows.
        save_signatures: Keep signatures and band keys in the output.
        resume: Go on with what a killed run left.
        overwrite: Replace an output that exists.
        on_error: `quarantine` or `fail`, for rows and files that cannot be read.
        quoted: How many of the largest clusters are quoted in run.json (the page shows twenty).
        materials: The key and the tables that the Spec names; the key is in no record.
        selection: Which files of input folders are read.
        statuses: The statuses of files that were read before the run, by path: the run must find the same.
    """

    inputs: tuple[str, ...]
    out: Path
    columns: Columns
    settings: Settings
    annotate: bool = False
    save_signatures: bool = False
    resume: bool = False
    overwrite: bool = False
    on_error: str = "quarantine"
    quoted: int = 20
    materials: Materials = NOTHING
    selection: Selection = field(default_factory=Selection)
    statuses: Mapping[str, FileStatus] = field(default_factory=dict)

    def corpus(self) -> FileCorpus:
        """Finds the input files."""
        corpus = FileCorpus.open(self.inputs, self.on_error, self.settings.memory // 32, self.selection)
        corpus.statuses.update(self.statuses)
        return corpus

    @property
    def partial(self) -> Path:
        """Where the run works until it is finished."""
        return partial_of(self.out)

    def identity(self, command: str) -> dict[str, Any]:
        """What a resumed run must share."""
        return {
            "command": command,
            "spec": json.loads(self.settings.spec.to_json()),
            "parameters": self.settings.parameters(),
            "columns": asdict(self.columns),
            "annotate": self.annotate,
            "save_signatures": self.save_signatures,
        }


@dataclass(frozen=True)
class Saved:
    """A finished run that kept its signatures: an input that needs no sketching."""

    folder: Path
    record: dict[str, Any]

    @classmethod
    def find(cls, inputs: tuple[str, ...]) -> "Saved | None":
        """The saved run that the inputs name, if that is what they name."""
        folder = Path(inputs[0])
        if len(inputs) != 1 or not (folder / RUN).is_file():
            return None
        if not (folder / SIGNATURES).is_dir():
            raise UsageError(f"{folder} is a run without signatures; run it again with --save-signatures to use it as an input")
        return cls(folder, read_run(folder / RUN))

    @property
    def spec(self) -> Spec:
        """Of its signatures."""
        return Spec.from_json(json.dumps(self.record["spec"]))

    def corpus(self, on_error: str) -> FileCorpus:
        """The inputs it was made from, unchanged, or an error."""
        corpus = FileCorpus.open([entry["path"] for entry in self.record["inputs"]], on_error=on_error)
        if change := first_change(self.record["inputs"], corpus):
            raise UsageError(f"{self.folder} cannot be an input: {change}; run nearkin dedup on the inputs themselves")
        return corpus


def dedup_job(job: Job, progress: Progress) -> dict[str, Any]:
    """Deduplicates files into `job.out`; returns the summary that run.json holds."""
    saved = Saved.find(job.inputs)
    if saved is not None:
        job = _over_saved(job, saved)
    if (finished := finished_already(job)) is not None:
        return finished
    corpus = saved.corpus(job.on_error) if saved else job.corpus()
    with PeakMemory() as memory:
        work = _claim(job, "dedup", corpus)
        if saved is not None:
            _take_signatures(saved, work)
        run = LocalRun(corpus, job.columns, job.settings, work, progress, job.materials)
        result = to_final_clusters(run)
        wanted = Wanted(run, result, job.quoted)
        staging = work.folder("result")
        _write_outputs(job, corpus, run, result, wanted, staging)
    data = collect(run, result, wanted, count_reasons(staging / REJECTED), ", ".join(job.inputs), memory.peak)
    summary = summary_of(job, run.work.manifest["inputs"], run.work.manifest["stages"], data, corpus)
    return _finish(job, work, staging, summary, data)


def _over_saved(job: Job, saved: Saved) -> Job:
    """An existing artefact's Spec and columns win over defaults."""
    columns = Columns(**{**saved.record["columns"], "extra": job.columns.extra})
    missing = sorted(set(columns.extra) - set(saved.record["columns"]["extra"]))
    if missing:
        raise UsageError(
            f"column {missing[0]!r} was not kept by the run {saved.folder} (it has {saved.record['columns']['extra']}); "
            "run nearkin dedup on its inputs instead"
        )
    columns = replace(columns, extra=tuple(saved.record["columns"]["extra"]))
    return replace(job, settings=job.settings.with_spec(saved.spec), columns=columns)


def _take_signatures(saved: Saved, work: WorkFolder) -> None:
    if work.done("sketch") is None:
        with work.stage("sketch") as facts:
            shutil.copytree(saved.folder / SIGNATURES, work.path / "sketch", dirs_exist_ok=True)
            facts.update(saved.record["stages"]["sketch"])


def require_free(out: Path, resume: bool, overwrite: bool) -> None:
    """An output folder must not exist, nor what a killed run left of it, unless it may be continued or replaced."""
    there = next((path for path in (out, partial_of(out)) if path.exists()), None)
    if there is not None and not (resume or overwrite):
        raise UsageError(f"{there} exists; continue it with --resume, replace it with --overwrite, or choose another --out")


def partial_of(out: Path) -> Path:
    """Where a run works until it is finished."""
    return out.with_name(out.name + ".partial")


def finished_already(job: Job) -> dict[str, Any] | None:
    """The summary of an output that is complete, when resuming; an error when it is in the way."""
    require_free(job.out, job.resume, job.overwrite)
    if job.overwrite or not job.out.exists():
        return None
    if job.partial.exists():
        return None
    return read_run(job.out / RUN)


def read_run(path: Path) -> dict[str, Any]:
    """The facts of a finished run."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.parent} is not the output of a run ({error})") from error
    return record


def _claim(job: Job, command: str, corpus: FileCorpus) -> WorkFolder:
    """A work folder of this run: the one a killed run left, or a new one."""
    identity = job.identity(command)
    with disk_errors(job.out.parent):
        job.out.parent.mkdir(parents=True, exist_ok=True)
    if job.resume and (job.partial / MANIFEST).exists():
        work = WorkFolder.resume(job.partial, identity)
        if change := first_change(work.manifest["inputs"], corpus):
            raise UsageError(f"cannot resume {job.partial}: {change}. Run with --overwrite to start again")
        return work
    return WorkFolder.create(job.partial, identity, inputs=describe(corpus))


def _write_outputs(job: Job, corpus: FileCorpus, run: LocalRun, result: Clustering, wanted: Wanted, staging: Path) -> None:
    """kept/ and the tables."""
    run.progress.stage("write", len(result.kept))
    with run.work.stage("write"):
        shutil.rmtree(staging / "kept", ignore_errors=True)
        kept = staging / "kept"
        kept.mkdir()
        rows = _annotations(run, result) if job.annotate else None
        write_kept(corpus, run.columns, np.asarray(result.kept), kept, rows, wanted.observe, run.progress.advance)
        _write_tables(run, result, staging)


def _write_tables(run: LocalRun, result: Clustering, folder: Path) -> None:
    """clusters.parquet, pairs.parquet, rejected.jsonl."""
    documents = run.documents()
    tables.write_batches(folder / "clusters.parquet", tables.CLUSTERS, tables.cluster_batches(documents.ids, result))
    tables.write_batches(folder / "pairs.parquet", tables.pairs_schema(run), tables.pair_batches(run))
    shutil.copyfile(run.work.path / "sketch" / REJECTED, folder / REJECTED)
    if run.settings.second is not None:
        path = folder / f"pairs-{run.settings.second.measure}.parquet"
        tables.write_batches(path, tables.PAIRS, second_pair_batches(run))


def write_result(run: LocalRun, result: Clustering, data: ReportData, folder: Path) -> Path:
    """The outputs of a run that the library made, into a new folder; a table's kept rows as kept/documents.parquet."""
    if folder.exists():
        raise UsageError(f"{folder} exists; choose another folder")
    staging = folder.with_name(folder.name + ".partial")
    with disk_errors(folder.parent):
        shutil.rmtree(staging, ignore_errors=True)
        (staging / "kept").mkdir(parents=True)
        if isinstance(run.corpus, TableCorpus):
            rows = np.asarray(run.documents().rows)[np.asarray(result.kept)]
            pq.write_table(run.corpus.table.take(pa.array(rows)), staging / "kept" / "documents.parquet")
        elif isinstance(run.corpus, FileCorpus):
            write_kept(run.corpus, run.columns, np.asarray(result.kept), staging / "kept")
        _write_tables(run, result, staging)
        (staging / "report.html").write_text(render(data), "utf-8")
        facts = {
            "nearkin": VERSION,
            "spec": json.loads(run.settings.spec.to_json()),
            "parameters": run.settings.parameters(),
            "counts": statistics(data),
            "stages": run.work.manifest["stages"],
            "metrics": FleetMetrics.of_stages(run.work.manifest["stages"]).to_dict(),
            "report": data.to_dict(),
        }
        write_durably(staging / RUN, to_json(facts))
        staging.rename(folder)
    return folder


def _annotations(run: LocalRun, result: Clustering) -> Callable[[int, int], pa.RecordBatch]:
    """The cluster columns of a range of ordinals."""
    ids = run.documents().ids

    def rows(start: int, end: int) -> pa.RecordBatch:
        return tables.cluster_rows(ids, result, start, end).drop_columns(["id"])

    return rows


def summary_of(
    job: Job, inputs: list[dict[str, Any]], stages: dict[str, dict[str, Any]], data: ReportData, corpus: FileCorpus
) -> dict[str, Any]:
    """What run.json holds of a job.

    Args:
        job: It.
        inputs: As `describe` says of the files.
        stages: What each stage recorded.
        data: The report.
        corpus: The inputs.
    """
    return {
        "nearkin": VERSION,
        **job.identity("dedup"),
        "spec_fingerprint": job.settings.spec.fingerprint,
        "bands": data.parameters.bands,
        "rows": data.parameters.rows,
        "memory": job.settings.memory,
        "workers": job.settings.workers,
        "inputs": inputs,
        "skipped": {"count": len(corpus.skipped), "first": [entry._asdict() for entry in corpus.skipped[:SKIPPED_LISTED]]},
        "counts": statistics(data),
        "stages": stages,
        "metrics": FleetMetrics.of_stages(stages).to_dict(),
        "seconds": round(data.total_seconds, 3),
        "peak_memory": data.peak_memory,
        "out": str(job.out),
        "warnings": list(data.all_warnings),
        "report": data.to_dict(),
    }


def _finish(job: Job, work: WorkFolder, staging: Path, summary: dict[str, Any], data: ReportData) -> dict[str, Any]:
    if job.save_signatures:
        with disk_errors(staging):
            (work.path / "sketch").replace(staging / SIGNATURES)
            if (work.path / "keys").exists():
                (work.path / "keys").replace(staging / SIGNATURES / "keys")
    publish(job, staging, summary, data)
    work.remove()
    return summary


def publish(job: Job, staging: Path, summary: dict[str, Any], data: ReportData) -> None:
    """run.json and the report, then one rename."""
    with disk_errors(staging):
        (staging / "report.html").write_text(render(data), "utf-8")
        write_durably(staging / RUN, to_json(summary))
        job.materials.write(staging, job.settings.spec)
        if job.out.exists():
            _remove(job.out)
        staging.replace(job.out)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


RELATIONS = ("similarity", "containment")


def require_relation(relation: str) -> None:
    """It is one that `pairs` knows."""
    if relation not in RELATIONS:
        raise UsageError(f"relation={relation!r} is not one of {', '.join(RELATIONS)}")


@contextmanager
def pairs_run(job: Job, progress: Progress, relation: str = "similarity") -> Iterator[LocalRun]:
    """A run up to what pairs are found from; its work folder goes away at the end, or stays for --resume after a failure."""
    require_relation(relation)
    saved = Saved.find(job.inputs)
    if saved is not None:
        job = _over_saved(job, saved)
    claim_file(job.out, job.overwrite)
    if job.partial.exists() and not (job.resume or job.overwrite):
        raise UsageError(f"{job.partial} was left by a run; continue it with --resume, or start again with --overwrite")
    corpus = saved.corpus(job.on_error) if saved else job.corpus()
    work = _claim(job, f"pairs by {relation}", corpus)
    if saved is not None:
        _take_signatures(saved, work)
    run = LocalRun(corpus, job.columns, job.settings, work, progress, job.materials)
    if relation == "similarity":
        run.to_pairs()
    else:
        run.to_exact_groups()
    yield run
    work.remove()


def pair_table(run: LocalRun, relation: str, expand_exact: bool) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The table that `pairs` makes of a run."""
    if relation == "containment":
        if expand_exact:
            raise UsageError("relation containment lists exact groups by one member; leave out --expand-exact")
        return tables.CONTAINED, tables.contained_batches(find_contained(run), run.documents().ids)
    return tables.pairs_schema(run), tables.expanded_pair_batches(run) if expand_exact else tables.pair_batches(run)


def pairs_job(job: Job, expand_exact: bool, progress: Progress, relation: str = "similarity") -> dict[str, Any]:
    """Writes all verified pairs into `job.out` (parquet); exact groups by one member unless expanded."""
    with PeakMemory() as memory, pairs_run(job, progress, relation) as run:
        schema, batches = pair_table(run, relation, expand_exact)
        staged = run.work.path / "pairs.parquet"
        with disk_errors(job.out.parent):
            rows = tables.write_batches(staged, schema, batches)
            staged.replace(job.out)
        stages = run.work.manifest["stages"]
    return {"out": str(job.out), "pairs": rows, "stages": stages, "peak_memory": memory.peak, **job.identity("pairs")}


@dataclass(frozen=True)
class SketchJob:
    """What to sketch, and where the signature file goes."""

    inputs: tuple[str, ...]
    out: Path
    columns: Columns
    spec: Spec
    workers: int = 2
    overwrite: bool = False
    on_error: str = "quarantine"
    materials: Materials = NOTHING
    selection: Selection = field(default_factory=Selection)


def sketch_job(job: SketchJob, progress: Progress) -> dict[str, Any]:
    """Writes signatures of files; rejected rows are counted by reason."""
    if (Path(job.inputs[0]) / RUN).is_file():
        raise UsageError(f"{job.inputs[0]} is the output of a run; sketch the inputs that it was made from")
    claim_file(job.out, job.overwrite)
    corpus = FileCorpus.open(job.inputs, job.on_error, selection=job.selection)
    corpus.check(job.columns)
    sketchers = Borrowed(measure_of(job.spec, job.materials).sketcher)

    def sketch(batch: Batch) -> tuple[Batch, Sketches]:
        return batch, sketchers.use(lambda tool: tool.sketch(batch.documents[job.columns.content]))

    documents, rejected = 0, Counter[str]()
    progress.stage("sketch", None)
    with disk_errors(job.out.parent), SignatureWriter(job.out, job.spec) as writer:
        for batch, sketches in ordered_map(sketch, corpus.batches(job.columns), job.workers):
            writer.add(make_ids(batch, job.columns, corpus.names), sketches.signatures, sketches.shingles)
            documents += len(batch.rows)
            rejected.update(entry.reason.partition(":")[0] for entry in batch.rejected)
            progress.advance(len(batch.rows))
        job.materials.write(job.out.parent, job.spec, f"{job.out.name}.")
    return {
        "out": str(job.out),
        "documents": documents,
        "rejected": rejected.total(),
        "reasons": dict(sorted(rejected.items())),
        "spec": json.loads(job.spec.to_json()),
        "spec_fingerprint": job.spec.fingerprint,
    }


def claim_file(out: Path, overwrite: bool) -> None:
    """An output file must not exist, unless it may be replaced; its folder is made."""
    if out.is_dir():
        raise UsageError(f"{out} is a folder; give the name of a file with --out")
    if out.exists() and not overwrite:
        raise UsageError(f"{out} exists; replace it with --overwrite, or choose another --out")
    with disk_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
