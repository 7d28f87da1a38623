"""Spark: DataFrames deduplicated where they are, or files by as many machines as there are; the same result as on one machine.

Needs the extra: pip install 'nearkin[spark]', and Java 17 or 21.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import Columns, FileCorpus, describe_inputs
from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.inputs import Selection
from nearkin.engine.document_frequencies import FrequencyRequest
from nearkin.engine.options import RunOptions
from nearkin.engine.spark.document_parts import require_mergeable
from nearkin.engine.spark.frequencies import count_over_spark
from nearkin.engine.spark.materialized import Tables
from nearkin.engine.spark.output_files import (
    write_clusters,
    write_kept_files,
    write_pairs,
    write_rejected,
)
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.saved import Saved
from nearkin.engine.spark.session import open_session, told
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.sources import FileSource, FrameSource, quoted, unused_name
from nearkin.errors import UsageError
from nearkin.keys import HashKey
from nearkin.report.collect import collect_report, summary_counts
from nearkin.report.model import ReportData
from nearkin.report.spark_view import SparkRunView
from nearkin.runs.job import Job, check_job
from nearkin.runs.output import (
    build_run_record,
    find_finished_run,
    publish_output,
    require_output_free,
)
from nearkin.runs.saved import RUN
from nearkin.runs.spec_request import (
    ResolvedInputs,
    SpecRequest,
    require_valid_cut,
    resolve_inputs,
    resolve_spec,
    select_frequency_cut,
)
from nearkin.runtime.files import disk_errors
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import RESULT, claimed
from nearkin.runtime.progress import Progress, Silent
from nearkin.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.spark.streaming import StreamUpserts
from nearkin.spec import Spec

__all__ = [
    "SparkResult",
    "StreamUpserts",
    "backfill",
    "dedup",
    "dedup_files",
    "prepare_files",
    "save",
]


@dataclass
class SparkResult:
    """What was found, as DataFrames. Their tables are in a work folder: `close` takes it away, or leaving `with`."""

    _run: SparkRun
    _frame: DataFrame

    def __enter__(self) -> "SparkResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Takes intermediate tables away; DataFrames of this result cannot be computed any more."""
        self._run.tables.remove()

    @property
    def clusters(self) -> DataFrame:
        """id, cluster (id of the kept document), kept, similarity, kind of each document."""
        return self._run.clusters.drop("doc")

    @property
    def pairs(self) -> DataFrame:
        """id_a, id_b, similarity, estimate (and distance) of verified pairs, id_a first by bytes; exact duplicates by one."""
        found = self._run.pair_table.drop("a", "b")
        ends = (f.least("id_a", "id_b").alias("id_a"), f.greatest("id_a", "id_b").alias("id_b"))
        return found.select(*ends, *(name for name in found.columns if not name.startswith("id_")))

    @property
    def kept(self) -> DataFrame:
        """The rows of the input that stay."""
        other = unused_name("kept", self._frame.columns)
        stay = self._run.clusters.where("kept").select(f.col("id").alias(other))
        name = f.col(quoted(str(self._run.request.columns.id))).cast("string")
        return self._frame.join(stay, name == f.col(other), "left_semi")

    @property
    def rejected(self) -> DataFrame:
        """id, reason and raw prefix of rows that are no documents."""
        return self._run.rejected.select(
            f.get_json_object("place", "$.id").alias("id"), "reason", "raw"
        )

    @property
    def stages(self) -> dict[str, Any]:
        """What each stage recorded."""
        return self._run.stages

    @cached_property
    def report_data(self) -> ReportData:
        """What a report shows."""
        with told():
            return collect_report(SparkRunView(self._run), "a DataFrame", peak_memory=0)

    @property
    def statistics(self) -> dict[str, Any]:
        """Documents read, kept, removed, rejected, …"""
        return summary_counts(self.report_data)


