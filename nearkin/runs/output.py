"""Outputs of runs: what may be written, what run.json says, and how a result is published."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from nearkin.corpus import Columns, FileCorpus, TableCorpus, find_first_change
from nearkin.corpus.input_manifest import InputRecord
from nearkin.engine import result_tables
from nearkin.engine.changed_settings import describe_change
from nearkin.engine.chosen_settings import CHOSEN
from nearkin.engine.clustering import Clustering
from nearkin.engine.merged_rows import MergedRows
from nearkin.engine.result_schema import PAIRS, RELATED_FILE
from nearkin.engine.run import Run
from nearkin.engine.second_measure import second_pair_batches
from nearkin.engine.sketching import REJECTED
from nearkin.engine.stats import StageRecords
from nearkin.errors import UsageError
from nearkin.reports.collect import summary_counts
from nearkin.reports.excerpts import ExcerptCollector
from nearkin.reports.files import write_report
from nearkin.reports.model import ReportData
from nearkin.runs.checkpoint import unfinished_run_id
from nearkin.runs.document_output import (
    IDS,
    SAME_CODEC,
    DocumentOutput,
    copy_documents,
    copy_rows,
    write_removed_ids,
)
from nearkin.runs.job import Job
from nearkin.runs.reference import OpenedReferences
from nearkin.runs.run_record import (
    RUN,
    BlocklistRecord,
    DecisionsRecord,
    ExtensionRecord,
    FileRun,
    ReferenceRecord,
    RunRecord,
    read_run_record,
)
from nearkin.runtime.files import Readers, disk_errors, set_readers, to_json, write_durably
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.outputs import (
    RESULT,
    Claim,
    claimed,
    read_marker,
    require_apart,
    require_replaceable_file,
    require_replaceable_folder,
    require_work_folder,
    work_folder_of,
)
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.version import VERSION, list_versions
from nearkin.texts.passages.cutting.request import CUT_SPANS

if TYPE_CHECKING:
    from nearkin.runs.passage_cuts import KeptCuts

SKIPPED_LISTED = 1000
"""The number of skipped files and folders that run.json lists. Further ones are only counted."""


def require_output_free(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Requires that an output folder can be written.

    It may exist only if a run may be resumed or its output replaced.
    """
    require_work_folder(work_folder_of(out))
    if not os.path.lexists(out):
        return
    if overwrite:
        require_replaceable_folder(out)
    elif not resume:
        raise UsageError(
            f"{out} exists; continue it with {name_flag('resume')}, replace it with "
            f"{name_flag('overwrite')}, or choose another {name_setting('out')}"
        )


def require_suffix(out: Path, suffix: str, kind: str, option: str = "out") -> None:
    """Requires that the name of an output file says what is in it, or has no suffix."""
    if out.suffix and out.suffix.lower() != suffix:
        raise UsageError(
            f"cannot write {kind} to {str(out)!r}: the suffix of such files is {suffix}; choose, "
            f"for example, {name_setting(option, str(out.with_suffix(suffix)))}"
        )


def require_file_output(
    out: Path,
    is_replaceable: Callable[[Path], bool],
    kind: str,
    inputs: Iterable[Path | str] = (),
    *,
    overwrite: bool,
    option: str = "out",
) -> None:
    """Requires that an output file can be written: it does not exist, or may be replaced."""
    if out.is_dir():
        raise UsageError(f"{out} is a folder; give the name of a file with {name_setting(option)}")
    require_apart(out, inputs, marked=False, option=option)
    require_work_folder(work_folder_of(out, option))
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise UsageError(
            f"{out} exists; replace it with {name_flag('overwrite')}, or choose another "
            f"{name_setting(option)}"
        )
    require_replaceable_file(out, is_replaceable, kind, option)


def find_finished_run(
    job: Job,
    identity: Mapping[str, object],
    corpus: FileCorpus,
    references: OpenedReferences | None = None,
) -> RunRecord | None:
    """Returns the run record of a finished output that a job resumes, or None if work is left."""
    if not is_output_finished(job):
        return None

    def find_change() -> str | None:
        record = read_run_record(job.out / RUN).require_files(job.out)
        change = find_first_change(record.inputs, corpus)
        if change is None and references is not None:
            before = [] if record.against is None else record.against.files
            change = references.find_change(before)
        return change

    require_same_request(job, identity, find_change)
    return read_run_record(job.out / RUN)


def is_output_finished(job: Job) -> bool:
    """Returns whether a job resumes a run whose output is complete."""
    if job.overwrite or not job.resume or not os.path.lexists(job.out):
        return False
    marker = read_marker(job.out)
    unfinished = unfinished_run_id(job.work_folder)
    return unfinished is None or (marker is not None and marker["run"] == unfinished)


