"""Jobs: from input files to a finished output folder, resumable until then, there whole or not at all."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from nearkin.corpus.file_names import has_hidden_password, without_password
from nearkin.corpus.input_file import FileStatus
from nearkin.corpus.inputs import Selection
from nearkin.engine.local import result_tables as tables
from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.containment import find_contained, require_containable
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.second_measure import second_pair_batches, to_final_clusters, vector_columns
from nearkin.engine.local.sketching import REJECTED
from nearkin.engine.local.work_folder import WorkFolder, first_difference
from nearkin.engine.options import Settings
from nearkin.errors import UsageError
from nearkin.measures import measure_of
from nearkin.report.collect import Wanted, collect, skipped_warnings, statistics
from nearkin.report.model import ReportData
from nearkin.report.saved import write_report
from nearkin.runtime.files import Readers, disk_errors, set_readers, to_json, write_durably
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.outputs import (
    MANIFEST,
    RESULT,
    Claim,
    claimed,
    is_half_written,
    read_marker,
    require_apart,
    require_replaceable_file,
    require_replaceable_folder,
    require_work_folder,
    work_folder_of,
)
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.sketch.resources import CUT, FREQUENCIES, NO_RESOURCES, SpecResources, is_frequencies_file
from nearkin.sketch.signature_file import SignatureWriter, is_signature_file
from nearkin.sketch.sketcher import Sketches
from nearkin.spec import Spec
from nearkin.version import VERSION

RUN = "run.json"
SIGNATURES = "signatures"
SKIPPED_LISTED = 1000
"""Skipped files and folders that run.json names; the rest is counted."""
ABOUT = b"nearkin.run"
"""The entry of a pairs file's footer that says what was asked for, and of which inputs."""


