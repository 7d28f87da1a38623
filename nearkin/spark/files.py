"""The deduplication of files with Spark, as `nearkin dedup --engine spark` runs it."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.inputs import Selection
from nearkin.engine.document_frequencies import FrequencyRequest
from nearkin.engine.local.reference import Reference
from nearkin.engine.options import RunOptions
from nearkin.engine.result_schema import RELATED_FILE
from nearkin.engine.spark.blocking import SparkBlocklist
from nearkin.engine.spark.cluster_columns import with_cluster_columns
from nearkin.engine.spark.document_parts import require_mergeable
from nearkin.engine.spark.frequencies import count_over_spark
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.output_files import (
    copy_files,
    write_clusters,
    write_pairs,
    write_rejected,
    write_related,
    write_removed_ids,
    write_table,
)
from nearkin.engine.spark.reference import ReferenceFiles, SparkFileReference
from nearkin.engine.spark.removal_limit import quote_removed, require_column_limit
from nearkin.engine.spark.rereading import ClusterEdits
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.session import translate_spark_errors
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.sources import FileSource
from nearkin.engine.spark.task_progress import TaskProgress
from nearkin.engine.stats import Stage
from nearkin.errors import UsageError
from nearkin.reports.collect import collect_report, title_of
from nearkin.reports.model import Provenance
from nearkin.reports.spark_view import SparkRunView
from nearkin.runs.dedup import (
    describe_passages,
    open_blocklist_of,
    open_references_of,
    record_blocklist,
    record_decisions,
    record_references,
    require_undoubted,
)
from nearkin.runs.document_output import IDS, REMOVED, SAME_CODEC
from nearkin.runs.job import Job, check_job
from nearkin.runs.output import (
    build_run_record,
    find_finished_run,
    publish_output,
    require_output_free,
)
from nearkin.runs.passage_cuts import CUTS_TABLE
from nearkin.runs.reference import OpenedReferences
from nearkin.runs.repeated_lines import LINES_TABLE
from nearkin.runs.run_record import RunRecord, is_run_folder
from nearkin.runs.spec_request import ResolvedInputs, SpecRequest, resolve_inputs
from nearkin.runtime.files import disk_errors
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.decisions import read_decisions
from nearkin.settings.spec import Spec
from nearkin.spark.document_cuts import CutRequests, SparkDocumentCuts
from nearkin.spark.frames import (
    require_no_parts,
    require_supported,
    require_whole_documents,
)
from nearkin.spark.run_output import open_output, running_session
from nearkin.spark.text_cuts import CutEdits
from nearkin.stages.sketch.resources import DocumentFrequencies


def dedup_files(
    master: str | None,
    conf: dict[str, str],
    job: Job,
    progress: Progress,
    *,
    merge_parts: bool,
    confirm: Callable[[str], bool] | None = None,
) -> RunRecord:
    """Deduplicates files into `job.out`.

    Args:
        master: Master of the Spark session, or None for all cores of this machine.
        conf: Settings of the Spark session.
        job: Inputs and output. Their paths are the same on all workers.
        progress: Receives progress updates.
        merge_parts: Whether rows of one id are parts of a document.
        confirm: Asks the user whether to go on although the result is doubted. By default, such a
            run fails.

    Returns:
        The run record.

    Raises:
        UsageError: If the request is not valid, or needs the local engine.
        RunError: If a task failed, or the inputs changed during the run.
    """
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    corpus = job.open_corpus()
    _require_supported_files(job, corpus, merge_parts=merge_parts)
    check_job(job, corpus)
    references = open_references_of(job, corpus, uses_signatures=False)
    decisions = None if job.decisions is None else read_decisions(job.decisions)
    decided = {} if decisions is None else {"decisions": decisions.fingerprint}
    blocklist = open_blocklist_of(job)
    blocked = {} if blocklist is None else {"blocklist": blocklist.fingerprint}
    for texts in () if references is None else references.texts:
        require_readable_names(texts)
    command = "dedup" if job.purge is None else "purge"
    identity = job.identity(command, engine="spark", merge_parts=merge_parts, **decided, **blocked)
    request = TaskRequest(job.columns, job.settings, job.resources, job.on_error, merge_parts)
    finished = find_finished_run(job, identity, corpus, references)
    if finished is not None:
        return finished
    with open_output(master, conf, job, corpus, "nearkin dedup --engine spark") as output:
        described = [] if references is None else references.describe(job.hash_inputs)
        source = FileSource(output.spark, corpus, request)
        matcher = None if references is None else _match_files(references)
        run = SparkRun(
            output.spark,
            source,
            request,
            progress,
            output.tables,
            matcher=matcher,
            decisions=decisions,
            blocker=None if blocklist is None else SparkBlocklist(blocklist),
        )
        run.to_clusters()
        require_column_limit(run)
        require_undoubted(job, run.stats, partial(quote_removed, run), confirm, can_resume=False)
        cuts = None
        if job.passages is not None or job.lines is not None:
            cuts = CutRequests(job.passages, job.lines).cut(run)
        _write_output(job, run, cuts, output.folder)
        corpus.require_all_unchanged()
        for texts in () if references is None else references.texts:
            texts.require_all_unchanged()
        view = SparkRunView(run, job.quoted)
        inputs_shown = [hide_password(path) for path in job.inputs]
        provenance = Provenance.now(inputs_shown, job.command_line)
        peak = output.memory.peak
        report_data = replace(
            collect_report(view, title_of(inputs_shown), peak, provenance),
            passages=None if cuts is None else describe_passages(job, cuts.texts.counts),
            lines=None if cuts is None or cuts.lines is None else cuts.lines.describe(),
        )
        record = build_run_record(
            job,
            output.inputs,
            run.stages,
            report_data,
            corpus,
            engine="spark",
            master=output.spark.sparkContext.master,
            against=record_references(job, references, described),
            decisions=record_decisions(job, decisions),
            blocklist=record_blocklist(job, blocklist),
        )
        publish_output(
            job,
            output.claim,
            output.folder,
            output.run_id,
            record,
            report_data,
            identity=identity,
            replaces=job.overwrite,
        )
    return record


def prepare_files(
    master: str | None,
    conf: dict[str, str],
    inputs: tuple[str, ...],
    columns: Columns,
    spec_request: SpecRequest,
    on_error: str,
    workers: int,
    out: Path,
    progress: Progress,
    check: Callable[[Spec, Columns], object] = lambda spec, columns: None,
    selection: Selection | None = None,
) -> ResolvedInputs:
    """Resolves inputs as `resolve_inputs` does, but counts document frequencies with Spark.

    Args:
        master: Master of the Spark session, or None for all cores of this machine.
        conf: Settings of the Spark session.
        inputs: Paths, globs, folders and URLs.
        columns: Columns of the inputs that are read.
        spec_request: Parameters of the Spec.
        on_error: `quarantine` or `fail`, for rows that are not valid documents.
        workers: Number of threads of the driver.
        out: Output of the run.
        progress: Receives progress updates.
        check: Raises an error if the run cannot use the Spec and the columns. It is called before
            counting.
        selection: Files of input folders that are read.

    Raises:
        UsageError: If the inputs are the output of a run, or the request is not valid.
    """
    if is_run_folder(inputs[0]):
        raise UsageError(
            f"{inputs[0]} is the output of a run; with Spark, deduplicate the inputs of that run"
        )

    def count_frequencies(request: FrequencyRequest, share: float) -> DocumentFrequencies:
        return _count_frequencies(master, conf, on_error, request, share)

    return resolve_inputs(
        inputs,
        columns,
        spec_request,
        on_error,
        workers,
        out,
        progress,
        count_frequencies,
        check,
        selection,
    )


def _count_frequencies(
    master: str | None,
    conf: dict[str, str],
    on_error: str,
    counting: FrequencyRequest,
    share: float,
) -> DocumentFrequencies:
    """Counts the documents of files that contain each shingle."""
    corpus = counting.corpus
    assert isinstance(corpus, FileCorpus)
    documents = estimate_documents(corpus, counting.columns)
    counting.progress.stage("frequencies", documents)
    corpus.check(counting.columns)
    options = RunOptions(spec=counting.spec)
    request = TaskRequest(counting.columns, options, counting.resources, on_error)
    size = sum(file.status().size for file in corpus.files)
    with (
        running_session(master, conf) as spark,
        translate_spark_errors(),
        _temporary_tables(spark, counting.folder) as tables,
    ):
        source = FileSource(spark, corpus, request)
        job_group = f"nearkin frequencies {tables.folder}"
        spark.sparkContext.setJobGroup(job_group, "nearkin: frequencies")
        with TaskProgress(spark, job_group, counting.progress, documents, steps=2) as task_progress:
            tables.task_progress = task_progress
            return count_over_spark(spark, source.hashes, request, tables, size, share)


@contextmanager
def _temporary_tables(spark: SparkSession, folder: Path) -> Iterator[IntermediateTables]:
    """Yields tables in a new folder inside a folder, and deletes them at the end."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tables = IntermediateTables(
            spark, tempfile.mkdtemp(prefix="nearkin-spark-", dir=folder.absolute())
        )
    try:
        yield tables
    finally:
        tables.remove()