def dedup(
    frame: DataFrame,
    *,
    id: str,
    text: str | None = None,
    tokens: str | None = None,
    vector: str | None = None,
    measure: str | None = None,
    threshold: float = 0.8,
    distance: int | None = None,
    spec: Spec | None = None,
    key: HashKey | None = None,
    frequencies: DocumentFrequencies | None = None,
    cut: DocumentFrequencies | None = None,
    max_df: float | None = None,
    merge_parts: bool = False,
    against: str | None = None,
    before: DataFrame | None = None,
    work: str | None = None,
    on_error: str = "quarantine",
    progress: Progress | None = None,
    **options: Any,
) -> SparkResult:
    """Finds exact and near duplicates among the rows of a DataFrame, each verified against the document that is kept.

    Args:
        frame: With an id column; its rows may be computed more than once, so they must come out the same each time.
        id: Column of unique ids, text or whole numbers.
        text: Text column (default `text`).
        tokens: Column of token lists, instead of text.
        vector: Column of vectors, instead of text.
        measure: `jaccard`, `weighted-jaccard`, `simhash` or `cosine` (of vectors); the Spec's if one is given.
        threshold: Similarity from which documents are near-duplicates.
        distance: Of simhash and cosine: Hamming distance up to which they are, instead.
        spec: How documents become signatures.
        key: That a keyed Spec names.
        frequencies: Document frequencies that a Spec of tf-idf weights names.
        cut: The shingles to leave out that a Spec names.
        max_df: Leave out the shingles that more than this share of the documents have.
        merge_parts: Rows of one id are parts of a document: of sets (`Spec(n=1)` over tokens), the same as the whole one.
        against: Folder that `save` wrote, of a run over further documents: the result is that of a run over all of them, but
            those are neither sketched nor compared with each other again.
        before: The rows of those documents, with the same columns, read again where one may resemble a new one.
        work: Folder for intermediate tables, path or URL, which driver and workers share; on one machine a temporary one.
        on_error: `quarantine` or `fail`, for rows that are no documents.
        progress: Who is told.
        **options: Further fields of `nearkin.engine.options.RunOptions`: recall, bands, rows, verify, cluster, floor, keep,
            empty, block_by, source … (memory and workers are Spark's to bound).

    Raises:
        UsageError: An argument is none, a column is missing, ids are repeated.
        RunError: A task failed; the message names the document where it is one's fault.
    """
    named = {
        name: value
        for name, value in (("text", text), ("tokens", tokens), ("vector", vector))
        if value is not None
    }
    if len(named) > 1:
        raise UsageError(
            f"{' and '.join(f'{name}={value!r}' for name, value in named.items())} exclude each other"
        )
    unknown = sorted(set(options) - set(RunOptions.__dataclass_fields__))
    if unknown:
        raise UsageError(
            f"{unknown[0]!r} is no setting; there are {', '.join(RunOptions.__dataclass_fields__)}"
        )
    columns = Columns(text=text or (None if named else "text"), tokens=tokens, vector=vector, id=id)
    with told(), ExitStack() as failed:
        columns = _with_dimensions(frame, columns)
        asked = RunOptions(
            spec=resolve_spec(columns, measure, spec),
            threshold=threshold,
            distance=distance,
            **options,
        )
        columns = replace(columns, carried_columns=asked.carried_columns).with_memory(asked.memory)
        require_supported(asked)
        _require_columns(frame, columns)
        request = TaskRequest(
            columns, asked, SpecResources(key, frequencies, cut), on_error, merge_parts
        )
        if merge_parts:
            require_mergeable(asked.spec, asked.probes)
        asked.spec.require_key(key)
        # A folder of its own, for it is taken away whole.
        folder = (
            f"{work.rstrip('/')}/nearkin-{uuid4().hex}" if work else _temporary(frame.sparkSession)
        )
        tables = Tables(frame.sparkSession, folder)
        failed.callback(tables.remove)
        if max_df is not None:
            request = _with_cut(frame, request, tables, max_df)
        saved = None if against is None else _saved(frame.sparkSession, against, before, request)
        source = FrameSource(frame, request, before)
        run = SparkRun(frame.sparkSession, source, request, progress or Silent(), tables, saved)
        run.to_clusters()
        failed.pop_all()
    return SparkResult(
        run, frame if before is None else frame.unionByName(before, allowMissingColumns=True)
    )


def _saved(
    spark: SparkSession, folder: str, before: DataFrame | None, request: TaskRequest
) -> Saved:
    if before is None and request.options.verify == "exact":
        raise UsageError(
            f"give the rows of the documents in {folder} as before=: exact comparison reads some of them again"
        )
    if request.merge_parts or request.options.bands is None:
        raise UsageError(
            "against= goes with bands and rows that are given, and not with merge_parts"
        )
    return Saved.open(spark, folder)


def save(result: SparkResult, folder: str) -> None:
    """Keeps signatures, band keys (partitioned by band) and verdicts of a result, for `dedup(…, against=folder)`.

    Args:
        result: Of `dedup`.
        folder: Path or URL, new.

    Raises:
        UsageError: What cannot be gone on from: everything was compared, slots were truncated or probed.
    """
    with told():
        result._run.save(folder)