@dataclass(frozen=True)
class Job:
    """A run: its inputs, its settings and its output.

    Attributes:
        inputs: Paths, globs, folders, URLs; or one folder of a run saved with signatures.
        out: The output folder (for `pairs`, the output file).
        columns: The parts of the inputs that are read.
        settings: The request.
        annotate: Keep all rows and add the cluster columns, instead of dropping removed rows.
        save_signatures: Keep signatures and band keys in the output.
        resume: Resume an interrupted run.
        overwrite: Replace an output that exists.
        on_error: `quarantine` or `fail`, for rows and files that cannot be read.
        quoted: Number of the largest clusters that are quoted in report.json (the page shows twenty).
        resources: The key and the tables that the Spec names; the key is in no record.
        selection: Which files of input folders are read.
        statuses: The statuses of files that were read before the run, by path: the run must find the same.
        readers: Who may read the output.
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
    resources: SpecResources = NO_RESOURCES
    selection: Selection = field(default_factory=Selection)
    statuses: Mapping[str, FileStatus] = field(default_factory=dict)
    readers: Readers = Readers.OWNER

    def corpus(self) -> FileCorpus:
        """Finds the input files."""
        corpus = FileCorpus.open(self.inputs, self.on_error, self.settings.memory // 32, self.selection)
        corpus.statuses.update(self.statuses)
        return corpus

    @property
    def partial(self) -> Path:
        """Where the run works until it is finished."""
        return work_folder_of(self.out)

    def identity(self, command: str, **other: Any) -> dict[str, Any]:
        """Returns the parameters that must be unchanged for a run to be resumed.

        Args:
            command: The name of the command.
            **other: Its own options that decide the result.
        """
        return {
            **other,
            "command": command,
            "spec": json.loads(self.settings.spec.to_json()),
            "parameters": self.settings.parameters(),
            "columns": self.columns.identity(),
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
        paths = [entry["path"] for entry in self.record["inputs"]]
        if (hidden := next(filter(has_hidden_password, paths), None)) is not None:
            raise UsageError(
                f"{self.folder} cannot be used again: its input {hidden} was given with a password, which is not recorded; "
                "copy the inputs, or configure the credentials of the storage, and run nearkin dedup again"
            )
        corpus = FileCorpus.open(paths, on_error=on_error)
        if change := first_change(self.record["inputs"], corpus):
            raise UsageError(f"{self.folder} cannot be an input: {change}; run nearkin dedup on the inputs themselves")
        return corpus


def dedup_job(job: Job, progress: Progress) -> dict[str, Any]:
    """Deduplicates files into `job.out`; returns the summary that run.json holds.

    Raises:
        UsageError: If the request is invalid. Nothing was written then.
        RunError: If the run failed. It can be resumed if it got as far as a first result.
    """
    require_free(job.out, job.resume, job.overwrite)
    saved = Saved.find(job.inputs)
    if saved is not None:
        job = _over_saved(job, saved)
    corpus = open_corpus(job, saved)
    check_request(job, corpus)
    identity = job.identity("dedup")
    if (finished := finished_already(job, identity, corpus)) is not None:
        return finished
    with PeakMemory() as memory, _work_on(job, identity, corpus) as (claim, work):
        if saved is not None:
            _take_signatures(saved, work)
        run = LocalRun(corpus, job.columns, job.settings, work, progress, job.resources)
        result = to_final_clusters(run)
        wanted = Wanted(run, result, job.quoted)
        staging = work.path / RESULT
        _write_outputs(job, corpus, run, result, wanted, staging)
        data = collect(
            run, result, wanted, count_reasons(staging / REJECTED), ", ".join(map(without_password, job.inputs)), memory.peak
        )
        # what the report itself took counts too
        data = replace(data, peak_memory=memory.peak)
        summary = summary_of(job, work.manifest["inputs"], work.manifest["stages"], data, corpus)
        if job.save_signatures:
            _keep_signatures(work, staging)
        publish(job, claim, work.manifest["run"], identity, summary, data, _replaces(job, work))
    return summary


def open_corpus(job: Job, saved: Saved | None) -> FileCorpus:
    """Opens the files that a job reads: the inputs, or those that a saved run was made from."""
    if saved is not None:
        return saved.corpus(job.on_error)
    return job.corpus()


def check_request(job: Job, corpus: FileCorpus) -> None:
    """Checks what can be checked before anything is written.

    Raises:
        UsageError: If the output would replace an input, a column does not exist, or the Spec's key or tables are missing.
    """
    require_apart(job.out, [*job.inputs, *(file.path for file in corpus.files)])
    corpus.check(job.columns)
    if job.settings.second is not None:
        corpus.check(vector_columns(job.columns, job.settings.second.column))
    # a sketcher needs the key and the tables that the Spec names
    measure_of(job.settings.spec, job.resources, job.settings.distance).sketcher()


def _over_saved(job: Job, saved: Saved) -> Job:
    """Returns the job over the saved run's Spec and columns.

    Raises:
        UsageError: If the job asks for another Spec or other columns than the saved run has.
    """
    columns = Columns(**{**saved.record["columns"], "extra": job.columns.extra})
    _require_same_columns(job.columns, columns, saved.folder)
    if job.settings.spec not in (Spec(), saved.spec):
        asked, kept = (json.loads(spec.to_json()) for spec in (job.settings.spec, saved.spec))
        raise UsageError(
            f"the request contradicts the saved run {saved.folder}: {first_difference(kept, asked, 'spec')}; leave it out, "
            "or run on the inputs of the saved run"
        )
    missing = sorted(set(columns.extra) - set(saved.record["columns"]["extra"]))
    if missing:
        raise UsageError(
            f"column {missing[0]!r} was not kept by the run {saved.folder} (it has {saved.record['columns']['extra']}); "
            "run nearkin dedup on its inputs instead"
        )
    columns = replace(columns, extra=tuple(saved.record["columns"]["extra"]))
    return replace(job, settings=job.settings.with_spec(saved.spec), columns=columns)


def _require_same_columns(asked: Columns, saved: Columns, folder: Path) -> None:
    """Requires that columns which were named, and are not the default, are those of the saved run."""
    default = Columns()
    for name in ("text", "tokens", "vector", "id"):
        value = getattr(asked, name)
        if value not in (None, getattr(default, name), getattr(saved, name)):
            raise UsageError(
                f"--{name} {value} contradicts the saved run {folder}, which was made with {described_column(saved, name)}; "
                "leave it out, or run on the inputs of the saved run"
            )


def described_column(columns: Columns, name: str) -> str:
    """Returns how an option for a column was given."""
    value = getattr(columns, name)
    return f"no --{name}" if value is None else f"--{name} {value}"


def _take_signatures(saved: Saved, work: WorkFolder) -> None:
    if work.done("sketch") is None:
        with work.stage("sketch") as facts:
            _delete_folder(work.path / "sketch")
            shutil.copytree(saved.folder / SIGNATURES, work.path / "sketch", ignore=_all_but_keys(saved.folder / SIGNATURES))
            facts.update(saved.record["stages"]["sketch"])


def _keep_signatures(work: WorkFolder, staging: Path) -> None:
    """Puts the signatures and band keys into the result. They stay in the work folder too, so that this may be repeated."""
    with disk_errors(staging):
        kept = staging / SIGNATURES
        _delete_folder(kept)
        sketch = work.path / "sketch"
        shutil.copytree(sketch, kept, copy_function=_link, ignore=_all_but_keys(sketch))
        if (work.path / "keys").is_dir():
            shutil.copytree(work.path / "keys", kept / "keys", copy_function=_link)


def _all_but_keys(folder: Path) -> Callable[[Any, list[str]], set[str]]:
    """Returns a filter for copytree: without band keys, which belong to a banding, and without half-written files."""

    def ignored(parent: Any, names: list[str]) -> set[str]:
        half_written = {name for name in names if is_half_written(name)}
        return half_written | {"keys"} & set(names) if Path(parent) == folder else half_written

    return ignored


def _link(source: str, target: str) -> None:
    """Gives a file a second name, or copies it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _delete_folder(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def require_free(out: Path, resume: bool, overwrite: bool) -> None:
    """Requires that an output folder does not exist, nor what a killed run left of it, unless it may be continued or replaced.

    Raises:
        UsageError: If it exists and may not be replaced. The message says why.
    """
    partial = work_folder_of(out)
    require_work_folder(partial)
    if overwrite and os.path.lexists(out):
        require_replaceable_folder(out)
    if resume or overwrite:
        return
    for there, path in ((out, out), (partial, partial / MANIFEST)):
        if os.path.lexists(path):
            raise UsageError(f"{there} exists; continue it with --resume, replace it with --overwrite, or choose another --out")


def finished_already(job: Job, identity: dict[str, Any], corpus: FileCorpus) -> dict[str, Any] | None:
    """Returns the summary of a finished output that a run is asked to resume, or None if there is something left to do.

    Args:
        job: The job.
        identity: The parameters of the request.
        corpus: Its inputs.

    Raises:
        UsageError: If the output is the result of another request, or of inputs that have changed since.
    """
    if job.overwrite or not job.resume or not os.path.lexists(job.out):
        return None
    marker = read_marker(job.out)
    begun = _run_in(job.partial)
    if begun is not None and (marker is None or marker["run"] != begun):
        return None
    record = read_run(job.out / RUN)
    if marker is None:
        raise UsageError(f"{job.out} is not the output of a run that can be resumed; choose another --out")
    if difference := first_difference(marker["identity"], json.loads(json.dumps(identity))):
        raise UsageError(
            f"{job.out} is finished and was made with other settings: {difference}; replace it with --overwrite, or choose "
            "another --out"
        )
    if change := first_change(record["inputs"], corpus):
        raise UsageError(f"{job.out} is finished, but {change}; replace it with --overwrite, or choose another --out")
    if os.path.lexists(job.partial):
        # the run was killed while it was cleaning up
        Claim.take(job.out, "nearkin dedup").remove()
    return record


def _run_in(partial: Path) -> str | None:
    """Returns the id of the run whose work folder this is, or None if there is nothing to resume."""
    try:
        return str(json.loads((partial / MANIFEST).read_bytes())["run"])
    except (OSError, ValueError, KeyError):
        return None


def read_run(path: Path) -> dict[str, Any]:
    """The facts of a finished run."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.parent} is not the output of a run ({error})") from error
    return record


@contextmanager
def _work_on(job: Job, identity: dict[str, Any], corpus: FileCorpus) -> Iterator[tuple[Claim, WorkFolder]]:
    """Holds the work folder of a run: the one that a killed run left, if it is resumed, or a new one.

    The folder is deleted when the run is done. After a failure it stays if there is something to resume in it.
    """
    claim = Claim.take(job.out, f"nearkin {identity['command'].partition(' ')[0]}")
    complete = False
    work: WorkFolder | None = None
    try:
        work = _begin(job, claim, identity, corpus)
        yield claim, work
        complete = True
    finally:
        kept = (claim.path / MANIFEST).exists() if work is None else work.has_results
        if kept and not complete:
            claim.release()
        else:
            with disk_errors(claim.path):
                claim.remove()


def _begin(job: Job, claim: Claim, identity: dict[str, Any], corpus: FileCorpus) -> WorkFolder:
    if not (job.resume and (claim.path / MANIFEST).exists()):
        inputs = describe(corpus)
        with disk_errors(claim.path):
            claim.clear()
        return WorkFolder.create(claim.path, identity, inputs=inputs, replaces=job.overwrite)
    work = WorkFolder.resume(claim.path, identity)
    if change := first_change(work.manifest["inputs"], corpus):
        raise UsageError(f"cannot resume {job.partial}: {change}. Run with --overwrite to start again")
    if os.path.lexists(job.out) and not _replaces(job, work):
        raise UsageError(
            f"{job.out} exists, and the run in {job.partial} was begun without --overwrite; resume it with --overwrite"
        )
    return work


def _replaces(job: Job, work: WorkFolder) -> bool:
    """Returns whether the run may replace an output: asked for now, or when it was begun."""
    return job.overwrite or bool(work.manifest["replaces"])


def _write_outputs(job: Job, corpus: FileCorpus, run: LocalRun, result: Clustering, wanted: Wanted, staging: Path) -> None:
    """kept/ and the tables."""
    run.progress.stage("write", len(result.kept))
    with run.work.stage("write"):
        _delete_folder(staging)
        kept = staging / "kept"
        kept.mkdir(parents=True)
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


def write_result(run: LocalRun, result: Clustering, data: ReportData, folder: Path, readers: Readers = Readers.OWNER) -> Path:
    """The outputs of a run that the library made, into a new folder; a table's kept rows as kept/documents.parquet."""
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists; choose another folder")
    if isinstance(run.corpus, FileCorpus):
        require_apart(folder, [file.path for file in run.corpus.files])
    facts = {
        "nearkin": VERSION,
        "spec": json.loads(run.settings.spec.to_json()),
        "parameters": run.settings.parameters(),
        "counts": statistics(data),
        "stages": run.work.manifest["stages"],
        "metrics": QualityMetrics.from_stages(run.work.manifest["stages"]).to_dict(),
    }
    with claimed(folder, "write", replaces=False) as claim, disk_errors(folder.parent):
        staging = claim.path / RESULT
        (staging / "kept").mkdir(parents=True)
        if isinstance(run.corpus, TableCorpus):
            rows = np.asarray(run.documents().rows)[np.asarray(result.kept)]
            pq.write_table(run.corpus.table.take(pa.array(rows)), staging / "kept" / "documents.parquet")
        elif isinstance(run.corpus, FileCorpus):
            write_kept(run.corpus, run.columns, np.asarray(result.kept), staging / "kept")
        _write_tables(run, result, staging)
        write_report(staging, data)
        write_durably(staging / RUN, to_json(facts))
        set_readers(staging, readers)
        identity = {"command": "write", "spec": facts["spec"], "parameters": facts["parameters"]}
        claim.publish_folder(staging, run.work.manifest["run"], identity, replaces=False)
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
    """Returns the content of run.json.

    Args:
        job: The job.
        inputs: Entries of `describe` for the files.
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
        "metrics": QualityMetrics.from_stages(stages).to_dict(),
        "seconds": round(data.total_seconds, 3),
        "peak_memory": data.peak_memory,
        "out": str(job.out),
        "warnings": list(data.all_warnings),
    }


def publish(
    job: Job, claim: Claim, run: str, identity: dict[str, Any], summary: dict[str, Any], data: ReportData, replaces: bool
) -> None:
    """Completes the result in the work folder and gives it its name; what was there before stays until then.

    Args:
        job: The job.
        claim: Its work folder.
        run: The id of the run.
        identity: The parameters that must be unchanged for a run to be resumed.
        summary: The content of run.json.
        data: The content of the report.
        replaces: Whether a result that is there is replaced.
    """
    staging = claim.path / RESULT
    with disk_errors(staging):
        write_report(staging, data)
        write_durably(staging / RUN, to_json(summary))
        job.resources.write(staging, job.settings.spec)
        set_readers(staging, job.readers)
    claim.publish_folder(staging, run, identity, replaces=replaces)


RELATIONS = ("similarity", "containment")


def require_relation(relation: str, settings: Settings, expand_exact: bool) -> None:
    """Requires a relation that `pairs` knows, with settings that go with it.

    Raises:
        UsageError: If the relation is unknown, or another option contradicts it.
    """
    if relation not in RELATIONS:
        raise UsageError(f"relation={relation!r} is not one of {', '.join(RELATIONS)}")
    if relation == "containment":
        require_containable(settings.spec)
        if expand_exact:
            raise UsageError("relation containment lists exact groups by one member; leave out --expand-exact")


def pair_table(run: LocalRun, relation: str, expand_exact: bool) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The table that `pairs` makes of a run."""
    if relation == "containment":
        return tables.CONTAINED, tables.contained_batches(find_contained(run), run.documents().ids)
    return tables.pairs_schema(run), tables.expanded_pair_batches(run) if expand_exact else tables.pair_batches(run)


def pairs_job(job: Job, expand_exact: bool, progress: Progress, relation: str = "similarity") -> dict[str, Any]:
    """Writes all verified pairs into `job.out` (parquet); exact groups by one member unless expanded.

    Raises:
        UsageError: If the request is invalid. Nothing was written then.
    """
    require_relation(relation, job.settings, expand_exact)
    check_pairs(job.out, job.resume, job.overwrite, job.inputs)
    saved = Saved.find(job.inputs)
    if saved is not None:
        job = _over_saved(job, saved)
        require_relation(relation, job.settings, expand_exact)
    corpus = open_corpus(job, saved)
    check_request(job, corpus)
    identity = job.identity(f"pairs by {relation}", expand_exact=expand_exact)
    shown = {"out": str(job.out), **job.identity("pairs")}
    if (rows := _pairs_already(job, identity, corpus)) is not None:
        return {"pairs": rows, "stages": {}, **shown}
    with PeakMemory() as memory, _work_on(job, identity, corpus) as (claim, work):
        if saved is not None:
            _take_signatures(saved, work)
        run = LocalRun(corpus, job.columns, job.settings, work, progress, job.resources)
        if relation == "similarity":
            run.to_pairs()
        else:
            run.to_exact_groups()
        schema, batches = pair_table(run, relation, expand_exact)
        about = {"identity": identity, "inputs": _contents(work.manifest["inputs"])}
        staged = claim.path / RESULT
        with disk_errors(job.out.parent):
            rows = tables.write_batches(staged, schema.with_metadata({ABOUT: to_json(about)}), batches)
        if os.path.lexists(job.out) and not _replaces(job, work):
            raise UsageError(f"{job.out} has appeared while the run was working; resume it with --overwrite to replace it")
        set_readers(staged, job.readers)
        claim.publish_file(staged)
        stages = work.manifest["stages"]
    skipped = skipped_warnings(corpus)
    return {"pairs": rows, "stages": stages, "peak_memory": memory.peak, "warnings": skipped, **shown}


def check_pairs(out: Path, resume: bool, overwrite: bool, inputs: tuple[str, ...]) -> None:
    """Requires that a file of pairs may be written; with `resume` one that is finished or was begun is accepted.

    Raises:
        UsageError: If it must not be written. The message says why.
    """
    partial = work_folder_of(out)
    require_file_output(out, overwrite or resume, is_pairs_file, "a file of pairs", inputs)
    if (partial / MANIFEST).exists() and not (resume or overwrite):
        raise UsageError(f"{partial} was left by a run; continue it with --resume, or start again with --overwrite")


def _pairs_already(job: Job, identity: dict[str, Any], corpus: FileCorpus) -> int | None:
    """Returns the number of pairs in a finished file that a run is asked to resume, or None if there is work left."""
    if job.overwrite or not job.resume or not job.out.exists():
        return None
    about = _about_pairs(job.out)
    difference = first_difference(about["identity"], json.loads(json.dumps(identity)))
    change = None if difference else first_change(about["inputs"], corpus)
    if difference or change:
        if (job.partial / MANIFEST).exists():
            return None
        what = f"was made with other settings: {difference}" if difference else str(change)
        raise UsageError(f"{job.out} is finished and {what}; replace it with --overwrite, or choose another --out")
    if os.path.lexists(job.partial):
        # the run was killed while it was cleaning up
        Claim.take(job.out, "nearkin pairs").remove()
    return int(pq.read_metadata(job.out).num_rows)


def _contents(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns what the inputs were, without where and when: equal inputs make equal files."""
    return [{"path": entry["name"], **{name: entry[name] for name in ("name", "size", "sha256")}} for entry in inputs]


def is_pairs_file(path: Path) -> bool:
    """Returns whether a file was written by `nearkin pairs`."""
    return ABOUT in _footer(path)


def _about_pairs(path: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(_footer(path)[ABOUT])
    return about


def _footer(path: Path) -> dict[bytes, bytes]:
    try:
        return dict(pq.read_schema(path).metadata or {})
    except pa.ArrowException:
        return {}


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
    resources: SpecResources = NO_RESOURCES
    selection: Selection = field(default_factory=Selection)
    readers: Readers = Readers.OWNER


def sketch_job(job: SketchJob, progress: Progress) -> dict[str, Any]:
    """Writes signatures of files; rejected rows are counted by reason."""
    if (Path(job.inputs[0]) / RUN).is_file():
        raise UsageError(f"{job.inputs[0]} is the output of a run; sketch the inputs that it was made from")
    tables_beside = _tables_beside(job)
    corpus = FileCorpus.open(job.inputs, job.on_error, selection=job.selection)
    inputs = [*job.inputs, *(file.path for file in corpus.files)]
    require_file_output(job.out, job.overwrite, is_signature_file, "a signature file", inputs)
    for path in tables_beside.values():
        require_file_output(path, job.overwrite, is_frequencies_file, "a table of shingles", inputs)
    corpus.check(job.columns)
    sketchers = ObjectPool(measure_of(job.spec, job.resources).sketcher)
    # a sketcher needs the key and the tables that the Spec names
    sketchers.use(lambda tool: None)

    def sketch(batch: Batch) -> tuple[Batch, Sketches]:
        return batch, sketchers.use(lambda tool: tool.sketch(batch.documents[job.columns.content]))

    documents, rejected = 0, Counter[str]()
    progress.stage("sketch", None)
    with claimed(job.out, "nearkin sketch", replaces=job.overwrite) as claim, disk_errors(job.out.parent):
        staged = claim.path / RESULT
        with SignatureWriter(staged, job.spec) as writer:
            for batch, sketches in ordered_map(sketch, corpus.batches(job.columns), job.workers):
                writer.add(make_ids(batch, job.columns, corpus.names), sketches.signatures, sketches.shingles)
                documents += len(batch.rows)
                rejected.update(entry.reason.partition(":")[0] for entry in batch.rejected)
                progress.advance(len(batch.rows))
        job.resources.write(claim.path, job.spec)
        for name, path in tables_beside.items():
            set_readers(claim.path / name, job.readers)
            claim.publish_file(claim.path / name, path)
        set_readers(staged, job.readers)
        claim.publish_file(staged)
    return {
        "out": str(job.out),
        "documents": documents,
        "rejected": rejected.total(),
        "reasons": dict(sorted(rejected.items())),
        "warnings": skipped_warnings(corpus),
        "spec": json.loads(job.spec.to_json()),
        "spec_fingerprint": job.spec.fingerprint,
    }


def _tables_beside(job: SketchJob) -> dict[str, Path]:
    """Returns the files beside the signature file for the tables that the Spec names, by their names in the work folder."""
    given = {FREQUENCIES: job.resources.frequencies, CUT: job.resources.cut}
    return {name: job.out.with_name(f"{job.out.name}.{name}") for name, table in given.items() if table is not None}


def require_file_output(
    out: Path, overwrite: bool, recognise: Callable[[Path], bool], what: str, inputs: Iterable[Path | str] = ()
) -> None:
    """Requires that an output file may be written: it does not exist, or may be replaced.

    Args:
        out: The file.
        overwrite: Whether a file that exists is replaced, if it is one that the command wrote.
        recognise: Returns whether an existing file is of the kind that the command writes.
        what: That kind, for the message.
        inputs: The inputs of the command, which the file must not replace.

    Raises:
        UsageError: If it must not be written. The message says why.
    """
    if out.is_dir():
        raise UsageError(f"{out} is a folder; give the name of a file with --out")
    require_apart(out, inputs, marked=False)
    require_work_folder(work_folder_of(out))
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise UsageError(f"{out} exists; replace it with --overwrite, or choose another --out")
    require_replaceable_file(out, recognise, what)