def require_same_request(
    job: Job, identity: Mapping[str, object], find_change: Callable[[], str | None]
) -> None:
    """Requires that a finished output is that of a job, and removes what is left of its work."""
    marker = read_marker(job.out)
    if marker is None:
        raise UsageError(
            f"{job.out} is not the output of a run that can be resumed; choose another "
            f"{name_setting('out')}"
        )
    if difference := describe_change(marker["identity"], json.loads(json.dumps(identity))):
        raise UsageError(
            f"{job.out} is finished and was made with {difference}; replace it "
            f"with {name_flag('overwrite')}, or choose another {name_setting('out')}"
        )
    if change := find_change():
        raise UsageError(
            f"{job.out} is finished, but {change}; replace it with {name_flag('overwrite')}, or "
            f"choose another {name_setting('out')}"
        )
    if os.path.lexists(job.work_folder):
        # The run was killed while it deleted its work folder.
        command = str(identity["command"]).partition(" ")[0]
        Claim.take(job.out, f"nearkin {command}").remove()


def read_finished(job: Job, identity: Mapping[str, object], path: Path, corpus: FileCorpus) -> Any:
    """Reads the facts of a finished output, and removes what is left of its work."""
    command = str(identity["command"]).partition(" ")[0]

    def read() -> Any:
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{job.out} is not the output of nearkin {command}: {path} cannot be read "
                f"({error}); choose another {name_setting('out')}"
            ) from error

    require_same_request(job, identity, lambda: find_first_change(read()["inputs"], corpus))
    return read()


def write_result_tables(run: Run, clustering: Clustering, folder: Path) -> None:
    """Writes clusters.parquet, pairs.parquet, rejected.jsonl, and related.parquet if asked."""
    documents = run.documents()
    clusters = result_tables.cluster_batches(documents.ids, clustering)
    schema = result_tables.clusters_schema(clustering)
    result_tables.write_batches(folder / "clusters.parquet", schema, clusters)
    schema = result_tables.pairs_schema(run)
    pairs = result_tables.pair_batches(run)
    result_tables.write_batches(folder / "pairs.parquet", schema, pairs)
    if clustering.linked is not None:
        related = result_tables.related_batches(run, clustering)
        schema = result_tables.related_schema(run)
        result_tables.write_batches(folder / RELATED_FILE, schema, related)
    shutil.copyfile(run.work.path / "sketch" / REJECTED, folder / REJECTED)
    second_measure = run.options.parsed_second_measure
    if second_measure is not None:
        path = folder / f"pairs-{second_measure.measure}.parquet"
        result_tables.write_batches(path, PAIRS, second_pair_batches(run))


def write_result(
    run: Run,
    clustering: Clustering,
    collect: Callable[[], ReportData],
    folder: Path,
    readers: Readers,
    output: DocumentOutput,
    *,
    overwrite: bool = False,
    excerpts: ExcerptCollector | None = None,
    cuts: "KeptCuts | None" = None,
    merged: MergedRows | None = None,
) -> Path:
    """Writes the outputs of a run of the library into a folder, which may replace a result.

    The kept rows of a table are written to kept/documents.parquet.

    Args:
        collect: Returns the report. It is called after the documents are copied.
        excerpts: Receives the documents that the report quotes while files are copied, or None.
    """
    require_output_free(folder, resume=False, overwrite=overwrite)
    if isinstance(run.corpus, FileCorpus):
        require_apart(folder, [file.path for file in run.corpus.files])
        output.require_usable(
            run.corpus, run.columns, run.options, compares_others=run.compares_others
        )
        if cuts is not None:
            _require_cut_copies(run.corpus, run.columns, output)
    elif isinstance(run.corpus, TableCorpus):
        output.require_new_columns(
            run.corpus, run.columns, run.options, compares_others=run.compares_others
        )
    with claimed(folder, "write", replaces=overwrite) as claim, disk_errors(folder.parent):
        staging = claim.path / RESULT
        staging.mkdir(parents=True)
        if output.has_copies:
            if isinstance(run.corpus, FileCorpus):
                copy_documents(
                    run,
                    run.corpus,
                    clustering,
                    output,
                    staging / "kept",
                    cuts=None if cuts is None else cuts.texts,
                    excerpts=excerpts,
                    merged=merged,
                )
            elif isinstance(run.corpus, TableCorpus):
                _write_kept_rows(run, run.corpus, clustering, staging / "kept", output, merged)
        elif output.output == IDS:
            write_removed_ids(run, clustering, staging)
        write_result_tables(run, clustering, staging)
        if cuts is not None:
            cuts.write_tables(staging)
        data = collect()
        record = _record_result(run, data)
        write_report(staging, data)
        if run.chosen is not None and not run.chosen.is_default:
            run.chosen.write(staging / CHOSEN)
        write_durably(staging / RUN, to_json(record.to_json()))
        set_readers(staging, readers)
        identity = {
            "command": "write",
            "spec": record.spec_json,
            "parameters": record.parameters,
        }
        claim.publish_folder(staging, run.work.manifest["run"], identity, replaces=overwrite)
    return folder