def backfill(spark: SparkSession, folder: str, bands: int, rows: int) -> None:
    """Band keys for other bands and rows, from stored signatures: no text is read.

    Args:
        spark: The session.
        folder: That `save` wrote.
        bands: b.
        rows: r.
    """
    with told():
        saved = Saved.open(spark, folder)
        options = RunOptions.from_parameters(
            saved.about["parameters"], saved.spec, bands=bands, rows=rows
        )
        request = TaskRequest(Columns(), options, SpecResources())
        saved.write_keys(request, options.banding(request.measure, saved.documents.count()))


def _with_cut(frame: DataFrame, request: TaskRequest, tables: Tables, max_df: float) -> TaskRequest:
    options, columns = request.options, request.columns
    require_valid_cut(max_df, options.spec)
    size = f.sum(f.length(f.col(quoted(columns.source)))) if columns.text else f.lit(0)
    bytes_of_text = int(frame.agg(size).first()[0] or 0)
    counted = count_over_spark(
        frame.sparkSession,
        FrameSource(frame, request).hashes,
        request,
        tables,
        bytes_of_text,
        max_df,
    )
    cut = select_frequency_cut(counted, max_df)
    options = options.with_spec(replace(options.spec, cut=cut.fingerprint))
    return replace(request, options=options, resources=replace(request.resources, cut=cut))


def require_supported(options: RunOptions) -> None:
    """What only the local engine does is refused before anything begins.

    Raises:
        UsageError: It was asked for.
    """
    if options.second_measure is not None:
        raise UsageError(
            f"then={options.second_measure!r} is of the local engine; run the second measure over what the first one kept"
        )


def _require_columns(frame: DataFrame, columns: Columns) -> None:
    for name in columns.all:
        if name not in frame.columns:
            raise UsageError(
                f"the DataFrame has no column {name!r} (it has {', '.join(map(repr, frame.columns))})"
            )
    kind = frame.schema[str(columns.id)].dataType.typeName()
    if kind not in ("string", "byte", "short", "integer", "long"):
        raise UsageError(
            f"id column {columns.id!r} is {kind}; ids are text or whole numbers: cast it to string"
        )


def _with_dimensions(frame: DataFrame, columns: Columns) -> Columns:
    """The length that most vectors have, the smallest of them if there are several."""
    if columns.vector is None:
        return columns

    if columns.vector not in frame.columns:
        _require_columns(frame, columns)
    sizes = (
        frame.select(f.size(f.col(quoted(columns.vector))).alias("n"))
        .where(f.col("n") > 0)
        .groupBy("n")
        .count()
    )
    most = sizes.orderBy(f.desc("count"), "n").limit(1).collect()
    if not most:
        raise UsageError(
            f"column {columns.vector!r} holds no vector; choose another one with vector="
        )
    return replace(columns, dimensions=int(most[0].n))


def _temporary(spark: SparkSession) -> str:
    """A folder for intermediate tables where there is only this machine.

    Raises:
        UsageError: There are others, which would not see it.
    """
    if spark.sparkContext.master.startswith("local"):
        return tempfile.mkdtemp(prefix="nearkin-spark-")
    raise UsageError(
        f"master {spark.sparkContext.master} has workers elsewhere: name a folder that they share, as work='hdfs:///tmp/nearkin'"
    )