def require_readable_names(corpus: FileCorpus) -> None:
    """Requires that Spark can read files of these names."""
    for file in corpus.files:
        try:
            file.path.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"the name of {format_path(file.path)} is not UTF-8, which Spark cannot read; "
                "rename it"
            ) from error


def _match_files(references: OpenedReferences) -> SparkFileReference:
    """Returns a comparison with the files of references."""
    sets_of_files = []
    for reference in references.matcher.references:
        assert isinstance(reference, Reference)
        assert isinstance(reference.corpus, FileCorpus)
        sets_of_files.append(ReferenceFiles(reference.corpus, reference.columns))
    return SparkFileReference(tuple(sets_of_files), references.matcher.only_reference)


def _require_supported_files(job: Job, corpus: FileCorpus, *, merge_parts: bool) -> None:
    """Requires that Spark can deduplicate the files as requested."""
    require_supported(job.settings)
    require_readable_names(corpus)
    if merge_parts:
        require_mergeable(job.settings.spec, job.settings.probes)
        require_whole_documents(job.settings)
        require_no_parts(has_decisions=job.decisions is not None)
        if job.passages is not None or job.lines is not None:
            CutRequests(job.passages, job.lines).require_no_parts(merge_parts=merge_parts)
        if job.columns.id is None:
            raise UsageError(
                f"{name_flag('merge_parts')} merges rows of one id, and there is no id column; "
                f"name it with {name_setting('id')}"
            )
    if job.documents.codec != SAME_CODEC:
        raise UsageError(
            f"{name_setting('codec', job.documents.codec)} needs the local engine; with Spark, "
            "copies of Parquet files have the codec of their inputs"
        )
    if job.save_signatures:
        raise UsageError(
            f"{name_flag('save_signatures')} needs the local engine; with Spark, "
            "nearkin.spark.save saves signatures and band keys"
        )