def _record_result(run: Run, data: ReportData) -> RunRecord:
    """Returns the record of a run of the library."""
    stages = run.work.manifest["stages"]
    return RunRecord(
        version=VERSION,
        spec_json=json.loads(run.options.spec.to_json()),
        parameters=_parameters_of(run),
        counts=summary_counts(data.counts),
        stages=stages,
        metrics=QualityMetrics.from_stages(stages).to_dict(),
        lost=None if data.lost is None else data.lost.to_record(),
        doubtful=None if data.doubtful is None else data.doubtful.to_record(),
        chosen=None if run.chosen is None else run.chosen.to_dict(),
        merged=None if data.merged is None else data.merged.to_record(),
    )


def _parameters_of(run: Run) -> dict[str, Any]:
    """Returns the recorded options of a run, with the name of its keep function if it has one."""
    parameters = run.options.parameters()
    if run.keep_function is not None:
        name = getattr(run.keep_function, "__qualname__", type(run.keep_function).__name__)
        parameters["keep_function"] = name
    return parameters


def _require_cut_copies(corpus: FileCorpus, columns: Columns, output: DocumentOutput) -> None:
    """Requires that copies of the kept documents alone are written, and can be cut."""
    if not output.has_copies or output.weights is not None:
        raise UsageError(
            "texts were cut from the kept documents, so that copies of these are written; leave "
            f"out {name_setting('output')} and {name_setting('document_weights')}"
        )
    corpus.require_new_columns((CUT_SPANS,), columns)
    corpus.require_replaceable([columns.source], columns)


def _write_kept_rows(
    run: Run,
    corpus: TableCorpus,
    clustering: Clustering,
    folder: Path,
    output: DocumentOutput,
    merged: MergedRows | None,
) -> None:
    """Writes the kept rows of a table into one file."""
    folder.mkdir()
    codec = "snappy" if output.codec == SAME_CODEC else output.codec
    table = copy_rows(run, corpus, clustering, output, merged)
    pq.write_table(table, folder / "documents.parquet", compression=codec)


def build_run_record(
    job: Job,
    inputs: Sequence[InputRecord],
    stages: StageRecords,
    data: ReportData,
    corpus: FileCorpus,
    *,
    against: ReferenceRecord | None = None,
    decisions: DecisionsRecord | None = None,
    blocklist: BlocklistRecord | None = None,
    extension: ExtensionRecord | None = None,
) -> FileRun:
    """Returns the run record of a run over files."""
    return FileRun(
        version=VERSION,
        spec_json=json.loads(job.settings.spec.to_json()),
        parameters=job.settings.parameters(),
        counts=summary_counts(data.counts),
        stages=stages,
        metrics=QualityMetrics.from_stages(stages).to_dict(),
        lost=None if data.lost is None else data.lost.to_record(),
        doubtful=None if data.doubtful is None else data.doubtful.to_record(),
        chosen=None if job.chosen is None else job.chosen.to_dict(),
        passages=None if data.passages is None else asdict(data.passages),
        lines=None if data.lines is None else data.lines.to_record(),
        merged=None if data.merged is None else data.merged.to_record(),
        command="dedup",
        columns=job.columns.to_record(),
        annotate=job.annotate,
        save_signatures=job.save_signatures,
        save_hashes=job.save_hashes,
        out=str(job.out),
        **job.documents.to_record(),
        spec_fingerprint=job.settings.spec.fingerprint,
        bands=data.parameters.bands,
        rows=data.parameters.rows,
        memory=job.settings.memory,
        workers=job.settings.workers,
        peak_memory=data.peak_memory,
        inputs=inputs,
        tables=corpus.tables,
        against=against,
        decisions=decisions,
        blocklist=blocklist,
        extension=extension,
        skipped={
            "count": len(corpus.skipped),
            "first": [entry._asdict() for entry in corpus.skipped[:SKIPPED_LISTED]],
        },
        seconds=round(data.total_seconds, 3),
        warnings=data.all_warnings,
        software=list_versions(),
    )


def publish_output(
    job: Job,
    claim: Claim,
    staging: Path,
    run_id: str,
    record: RunRecord,
    data: ReportData,
    *,
    identity: Mapping[str, object],
    replaces: bool,
) -> None:
    """Completes the result in the work folder and moves it to the place of the output.

    A previous output stays in its place until the new one is complete.
    """
    with disk_errors(staging):
        write_report(staging, data)
        write_durably(staging / RUN, to_json(record.to_json()))
        job.resources.write(staging, job.settings.spec)
        set_readers(staging, job.readers)
    claim.publish_folder(staging, run_id, identity, replaces=replaces)