def dedup_files(
    master: str | None, conf: dict[str, str], merge_parts: bool, job: Job, progress: Progress
) -> dict[str, Any]:
    """Deduplicates files into `job.out`, as `nearkin.runs.dedup.run_dedup` does; returns the summary that run.json holds.

    Args:
        master: Spark's.
        conf: Its options.
        merge_parts: Rows of one id are parts of a document.
        job: What to read, and where it goes: paths that every worker sees.
        progress: Who is told.

    Raises:
        UsageError: Something was asked that only the local engine does.
    """
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    corpus = job.open_corpus()
    _require_files(job, merge_parts, corpus)
    check_job(job, corpus)
    identity = job.identity("dedup", engine="spark", merge_parts=merge_parts)
    if (finished := find_finished_run(job, identity, corpus)) is not None:
        return finished
    if job.resume:
        raise UsageError("a run over Spark is not resumed; start it again with --overwrite")
    # the work folder goes after a failure too: there is nothing in it that a run could go on from
    with (
        claimed(job.out, "nearkin dedup --engine spark", replaces=job.overwrite) as claim,
        _session(master, conf) as spark,
        PeakMemory() as memory,
        told(),
    ):
        staging = claim.path
        # workers that are processes of another user need --readable-by
        staging.chmod(job.readers.folder_mode)
        (staging / RESULT).mkdir()
        inputs = describe_inputs(corpus)
        request = TaskRequest(job.columns, job.settings, job.resources, job.on_error, merge_parts)
        run = _run_of(request, corpus, spark, staging, progress)
        run.to_clusters()
        _write(job, run, staging / RESULT)
        corpus.require_all_unchanged()
        view = SparkRunView(run, job.quoted)
        data = collect_report(view, ", ".join(map(hide_password, job.inputs)), memory.peak)
        summary = {
            **build_run_record(job, inputs, run.stages, data, corpus),
            "engine": "spark",
            "master": spark.sparkContext.master,
        }
        publish_output(
            job, claim, uuid4().hex, summary, data, identity=identity, replaces=job.overwrite
        )
    return summary


def prepare_files(
    master: str | None,
    conf: dict[str, str],
    inputs: tuple[str, ...],
    columns: Columns,
    asked: SpecRequest,
    on_error: str,
    workers: int,
    out: Path,
    progress: Progress,
    check: Callable[[Spec], object] = lambda spec: None,
    selection: Selection | None = None,
) -> ResolvedInputs:
    """As `nearkin.runs.spec_request.resolve_inputs`, shingles counted over Spark where document frequencies are wanted."""
    if (Path(inputs[0]) / RUN).is_file():
        raise UsageError(
            f"{inputs[0]} is the output of a run; over Spark, deduplicate the inputs that it was made from"
        )

    def count(counting: FrequencyRequest, share: float) -> DocumentFrequencies:
        counting.progress.stage("frequencies", None)
        corpus = counting.corpus
        assert isinstance(corpus, FileCorpus)
        corpus.check(counting.columns)
        with _session(master, conf) as spark, told(), _tables_in(spark, counting.folder) as tables:
            request = TaskRequest(
                counting.columns, RunOptions(spec=counting.spec), counting.resources, on_error
            )
            source = FileSource(spark, corpus, request)
            size = sum(file.status().size for file in corpus.files)
            return count_over_spark(spark, source.hashes, request, tables, size, share)

    return resolve_inputs(
        inputs, columns, asked, on_error, workers, out, progress, count, check, selection
    )


@contextmanager
def _tables_in(spark: SparkSession, folder: Path) -> Iterator[Tables]:
    """Tables in a folder of their own, for the time being."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tables = Tables(spark, tempfile.mkdtemp(prefix="nearkin-spark-", dir=folder.absolute()))
    try:
        yield tables
    finally:
        tables.remove()


def _require_files(job: Job, merge_parts: bool, corpus: FileCorpus) -> None:
    require_supported(job.settings)
    for file in corpus.files:
        try:
            file.path.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{format_path(file.path)} has a name that is not UTF-8, which Spark cannot take; rename it"
            ) from error
    if merge_parts:
        require_mergeable(job.settings.spec, job.settings.probes)
        if job.columns.id is None:
            raise UsageError(
                "merge_parts takes rows of one id for parts of a document: name the id column with --id"
            )
    if job.save_signatures:
        raise UsageError(
            "save_signatures is of the local engine; over Spark, nearkin.spark.save keeps signatures and band keys"
        )


@contextmanager
def _session(master: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
    """One that is stopped afterwards, unless it was there before."""
    before = SparkSession.getActiveSession()
    spark = open_session(master, conf)
    try:
        yield spark
    finally:
        if before is None:
            spark.stop()


def _run_of(
    request: TaskRequest, corpus: FileCorpus, spark: SparkSession, staging: Path, progress: Progress
) -> SparkRun:

    tables = Tables(spark, str((staging / "tables").absolute()))
    return SparkRun(spark, FileSource(spark, corpus, request), request, progress, tables)


def _write(job: Job, run: SparkRun, staging: Path) -> None:
    """kept/, clusters.parquet, pairs.parquet, rejected.jsonl."""
    run.progress.stage("write", None)
    with run.stage("write"):
        write_kept_files(run, staging / "kept", job.annotate)
        write_clusters(run, staging / "clusters.parquet")
        write_pairs(run, staging / "pairs.parquet")
        write_rejected(run, staging / "rejected.jsonl")
