"""The deduplication of a DataFrame."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, Unpack, cast
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import Columns
from nearkin.corpus.arrow_conversion import type_name
from nearkin.corpus.columns import ContentField, FieldKind
from nearkin.engine.acceptance import LEAST_BANDED
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.keywords import RunParameters
from nearkin.engine.local.blocking import require_blockable
from nearkin.engine.local.decisions import require_decidable
from nearkin.engine.options import RunOptions
from nearkin.engine.parameter_help import show_parameters
from nearkin.engine.parameters import (
    columns_of,
    make_run_options,
    resources_of,
    spec_of,
    with_contents,
)
from nearkin.engine.removal_limit import examine_removals
from nearkin.engine.settings_file import Settings
from nearkin.engine.spark.blocking import SparkBlocklist
from nearkin.engine.spark.document_parts import require_mergeable
from nearkin.engine.spark.document_split import split_documents
from nearkin.engine.spark.frame_columns import read_column, type_of_column
from nearkin.engine.spark.frequencies import count_over_spark
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.engine.spark.reference import SparkReference, run_over_both
from nearkin.engine.spark.removal_limit import quote_removed, require_column_limit
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.session import require_classic_session, translate_spark_errors
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.sources import FrameSource
from nearkin.engine.split_groups import SplitGroups, require_splittable
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import log_warnings, warn_of_run
from nearkin.runs.check import require_checkable
from nearkin.runs.pairs import with_pair_budget
from nearkin.runs.reference import columns_of_reference, name_reference, require_comparable
from nearkin.runs.spec_request import require_valid_cut, select_frequency_cut
from nearkin.runs.split import SPLIT_RECALL, with_recall_of_splits
from nearkin.runtime.argument_types import Function, check_arguments
from nearkin.runtime.progress import Progress, Silent
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.decisions import Decisions, read_decisions
from nearkin.settings.spec import IDF_JACCARD
from nearkin.spark.document_cuts import CutRequests
from nearkin.spark.incremental import open_saved_run
from nearkin.spark.result import SparkCheckResult, SparkResult, SparkSplitResult
from nearkin.spark.text_cuts import require_new_columns, require_own_column
from nearkin.stages.sketch.resources import DocumentFrequencies, weighted_by
from nearkin.texts.passages.cutting.request import CUT_SPANS

ID_TYPES = ("string", "byte", "short", "integer", "long")
"""Types that an id column may have."""

REFUSED_PARAMETERS = {
    **dict.fromkeys(
        (
            *("hidden", "follow_links", "include", "exclude", "delimiter", "encoding"),
            *("main_text", "lines"),
        ),
        "a DataFrame has no files; pass it to spark.read, or use dedup_files",
    ),
    "second_measure": "a second measure needs the local engine; run it there over the kept "
    "documents",
    "workers": "the number of tasks is a setting of Spark, for example spark.default.parallelism",
    "scope": "against= is a DataFrame, which has no scopes; use nearkin.dedup to compare with an "
    "index",
}
"""The parameters of `nearkin.dedup` that Spark cannot follow, with the reason."""


SparkFrame: TypeAlias = "DataFrame"
"""A DataFrame. Its class is not checked, because frames of Spark Connect can have another one."""
OptionalFrame: TypeAlias = "DataFrame | None"


def _refuse_before_check(function: Function) -> Function:
    """Makes a function refuse parameters that Spark cannot follow before it checks their names.

    Some of them are parameters of `nearkin.dedup` alone. They would be refused as unknown settings.
    """

    @wraps(function)
    def refuse_or_call(*arguments: Any, **keywords: Any) -> Any:
        _refuse_local_parameters(keywords)
        return function(*arguments, **keywords)

    return cast(Function, refuse_or_call)


@show_parameters
@_refuse_before_check
@check_arguments
def dedup(
    frame: "SparkFrame",
    *,
    id: str,
    merge_parts: bool = False,
    against: "OptionalFrame" = None,
    only_against: bool = False,
    decisions: str | Path | Decisions | None = None,
    blocklist: Blocklist | None = None,
    passages: int | str | None = None,
    cut_unit: str | None = None,
    min_left: int = 0,
    repeated_lines: int | str | None = None,
    repeated_paragraphs: int | str | None = None,
    lines_action: str | None = None,
    extend: str | None = None,
    before: "OptionalFrame" = None,
    strict: bool = False,
    work: str | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> SparkResult:
    """Finds exact duplicates and near-duplicates among the rows of a DataFrame.

    Each removed document is verified against the document that is kept.

    Args:
        frame: Rows with an id column. They may be computed more than once and must be the same
            each time.
        id: Column of unique ids, text or whole numbers.
        merge_parts: Whether rows of one id are parts of a document. For sets (`Spec(n=1)` over
            tokens), the result is that of the whole documents.
        against: Rows of a reference, with the same columns. Rows that repeat one of it are removed,
            and those of the reference never are.
        only_against: Whether the rows of the frame are not compared with each other.
        decisions: File of decisions about pairs of documents (see
            `nearkin.settings.decisions.read_decisions`), or the decisions. Rows decided to be the
            same are
            in one cluster, and those decided to be different never.
        blocklist: Blocklist of the same Spec. Rows that are like one of its entries are removed
            before all others.
        passages: Smallest number of words of a passage, for example 50, or of characters, for
            example `100:chars`. Repeated passages of the kept rows stay in the first one in keep
            order, and are cut from the others, in `SparkResult.kept`. By default, nothing is cut.
        cut_unit: What is cut: `passage` (the default), `sentence`, `line`, `paragraph` or
            `document:SHARE`.
        min_left: Number of words below which the rest of a cut row is removed, too.
        repeated_lines: Lines that occur in so many kept rows, or so many times (`"3:places"`), are
            cut from all places but one. By default, nothing is cut.
        repeated_paragraphs: The same for paragraphs between blank lines.
        lines_action: `keep-one` (the default), or `remove` to cut repeated lines from all places.
        extend: Folder that `save` wrote, of a run over earlier documents. The result is that of a
            run over all documents, but the earlier ones are not sketched or compared again.
        before: Rows of the earlier documents, with the same columns. Those that may resemble a new
            document are read again.
        strict: Whether a result that seems to remove unique rows is an error. By default, it has a
            warning.
        work: Folder for intermediate tables, path or URL, which the driver and all workers can
            write. The default is a temporary folder, which works on one machine only.
        progress: Receives progress updates. Silent by default.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.settings.table` describes. `hidden`, `follow_links`,
            `include`,
            `exclude`, `delimiter`, `encoding`, `main_text`, `lines`, `second_measure`, `workers`
            and `scope` are refused.

    Returns:
        The result. Close it to delete its intermediate tables.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid, a column is missing,
            or ids are repeated.
        RunError: If a task failed. The message names the document that caused it, if there is one.
            Or if more rows would be removed than `max_removed` allows.
    """
    if not hasattr(frame, "sparkSession"):
        raise UsageError(
            f"{type_name(frame)} is not a Spark DataFrame; nearkin.dedup takes tables in memory"
        )
    _require_earlier_rows(before, extend)
    cutting = CutRequests.parse(
        passages, cut_unit, min_left, repeated_lines, repeated_paragraphs, lines_action
    )
    settings = _resolve_settings(parameters).for_dedup()
    parameters = settings.apply_to(parameters)
    _refuse_local_parameters(parameters)
    columns = columns_of(parameters, id)
    resources = resources_of(parameters)
    spark = require_classic_session(frame.sparkSession)
    with (
        closing(progress or Silent()) as updates,
        settings.named_in_errors(),
        translate_spark_errors(),
        ExitStack() as on_failure,
    ):
        columns = _with_dimensions(frame, columns)
        parameters = with_contents(parameters, columns)
        run_options = make_run_options(spec_of(parameters, columns), parameters)
        columns = replace(columns, carried_columns=run_options.carried_columns)
        columns = columns.with_memory(run_options.memory)
        require_supported(run_options)
        if run_options.fields and (extend is not None or merge_parts):
            name = "merge_parts" if merge_parts else "extend"
            raise UsageError(
                f"{name}= cannot be combined with "
                f"{name_setting('fields', list(run_options.fields))}; leave out one of them"
            )
        require_columns(frame, columns)
        if before is not None:
            require_columns(before, columns)
        if cutting is not None:
            cutting.require_no_parts(merge_parts=merge_parts)
            cutting.require_usable(columns)
            require_new_columns(frame, (CUT_SPANS,))
            require_own_column(frame, columns)
        if extend is not None and run_options.containment_threshold is not None:
            raise UsageError(
                f"extend= cannot be combined with the condition {str(run_options.acceptance)!r}: "
                "the pairs of a saved run are found by bands, and those of a low jaccard by "
                "containment; run over all documents, or add a condition such as jaccard >= "
                f"{LEAST_BANDED:g}"
            )
        if against is not None:
            grows = extend is not None or merge_parts
            _require_reference(against, columns, run_options, grows=grows)
        elif only_against:
            raise UsageError("only_against=True has no effect without against=; leave it out")
        if blocklist is None and settings.blocklist is not None:
            blocklist = Blocklist.open(settings.blocklist)
        decided = _open_decided(decisions, run_options, has_reference=against is not None)
        if blocklist is not None:
            require_blockable(run_options, blocklist)
        if extend is not None and (decided is not None or blocklist is not None):
            name = "decisions" if blocklist is None else "blocklist"
            raise UsageError(
                f"{name}= cannot be combined with extend=: the saved run did not follow it; run "
                "over all documents"
            )
        on_error = parameters.get("on_error", "quarantine")
        request = TaskRequest(columns, run_options, resources, on_error, merge_parts)
        if merge_parts:
            require_whole_documents(run_options)
            require_no_parts(has_decisions=decided is not None)
            require_mergeable(run_options.spec, run_options.probes)
        run_options.spec.require_key(resources.secret)
        prepared = _prepare_tables(spark, frame, request, parameters, work, on_failure)
        request = prepared.request
        tables = prepared.tables
        saved = None
        if extend is not None:
            saved = open_saved_run(spark, extend, before, request)
        source = FrameSource(frame, request, before)
        matcher = None
        if against is not None:
            matcher = SparkReference(frame, against, only_reference=only_against)
        run = SparkRun(
            spark,
            source,
            request,
            updates,
            tables,
            saved,
            matcher,
            decisions=decided,
            blocker=None if blocklist is None else SparkBlocklist(blocklist),
        )
        run.to_clusters()
        require_column_limit(run)
        doubt = examine_removals(
            run.stats, run_options.removal_limits, partial(quote_removed, run), strict=strict
        )
        cut = None if cutting is None else cutting.cut(run)
        log_warnings([*([] if doubt is None else [doubt]), *warn_of_run(run)])
        on_failure.pop_all()
    if before is not None:
        frame = frame.unionByName(before, allowMissingColumns=True)
    return SparkResult(run, frame, cut, doubt)


@partial(show_parameters, recall=SPLIT_RECALL)
@check_arguments
def check(
    first: "SparkFrame",
    second: "SparkFrame",
    *,
    id: str,
    work: str | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> SparkCheckResult:
    """Finds the near-duplicates between two DataFrames, such as a training and a test set.

    Rows of one DataFrame are not compared with each other. The pairs are those of `nearkin.check`.

    Args:
        first: Rows of the first corpus. They may be computed more than once and must be the same
            each time.
        second: Rows of the second corpus, with the same columns.
        id: Column of ids, text or whole numbers, which are unique in each DataFrame.
        work: Folder for intermediate tables, path or URL, which the driver and all workers can
            write. The default is a temporary folder, which works on one machine only.
        progress: Receives progress updates. Silent by default.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.settings.table` describes. The default of `recall` is 0.99.

    Returns:
        The result. Close it to delete its intermediate tables.

    Raises:
        UsageError: If a frame is not one of Spark, an argument is not valid or has no meaning
            between two corpora, a column is missing, or ids are repeated.
        RunError: If a task failed. The message names the document that caused it, if there is one.
    """
    for frame in (first, second):
        if not hasattr(frame, "sparkSession"):
            raise UsageError(
                f"{type_name(frame)} is not a Spark DataFrame; nearkin.check takes tables in memory"
            )
    settings = _resolve_settings(parameters).for_splits()
    parameters = with_recall_of_splits(settings.apply_to(parameters))
    _refuse_local_parameters(parameters)
    spark = require_classic_session(first.sparkSession)
    with (
        closing(progress or Silent()) as updates,
        settings.named_in_errors(),
        translate_spark_errors(),
        ExitStack() as on_failure,
    ):
        request = _make_request(first, id, parameters)
        request = replace(request, options=require_checkable(request.options))
        columns = request.columns
        for frame in (first, second):
            require_columns(frame, columns)
        both, other = (
            frame.select(*(read_column(frame, name) for name in columns.all))
            for frame in (first, second)
        )
        both = both.unionByName(other)
        prepared = _prepare_tables(spark, both, request, parameters, work, on_failure)
        run = run_over_both(spark, first, second, prepared.request, prepared.tables, updates)
        run.to_pairs()
        result = SparkCheckResult.from_run(run)
        log_warnings(result.warnings)
        on_failure.pop_all()
    return result


@partial(show_parameters, recall=SPLIT_RECALL)
@check_arguments
def split(
    frame: "SparkFrame",
    groups: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    id: str,
    names: Sequence[str] | None = None,
    group_seed: int = 0,
    work: str | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> SparkSplitResult:
    """Splits the rows of a DataFrame so that no near-duplicates are in different groups.

    Whole clusters of near-duplicates are assigned to groups, by a hash of their content. The groups
    are those of `nearkin.split`.

    Args:
        frame: Rows with an id column. They may be computed more than once and must be the same
            each time.
        groups: Share of each group, which add up to 1.
        id: Column of unique ids, text or whole numbers.
        names: Names of the groups. The default is `train` and `test` for two groups, `validation`
            between them for three, and `group-1`, `group-2` and so on for more.
        group_seed: Seed of the hashes that select groups.
        work: Folder for intermediate tables, path or URL, which the driver and all workers can
            write. The default is a temporary folder, which works on one machine only.
        progress: Receives progress updates. Silent by default.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.settings.table` describes. The default of `recall` is 0.99.
            Equal values of `same` and `url` keep rows together.

    Returns:
        The result. Close it to delete its intermediate tables.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid or leaves pairs out,
            a column is missing, or ids are repeated.
        RunError: If a task failed. The message names the document that caused it, if there is one.
    """
    if not hasattr(frame, "sparkSession"):
        raise UsageError(
            f"{type_name(frame)} is not a Spark DataFrame; nearkin.split takes tables in memory"
        )
    parsed = SplitGroups(tuple(groups), tuple(names or ()), group_seed)
    settings = _resolve_settings(parameters).for_splits()
    parameters = with_recall_of_splits(settings.apply_to(parameters))
    _refuse_local_parameters(parameters)
    spark = require_classic_session(frame.sparkSession)
    with (
        closing(progress or Silent()) as updates,
        settings.named_in_errors(),
        translate_spark_errors(),
        ExitStack() as on_failure,
    ):
        request = _make_request(frame, id, parameters)
        require_splittable(request.options)
        request = replace(request, options=with_pair_budget(request.options))
        require_columns(frame, request.columns)
        prepared = _prepare_tables(spark, frame, request, parameters, work, on_failure)
        source = FrameSource(frame, prepared.request)
        run = SparkRun(spark, source, prepared.request, updates, prepared.tables)
        # Tasks read the values of these columns, which do not replace the comparison of texts.
        run.options = replace(run.options, same=None, url=None)
        documents = split_documents(run, parsed)
        result = SparkSplitResult.from_run(run, frame, documents)
        log_warnings(result.warnings)
        on_failure.pop_all()
    return result


def _make_request(frame: DataFrame, id: str, parameters: RunParameters) -> TaskRequest:
    """Returns the request of a run whose documents are rows of a DataFrame."""
    columns = _with_dimensions(frame, columns_of(parameters, id))
    resources = resources_of(parameters)
    options = make_run_options(spec_of(parameters, columns), parameters)
    columns = replace(columns, carried_columns=options.carried_columns)
    require_supported(options)
    options.spec.require_key(resources.secret)
    on_error = parameters.get("on_error", "quarantine")
    return TaskRequest(columns.with_memory(options.memory), options, resources, on_error)


class _PreparedRequest(NamedTuple):
    """A request whose shingles are counted where it needs it, and the tables of its run."""

    request: TaskRequest
    tables: IntermediateTables


def _prepare_tables(
    spark: SparkSession,
    frame: DataFrame,
    request: TaskRequest,
    parameters: RunParameters,
    work: str | None,
    on_failure: ExitStack,
) -> _PreparedRequest:
    """Makes the folder of a run, and counts the shingles of the documents if it is necessary."""
    tables = make_work_tables(spark, work)
    on_failure.callback(tables.remove)
    max_df = parameters.get("max_df")
    if max_df is not None:
        request = _with_frequency_cut(frame, request, tables, max_df)
    request = _with_frequencies(frame, request, tables, parameters.get("weights"))
    return _PreparedRequest(request, tables)


def _require_reference(
    reference: DataFrame, columns: Columns, options: RunOptions, *, grows: bool
) -> None:
    """Requires that rows can be a reference."""
    if not hasattr(reference, "sparkSession"):
        raise UsageError(
            f"against= is {type_name(reference)}, not a Spark DataFrame; give its rows"
        )
    if grows:
        raise UsageError(
            "against= cannot be combined with extend= and merge_parts=True; leave one out"
        )
    require_comparable(options)
    columns = columns_of_reference(columns, options)
    try:
        require_columns(reference, columns)
    except UsageError as error:
        raise name_reference(error, columns) from error


def _require_earlier_rows(before: DataFrame | None, extend: str | None) -> None:
    """Requires that rows of earlier documents are a DataFrame and extend a saved run."""
    if before is None:
        return
    if not hasattr(before, "sparkSession"):
        raise UsageError(f"before= is {type_name(before)}, not a Spark DataFrame; give its rows")
    if extend is None:
        raise UsageError("before= has no effect without extend=; leave it out")


def require_supported(options: RunOptions) -> None:
    """Checks that the Spark engine supports the options.

    Args:
        options: Options of the run.

    Raises:
        UsageError: If an option needs the local engine.
    """
    if options.second_measure is not None:
        raise UsageError(
            f"{name_setting('second_measure', options.second_measure)} needs the local engine; run "
            "it there over the kept documents"
        )


def _open_decided(
    decisions: str | Path | Decisions | None, options: RunOptions, *, has_reference: bool
) -> Decisions | None:
    """Returns decisions, or those of a file, that a run can follow."""
    if decisions is None:
        return None
    require_decidable(options, has_reference=has_reference)
    return read_decisions(decisions) if isinstance(decisions, str | Path) else decisions


def require_no_parts(*, has_decisions: bool) -> None:
    """Checks that nothing was decided about documents that are merged from several rows.

    Args:
        has_decisions: Whether the run has decisions.

    Raises:
        UsageError: If it has some.
    """
    if has_decisions:
        raise UsageError(
            f"{name_flag('merge_parts')} and {name_setting('decisions')} exclude each other; merge "
            "the rows of each document first, or leave out one of them"
        )


def require_whole_documents(options: RunOptions) -> None:
    """Checks that the options can be followed if documents are merged from several rows.

    Args:
        options: Options of the run.

    Raises:
        UsageError: If the run has an acceptance.
    """
    if options.acceptance is not None:
        raise UsageError(
            f"{name_flag('merge_parts')} and a condition ({options.acceptance}) exclude each "
            "other: lengths and wordings are those of rows, not of merged documents; leave out one "
            "of them"
        )


def _resolve_settings(parameters: RunParameters) -> Settings:
    """Returns the settings of a run, without that of text files."""
    settings = Settings.resolve(parameters.get("settings"), parameters.get("preset"))
    return settings.limit_to(settings.values.keys() - {"lines"})


def _refuse_local_parameters(parameters: Mapping[str, object]) -> None:
    """Refuses parameters that Spark cannot follow."""
    if callable(parameters.get("keep")):
        raise UsageError(
            f"{name_setting('keep')} is a function, which would need all rows of a cluster in one "
            "place; with Spark, give a keep policy, which is a text"
        )
    for name, reason in REFUSED_PARAMETERS.items():
        if name in parameters and parameters.get(name) is not None:
            raise UsageError(f"{name_setting(name)} is not possible with Spark: {reason}")


def _with_frequency_cut(
    frame: DataFrame, request: TaskRequest, tables: IntermediateTables, max_df: float
) -> TaskRequest:
    """Returns the request with a Spec that cuts frequent shingles, which are counted first."""
    require_valid_cut(max_df, request.options.spec)
    cut = select_frequency_cut(_count_frequencies(frame, request, tables, max_df), max_df)
    spec = replace(request.options.spec, cut=cut.fingerprint)
    resources = replace(request.resources, cut=cut)
    return replace(request, options=request.options.with_spec(spec), resources=resources)


def _with_frequencies(
    frame: DataFrame, request: TaskRequest, tables: IntermediateTables, weights: str | None
) -> TaskRequest:
    """Returns the request with a Spec that names the document frequencies that it needs.

    They are counted if they are not given. Spark broadcasts them to the workers.
    """
    spec = request.options.spec
    resources = request.resources
    is_weighted = spec.measure == IDF_JACCARD or weights == "tfidf"
    if is_weighted and spec.frequencies is None:
        counted = resources.frequencies
        if counted is None:
            counted = _count_frequencies(frame, request, tables, 0.0)
        resources = replace(resources, frequencies=counted)
        spec = weighted_by(counted, spec)
    resources.weights(spec)
    return replace(request, options=request.options.with_spec(spec), resources=resources)


def _count_frequencies(
    frame: DataFrame, request: TaskRequest, tables: IntermediateTables, share: float
) -> DocumentFrequencies:
    """Counts the documents of a frame that contain each shingle."""
    columns = request.columns
    text_size = f.lit(0)
    if columns.text:
        sizes = [f.length(read_column(frame, name)) for name in columns.sources]
        text_size = f.sum(sum((f.coalesce(size, f.lit(0)) for size in sizes), f.lit(0)))
    return count_over_spark(
        frame.sparkSession,
        FrameSource(frame, request).hashes,
        request,
        tables,
        size=int(frame.agg(text_size).first()[0] or 0),
        share=share,
    )


def require_columns(frame: DataFrame, columns: Columns) -> None:
    """Requires that a frame has the columns of a run, and ids of a type that ids can have.

    Args:
        frame: The frame.
        columns: The columns.

    Raises:
        UsageError: If a column is missing, or the ids have another type.
    """
    for name in columns.all:
        read_column(frame, name)
    kind = type_of_column(frame, str(columns.id))
    if kind not in ID_TYPES:
        raise UsageError(
            f"id column {columns.id!r} has type {kind}, but ids are text or whole numbers; cast it "
            "to string"
        )


def _with_dimensions(frame: DataFrame, columns: Columns) -> Columns:
    """Returns columns with the length that most vectors of the frame have.

    If several lengths are equally frequent, it is the smallest one.
    """
    if columns.fields:
        require_columns(frame, columns)
        return replace(columns, fields=tuple(_find_kind(frame, item) for item in columns.fields))
    if columns.vector is None:
        return columns
    _require_array(frame, columns.vector)
    return replace(columns, dimensions=_count_dimensions(frame, columns.vector))


def _find_kind(frame: DataFrame, item: ContentField) -> ContentField:
    """Returns a field with the kind and the size of its column."""
    kind = type_of_column(frame, item.name)
    if item.kind == FieldKind.TEXT and kind == "array":
        return item._replace(kind=FieldKind.TOKENS)
    if item.kind != FieldKind.VECTOR or item.size:
        return item
    _require_array(frame, item.name)
    return item._replace(size=_count_dimensions(frame, item.name))


def _require_array(frame: DataFrame, name: str) -> None:
    """Requires that a column of vectors holds arrays."""
    kind = type_of_column(frame, name)
    if kind != "array":
        raise UsageError(f"column {name!r} is {kind}, not an array of numbers; cast it")


def _count_dimensions(frame: DataFrame, name: str) -> int:
    """Returns the length that most vectors of a column have."""
    lengths = frame.select(f.size(read_column(frame, name)).alias("n")).where(f.col("n") > 0)
    counted = lengths.groupBy("n").count()
    first = counted.orderBy(f.desc("count"), "n").limit(1).collect()
    if not first:
        raise UsageError(f"column {name!r} has no vector; choose another column with vector=")
    return int(first[0].n)


def make_work_tables(spark: SparkSession, work: str | None) -> IntermediateTables:
    """Returns the intermediate tables of a run, in a folder of their own.

    Args:
        spark: Session.
        work: Folder for intermediate tables, or None for a temporary one.

    Raises:
        UsageError: If no folder is given and the workers are on other machines.
    """
    # The folder is deleted as a whole, so it is a new one inside the given folder.
    folder = f"{work.rstrip('/')}/nearkin-{uuid4().hex}" if work else _make_temporary_folder(spark)
    return IntermediateTables(spark, folder)


def _make_temporary_folder(spark: SparkSession) -> str:
    """Makes a temporary folder, which is possible if all of Spark runs on this machine."""
    master = spark.sparkContext.master
    if master.startswith("local"):
        return tempfile.mkdtemp(prefix="nearkin-spark-")
    raise UsageError(
        f"the workers of master {master} are on other machines; give a folder that they share, for "
        "example work='hdfs:///tmp/nearkin'"
    )
