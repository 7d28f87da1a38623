"""The functions of the library over DataFrames: the engine reads their rows from files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.keywords import RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.parameter_help import show_parameters
from nearkin.engine.parameters import columns_of
from nearkin.engine.result_schema import GROUPS
from nearkin.engine.result_tables import write_batches
from nearkin.engine.settings_file import Settings
from nearkin.engine.split_groups import SplitGroups, require_splittable
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import log_warnings
from nearkin.runs import api as library
from nearkin.runs.decontamination import run_decontamination
from nearkin.runs.job import Job
from nearkin.runs.passages import run_passages
from nearkin.runs.split import GROUP_TABLE, SPLIT_RECALL, execute_split, with_recall_of_splits
from nearkin.runs.temporary_runs import prepare_run
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.files import Readers
from nearkin.runtime.notebook_progress import open_progress
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import parse_memory
from nearkin.settings.decisions import Decisions
from nearkin.settings.keys import HashKey
from nearkin.settings.keywords import ReadKeywords
from nearkin.settings.spec import Spec
from nearkin.spark.frame_columns import read_column
from nearkin.spark.results import (
    CONTAMINATION_ITEMS,
    SPANS,
    RunFiles,
    SparkCheckResult,
    SparkDecontamination,
    SparkPassages,
    SparkResult,
    SparkSplitResult,
)
from nearkin.spark.row_files import RowFiles, new_run_folder, require_frame
from nearkin.spark.session import translate_spark_errors
from nearkin.stages.sketch.resources import SpecResources
from nearkin.texts.decontamination.request import (
    CONTAMINATION,
    DEFAULT_POINT,
    SUITE_FIELDS,
    DecontaminationRequest,
)
from nearkin.texts.decontamination.suite_inputs import SuiteColumns, read_suites_of
from nearkin.texts.passages.cutting.request import CUT_SPANS
from nearkin.texts.passages.run import PassageOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SparkFrame: TypeAlias = "DataFrame"
"""A DataFrame. Its class is not checked, because frames of Spark Connect can have another one."""
OF_FILES = tuple(name for name in ReadKeywords.__annotations__ if name != "on_error")
"""The keywords that say how files are read."""
CUTS = ("passages", "repeated_lines", "repeated_paragraphs")
"""The keywords that ask for cuts of texts."""
ADDED_TYPES = {CONTAMINATION: CONTAMINATION_ITEMS, CUT_SPANS: SPANS}
"""The types of the columns that the engine adds to rows."""


class DedupKeywords(RunParameters, total=False):
    """The keywords of `nearkin.dedup`, of which those of a run are generated."""

    only_against: bool
    scope: str | None
    decisions: str | Path | Decisions | None
    blocklist: Blocklist | None
    passages: int | str | None
    cut_unit: str | None
    min_left: int
    repeated_lines: int | str | None
    repeated_paragraphs: int | str | None
    lines_action: str | None
    strict: bool


@show_parameters
@check_arguments
def dedup(
    frame: "SparkFrame",
    *,
    id: str,
    against: Any = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[DedupKeywords],
) -> SparkResult:
    """Finds exact duplicates and near-duplicates among the rows of a DataFrame.

    The result is that of `nearkin.dedup`. It does not depend on partitions or on the order of rows.

    Args:
        frame: Rows with an id column. They are computed once, and written to the work folder,
            unless they are all rows of Parquet files of a file system.
        id: Column of unique ids, text or whole numbers.
        against: The reference: a DataFrame with the same columns, or what `nearkin.dedup` takes,
            for example the folder of a finished run or the URL of an index.
        work: Folder for the files of the run, which the driver and all workers see under this path.
            The default is a temporary folder, which works on one machine only.
        progress: Receives progress updates, as for `nearkin.dedup`.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.settings.table` describes; and `only_against`, `scope`, `decisions`,
            `blocklist`, `passages`, `cut_unit`, `min_left`, `repeated_lines`,
            `repeated_paragraphs`, `lines_action` and `strict`, as for `nearkin.dedup`. Those about
            reading files, such as `hidden`, are refused.

    Returns:
        The result. Close it to delete its files.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid, a column is missing,
            or ids are repeated.
        RunError: If a task of Spark failed, or more rows would be removed than `max_removed`
            allows.
    """
    require_frame(frame, "dedup")
    order = None
    if any(parameters.get(name) is not None for name in CUTS):
        # which part stays depends on the order of the rows
        order = id
        _require_new_columns(frame, (CUT_SPANS,))
    with _run_files(frame, "dedup", id, parameters, work, order) as files:
        if hasattr(against, "sparkSession"):
            require_frame(against, "dedup")
            against = RowFiles.of(against, files.folder / "reference").paths
        result = library.dedup(
            files.rows.paths,
            id=id,
            against=against,
            work=files.folder,
            progress=progress,
            executor=files.executor,
            **parameters,
        )
        _require_unique_ids(id, result.stages["sketch"]["repeated_ids"])
        return SparkResult.write(files, result)


@partial(show_parameters, recall=SPLIT_RECALL)
@check_arguments
def check(
    first: "SparkFrame",
    second: "SparkFrame",
    *,
    id: str,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> SparkCheckResult:
    """Finds the near-duplicates between two DataFrames, such as a training and a test set.

    Rows of one DataFrame are not compared with each other. The result is that of `nearkin.check`.

    Args:
        first: Rows of the first corpus, which are written as those of `dedup`.
        second: Rows of the second corpus, with the same columns.
        id: Column of ids, text or whole numbers.
        work: Folder for the files of the run, as for `dedup`.
        progress: Receives progress updates, as for `nearkin.check`.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.settings.table` describes. The default of `recall` is 0.99.

    Returns:
        The result. Close it to delete its files.

    Raises:
        UsageError: If a frame is not one of Spark, an argument is not valid or has no meaning
            between two corpora, or a column is missing.
        RunError: If a task of Spark failed.
    """
    require_frame(second, "check")
    with _run_files(first, "check", id, parameters, work) as files:
        others = RowFiles.of(second, files.folder / "second")
        result = library.check(
            files.rows.paths,
            others.paths,
            id=id,
            work=files.folder,
            progress=progress,
            executor=files.executor,
            **parameters,
        )
        return SparkCheckResult(
            pairs=files.write("pairs.parquet", result.pairs.arrow),
            documents=result.documents,
            affected=result.affected,
            missing=result.missing,
            warnings=result.warnings,
            _files=files,
        )


@partial(show_parameters, recall=SPLIT_RECALL)
@check_arguments
def split(
    frame: "SparkFrame",
    groups: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    id: str,
    names: Sequence[str] | None = None,
    group_seed: int = 0,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[RunParameters],
) -> SparkSplitResult:
    """Splits the rows of a DataFrame so that no near-duplicates are in different groups.

    Whole clusters of near-duplicates are assigned to groups, by a hash of their content. The groups
    are those of `nearkin.split`.

    Args:
        frame: Rows with an id column, which are written as those of `dedup`.
        groups: Share of each group, which add up to 1.
        id: Column of unique ids, text or whole numbers.
        names: Names of the groups. The default is `train` and `test` for two groups, `validation`
            between them for three, and `group-1`, `group-2` and so on for more.
        group_seed: Seed of the hashes that select groups.
        work: Folder for the files of the run, as for `dedup`.
        progress: Receives progress updates, as for `nearkin.split`.
        **parameters: The columns, the measure, the threshold and further options, which
            `nearkin.settings.table` describes. The default of `recall` is 0.99.
            Equal values of `same` and `url` keep rows together.

    Returns:
        The result. Close it to delete its files.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid or leaves pairs out,
            a column is missing, or ids are repeated.
        RunError: If a task of Spark failed.
    """
    parsed = SplitGroups(tuple(map(float, groups)), tuple(names or ()), group_seed)
    with _run_files(frame, "split", id, parameters, work) as files:
        settings = _resolve_settings(parameters).for_splits()
        with open_progress(progress) as updates:
            with settings.named_in_errors():
                prepared = prepare_run(
                    files.rows.paths,
                    id,
                    files.folder,
                    updates,
                    with_recall_of_splits(settings.apply_to(parameters)),
                    check_options=require_splittable,
                    executor=files.executor,
                )
            executed = execute_split(prepared.run, parsed)
        _require_unique_ids(id, prepared.run.sketch_stats.repeated_ids)
        files.result.mkdir()
        batches = executed.split.batches(prepared.run.documents().ids)
        write_batches(files.result / GROUP_TABLE, GROUPS, batches)
        log_warnings(tuple(executed.warnings))
        return SparkSplitResult(
            groups=files.read(GROUP_TABLE),
            facts=executed.facts,
            warnings=tuple(executed.warnings),
            _files=files,
        )


@check_arguments
def passages(
    frame: "SparkFrame",
    *,
    id: str,
    text: str = "text",
    min_tokens: int = PassageOptions.least,
    spec: Spec | None = None,
    key: HashKey | None = None,
    memory: int | str = "auto",
    workers: int | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> SparkPassages:
    """Finds the passages that occur at two or more places of the texts of a DataFrame.

    The result is that of `nearkin.passages` over the rows in the order of their ids, row for row.

    Args:
        frame: Rows with a text and an id. They are written in the order of their ids.
        id: Column of unique ids, text or whole numbers.
        text: Column of texts. Rows without one are left out.
        min_tokens: Smallest number of words of a passage, at least 2.
        spec: Spec of the words, as for `nearkin.passages`.
        key: The hash key, if the Spec requires one.
        memory: Bound on the anonymous memory of the run, as for `nearkin.passages`.
        workers: Number of threads. By default, the cores that the process may use.
        work: Folder for the files of the run, as for `dedup`.
        progress: Receives progress updates, as for `nearkin.passages`.

    Returns:
        The passages. Close the result to delete its files.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid, or a column is
            missing.
        KeyRequiredError: If the Spec requires a key that is not given.
        RunError: If a task of Spark failed.
    """
    bound = parse_memory(memory)
    threads = workers_or_cores(workers)
    options = PassageOptions(spec or Spec(n=1), min_tokens, memory=bound, workers=threads)
    parameters: RunParameters = {"text": text}
    with _run_files(frame, "passages", id, parameters, work, order=id) as files:
        job = _job_of(files, parameters, RunOptions(spec=options.spec, memory=bound), key)
        with open_progress(progress) as updates:
            summary = run_passages(job, options, updates)
        log_warnings(tuple(summary.warnings))
        return SparkPassages(
            passages=files.read("passages.parquet"),
            documents=summary.counts["documents"],
            rejected=summary.counts["rejected"],
            warnings=tuple(summary.warnings),
            _files=files,
        )


@check_arguments
def decontaminate(
    frame: "SparkFrame",
    against: str | Path | Sequence[str | Path] | Mapping[str, Any],
    *,
    id: str,
    text: str | Sequence[str] | None = None,
    suite_fields: Sequence[str] = SUITE_FIELDS,
    suite_id: str | None = None,
    operating_point: str = DEFAULT_POINT,
    field_thresholds: Mapping[str, float] | None = None,
    action: str | None = None,
    cut_unit: str | None = None,
    key: HashKey | None = None,
    memory: int | str = "auto",
    workers: int | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> SparkDecontamination:
    """Finds the items of benchmark suites in the rows of a DataFrame.

    The result is that of `nearkin.decontaminate`.

    Args:
        frame: Rows with a text and an id, which are written as those of `dedup`.
        against: The suites, as for `nearkin.decontaminate`: files that the driver reads, or tables
            in its memory by the names of the suites.
        id: Column of ids, text or whole numbers.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        suite_fields: Columns of the texts of an item, of which a suite needs at least one.
        suite_id: Column of the ids of items. The default is the row number.
        operating_point: What counts as a passage: `longest` or `exact`.
        field_thresholds: Smallest score at which a field counts as found, by the names of fields.
        action: What happens to contaminated documents in `kept`: `annotate`, `cut` or `drop`.
        cut_unit: What is cut with a passage: `passage` (the default), `sentence`, `line` or
            `paragraph`.
        key: Hash key of the words. Saved suites with fingerprints under a key require it.
        memory: Bound on the anonymous memory of the run, as for `nearkin.decontaminate`.
        workers: Number of threads. By default, the cores that the process may use.
        work: Folder for the files of the run, as for `dedup`.
        progress: Receives progress updates, as for `nearkin.decontaminate`.

    Returns:
        The result. Close it to delete its files.

    Raises:
        UsageError: If the frame is not one of Spark, an argument is not valid, or a column is
            missing.
        KeyRequiredError: If saved suites have hashes under a key that is not given.
        RunError: If a task of Spark failed, or a suite cannot be read.
    """
    require_frame(frame, "decontaminate")
    request = DecontaminationRequest.parse(operating_point, field_thresholds, action, cut_unit)
    bound = parse_memory(memory)
    suites = read_suites_of(against, SuiteColumns(tuple(suite_fields), suite_id), key, bound)
    parameters: RunParameters = {"text": text}
    with _run_files(frame, "decontaminate", id, parameters, work) as files:
        _require_new_columns(frame, request.added_columns)
        settings = RunOptions(spec=suites.spec, memory=bound, workers=workers_or_cores(workers))
        job = _job_of(files, parameters, settings, key)
        with open_progress(progress) as updates:
            summary = run_decontamination(job, suites, request, updates)
        log_warnings(tuple(summary.warnings))
        added = {name: ADDED_TYPES[name] for name in request.added_columns}
        return SparkDecontamination(
            statistics=summary.counts,
            warnings=tuple(summary.warnings),
            _added=None if request.action is None else added,
            _files=files,
        )


@contextmanager
def _run_files(
    frame: "DataFrame",
    function: str,
    id: str,
    parameters: RunParameters,
    work: str | Path | None,
    order: str | None = None,
) -> Iterator[RunFiles]:
    """Yields the files of a run over a DataFrame, which are deleted if the run fails."""
    spark = require_frame(frame, function)
    for name in OF_FILES:
        if parameters.get(name):
            raise UsageError(
                f"{name_setting(name)} has no effect on a DataFrame, which has no files; give the "
                "option to spark.read, or pass the files to the function of nearkin itself"
            )
    for name in columns_of(_resolve_settings(parameters).apply_to(parameters), id).all:
        read_column(frame, name)
    with new_run_folder(spark, work) as folder, translate_spark_errors():
        yield RunFiles(folder, RowFiles.of(frame, folder / "rows", order), id)


def _resolve_settings(parameters: RunParameters) -> Settings:
    """Returns the settings that parameters name."""
    return Settings.resolve(parameters.get("settings"), parameters.get("preset"))


def _job_of(
    files: RunFiles, parameters: RunParameters, settings: RunOptions, key: HashKey | None
) -> Job:
    """Returns the job over the files of a DataFrame, whose result others than the driver read."""
    return Job(
        tuple(map(str, files.rows.paths)),
        files.result,
        columns_of(parameters, files.id),
        settings,
        readers=Readers.EVERYONE,
        resources=SpecResources(key),
    )


def _require_unique_ids(id: str, repeated: int) -> None:
    """Requires that each row of a DataFrame has an id of its own."""
    if repeated:
        raise UsageError(
            f"{repeated:,} rows have an id of the column {id!r} that occurs more than once; give "
            "each row an id of its own"
        )


def _require_new_columns(frame: "DataFrame", names: Sequence[str]) -> None:
    """Requires that a DataFrame has no columns of these names, as Spark compares names."""
    existing = {name.lower() for name in frame.columns}
    for name in names:
        if name in existing:
            raise UsageError(
                f"column {name!r} cannot be added, because the DataFrame has a column of this "
                "name; rename that column"
            )