def _write_output(job: Job, run: SparkRun, cuts: SparkDocumentCuts | None, folder: Path) -> None:
    """Writes the documents or removed ids that were asked for, and the tables of a run."""
    label, documents = run.progress_of(Stage.WRITE)
    run.progress.stage(label, documents)
    with run.stage(Stage.WRITE):
        if job.documents.has_copies:
            _write_copies(job, run, cuts, folder / "kept")
        elif job.documents.output == IDS:
            write_removed_ids(run, folder / REMOVED)
        run.tables.finish_step()
        write_clusters(run, folder / "clusters.parquet")
        run.tables.finish_step()
        write_pairs(run, folder / "pairs.parquet")
        write_related(run, folder / RELATED_FILE)
        run.tables.finish_step()
        write_rejected(run.document_tables.rejected, folder / "rejected.jsonl")
        if cuts is not None:
            run.tables.finish_step()
            write_table(cuts.texts.parts, folder / CUTS_TABLE)
        if cuts is not None and cuts.lines is not None:
            write_table(cuts.lines.lines, folder / LINES_TABLE)


def _write_copies(job: Job, run: SparkRun, cuts: SparkDocumentCuts | None, folder: Path) -> None:
    """Writes copies of the inputs without the removed rows, and without what is cut."""
    added = job.documents.added_columns(job.settings.source)
    rows = with_cluster_columns(run, run.rows, added)
    has_outcomes = run.options.related is not None
    edits = ClusterEdits(
        has_outcomes=has_outcomes,
        annotate=job.annotate,
        purges=job.purge is not None,
        added=added,
    )
    assert isinstance(run.source, FileSource)
    documents = run.sketch_stats.documents + run.document_tables.further_parts
    if cuts is None:
        copy_files(run.source, rows, folder, edits, documents)
    else:
        cut_rows = cuts.texts.with_spans(rows)
        copy_files(run.source, cut_rows, folder, CutEdits(edits), documents)
