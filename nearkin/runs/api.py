"""The functions of the library: tables, frames, lists or files in, Arrow tables out."""

import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from nearkin.corpus import FileCorpus, TableCorpus
from nearkin.corpus.arrow_conversion import refuse_paths
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.document_frequencies import FrequencyRequest, count_frequencies
from nearkin.engine.keywords import FurtherParameters
from nearkin.engine.merged_rows import MergeRequest
from nearkin.engine.parameter_help import show_parameters
from nearkin.engine.parameters import columns_of, given_parameters
from nearkin.engine.removal_limit import examine_removals
from nearkin.engine.removal_quotes import quote_removed, require_column_limit
from nearkin.engine.second_measure import to_final_clusters
from nearkin.engine.settings_file import Settings
from nearkin.engine.split_groups import SplitGroups, require_splittable
from nearkin.engine.work_folder import WorkFolder
from nearkin.index.signatures.sketching import sketch_documents, sketcher_pool
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.observe import SAMPLE_SIZE, observe_corpus
from nearkin.reports.files import read_report, write_page
from nearkin.reports.page import render_page
from nearkin.reports.run_warnings import (
    log_warnings,
    warn_of_run,
)
from nearkin.runs.check import check_inputs, require_checkable
from nearkin.runs.choose import choose_for_run
from nearkin.runs.destinations import WriteRequest, open_destination
from nearkin.runs.document_output import DocumentOutput, parse_kept_cuts
from nearkin.runs.pairs import Relation, find_pairs, require_listable
from nearkin.runs.passage_cuts import (
    KeptCuts,
    require_cuttable_copies,
)
from nearkin.runs.results import (
    CheckResult,
    DecontaminationResult,
    DedupResult,
    PairsResult,
    PassagesResult,
    SplitResult,
)
from nearkin.runs.split import SPLIT_RECALL, execute_split, with_recall_of_splits
from nearkin.runs.temporary_runs import (
    ReferenceData,
    open_corpus,
    open_two_corpora,
    prepare_run,
)
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.executor import Executor
from nearkin.runtime.files import PRIVATE_FILE, disk_errors
from nearkin.runtime.notebook_progress import open_progress
from nearkin.runtime.outputs import require_page_output
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.progress import Progress
from nearkin.runtime.sizes import parse_memory
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.decisions import Decisions, read_decisions
from nearkin.settings.keys import HashKey
from nearkin.settings.keywords import ReadKeywords
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.sketch.resources import NO_RESOURCES, DocumentFrequencies, SpecResources
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.request import (
    DEFAULT_POINT,
    SUITE_FIELDS,
    ContaminationAction,
    DecontaminationRequest,
)
from nearkin.texts.decontamination.run import DecontaminationRun, require_memory
from nearkin.texts.decontamination.suite_inputs import SuiteColumns, read_suites_of
from nearkin.texts.passages.cutting.request import CutRequest
from nearkin.texts.passages.cutting.run import (
    CutRun,
    order_documents,
    require_cuttable,
    require_rewritable,
)
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import LineRun, require_lines_request
from nearkin.texts.passages.run import PassageOptions, PassageRun


@show_parameters
@check_arguments
def dedup(
    data: Any,
    text: str | Sequence[str] | None = None,
    *,
    id: str | None = None,
    threshold: float | None = None,
    preset: str | None = None,
    keep: str | Callable[..., object] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    write_mode: str = "create",
    against: Any = None,
    only_against: bool = False,
    scope: str | None = None,
    decisions: str | Path | Decisions | None = None,
    blocklist: Blocklist | None = None,
    passages: int | str | None = None,
    cut_unit: str | None = None,
    min_left: int = 0,
    repeated_lines: int | str | None = None,
    repeated_paragraphs: int | str | None = None,
    lines_action: str | None = None,
    merge_fields: str | None = None,
    merge_sources: bool = False,
    strict: bool = False,
    work: str | Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **further: Unpack[FurtherParameters],
) -> DedupResult:
    """Finds exact and near-duplicates, each verified against the document that is kept.

    If most texts are too short for the default settings, and no parameter says which ones are
    similar, the shingle, the measure and the threshold are chosen as by `choose`.

    Args:
        data: An Arrow table or stream of any library (pyarrow, DuckDB, ibis and others), a pandas
            or polars frame (also lazy), a dataset of `datasets` or pyarrow, a mapping of columns,
            or a list or iterator of texts or of dictionaries; or the path of files, or several
            `Path`s.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids. The default is the row number, or the path and the row for files.
        threshold: Minimum similarity of near-duplicates, in (0, 1]. The default is that of the
            settings or the preset, or 0.8.
        preset: Settings for a kind of data, for example `web`, `articles`, `records` or `titles`.
        keep: Keep policy, for example `source:gold>web, quality desc, length desc`; or, over
            data in memory, a function of the rows of a cluster (dictionaries, in keep order),
            which returns the row to keep or its id. The default is `length desc`.
        out: New folder or file to which the result is written, as `DedupResult.write` does.
        overwrite: Whether an earlier result in the folder may be replaced. A folder with other
            files, and a single file, never are.
        write_mode: What is done with a table as `out`: `create`, `append` or `delete`, as for
            `DedupResult.write`.
        against: The reference: data as above with the same columns; or the path of a finished run,
            for its kept documents; or the URL of an index of the same Spec. Documents that repeat
            one of it are removed, and those of the reference never are.
        only_against: Whether the documents of `data` are not compared with each other.
        scope: Scope of the index that `against` names. The default is `default`.
        decisions: File of decisions about pairs of documents (see
            `nearkin.settings.decisions.read_decisions`), or the decisions. Pairs decided to be the
            same are
            always in one cluster, and those decided to be different never.
        blocklist: Blocklist of the same Spec. Documents that are like one of its entries are
            removed first: their kind is `blocked`, and the column `blocked_by` names the entry.
        passages: Smallest number of words of a passage, for example 50, or of characters, for
            example `100:chars`. Repeated passages of the kept documents stay in the first one in
            keep order, and are cut from the others, in `DedupResult.kept_documents`. By default,
            nothing is cut.
        cut_unit: What is cut: `passage` (the default), `sentence`, `line`, `paragraph` or
            `document:SHARE`, as for `passages`.
        min_left: Number of words below which the rest of a cut document is removed, too.
        repeated_lines: Lines that occur in so many kept documents, or so many times
            (`"3:places"`), are cut from all places but one. By default, nothing is cut.
        repeated_paragraphs: The same for paragraphs between blank lines.
        lines_action: `keep-one` (the default), or `remove` to cut repeated lines from all places.
        merge_fields: Columns of which the kept row of a cluster gets a value of its rows, with a
            rule for each, for example `phone:first-non-empty, tags:union`. The rules are
            `first-non-empty` (in keep order), `most-frequent`, `longest`, `min`, `max` and `union`
            (of lists, or of texts). They are in `DedupResult.merged_rows`, and in what `write`
            writes.
        merge_sources: Whether kept rows get the column `merged_from`, the ids of the rows that
            each merged value is from.
        strict: Whether a result that seems to remove unique documents is an error. By default, it
            has a warning.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        executor: Does the tasks of the run over files, for example
            `nearkin.spark.SparkExecutor(spark)`. By default, threads of this process do.
        **further: The other columns, the measure and further options, which
            `nearkin.settings.table` describes.

    Raises:
        UsageError: If a parameter is unknown or out of range, or the data cannot be read, or is of
            another type, or a list of texts that all are paths of existing files.
        RunError: If a file cannot be read, temporary files cannot be written, or more would be
            removed than `max_removed` allows, or the result is doubted and `strict` is True.

    Examples:
        >>> result = dedup(["the cat sat on the mat", "The cat sat on the mat", "a dog"])
        >>> result.kept.tolist()
        [True, False, True]
        >>> result.clusters["kind"].to_pylist()
        ['kept', 'exact', 'unique']
        >>> result = dedup(["a dog", "a cat"], against=["A dog!"])
        >>> result.clusters.arrow.select(["kept", "duplicate_of", "matched_in"]).to_pylist()[0]
        {'kept': False, 'duplicate_of': '0000000000', 'matched_in': 'reference'}
    """
    request = parse_kept_cuts(
        passages=passages,
        cut_unit=cut_unit,
        min_left=min_left,
        repeated_lines=repeated_lines,
        repeated_paragraphs=repeated_paragraphs,
        lines_action=lines_action,
    )
    merge = MergeRequest.parse(merge_fields, adds_sources=merge_sources)
    if out is not None:
        given = data if isinstance(data, list | tuple) else [data]
        inputs = tuple(str(path) for path in given if isinstance(path, str | Path))
        writing = WriteRequest(write_mode, id, inputs)
        open_destination(Path(out), writing, may_exist=overwrite)
    keep_function = keep if callable(keep) else None
    policy = None if callable(keep) else keep
    parameters = given_parameters(
        further, text=text, threshold=threshold, preset=preset, keep=policy
    )
    settings = Settings.resolve(parameters.get("settings"), preset).for_dedup()
    with open_progress(progress) as updates:
        with settings.named_in_errors():
            if blocklist is None and settings.blocklist is not None:
                blocklist = Blocklist.open(settings.blocklist)
            applied = settings.apply_to(parameters)
            columns = columns_of(applied, id)
            if request is not None:
                require_cuttable_copies(
                    request, columns, DocumentOutput(merge=merge), annotate=False
                )
            finished = prepare_run(
                data,
                id,
                work,
                updates,
                applied,
                reference=ReferenceData(
                    against, only=only_against, blocklist=blocklist, scope=scope
                ),
                decisions=_open_decisions(decisions),
                keep_function=keep_function,
                executor=executor,
                choose=choose_for_run if against is None and blocklist is None else None,
            )
            if merge is not None and isinstance(finished.run.corpus, FileCorpus | TableCorpus):
                merge.require_mergeable(finished.run.corpus, finished.run.columns)
        clustering = to_final_clusters(finished.run)
        run = finished.run
        require_column_limit(run, clustering)
        doubt = examine_removals(
            run.stats,
            run.options.removal_limits,
            partial(quote_removed, run, clustering),
            strict=strict,
        )
        cuts = None if request is None else KeptCuts.find(run, clustering, request)
        result = DedupResult(finished, clustering, cuts, doubt, merge)
        if run.options.expect is not None:
            result.report_data.require_precision(run.options.expected_precision)
    log_warnings(result.warnings)
    if out is not None:
        result.write(out, overwrite=overwrite, write_mode=write_mode)
    return result


@show_parameters
@check_arguments
def pairs(
    data: Any,
    text: str | Sequence[str] | None = None,
    *,
    id: str | None = None,
    threshold: float | None = None,
    preset: str | None = None,
    keep: str | Callable[..., object] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    relation: str | None = None,
    expand_exact: bool = False,
    work: str | Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **further: Unpack[FurtherParameters],
) -> PairsResult:
    """Finds all verified pairs of near-duplicates.

    Args:
        data: An Arrow table or stream of any library (pyarrow, DuckDB, ibis and others), a pandas
            or polars frame (also lazy), a dataset of `datasets` or pyarrow, a mapping of columns,
            or a list or iterator of texts or of dictionaries; or the path of files, or several
            `Path`s.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids. The default is the row number, or the path and the row for files.
        threshold: Minimum similarity of near-duplicates, in (0, 1]. The default is that of the
            settings or the preset, or 0.8.
        preset: Settings for a kind of data, for example `web`, `articles`, `records` or `titles`.
        keep: Keep policy, for example `source:gold>web, quality desc, length desc`. The default
            is `length desc`.
        out: New file to which the pairs are written, as `PairsResult.write` does.
        overwrite: Whether an earlier file of pairs may be replaced there.
        relation: `similarity`; or `containment`, for documents (id_a) of whose shingles a larger
            document (id_b) contains at least a share of `threshold`, or for which `accept` holds
            if id_a were removed in favor of id_b. The default is that of the settings, or
            `similarity`.
        expand_exact: Whether every member of a group of exact duplicates is listed, instead of
            one for all.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        executor: Does the tasks of the run over files, for example
            `nearkin.spark.SparkExecutor(spark)`. By default, threads of this process do.
        **further: The other columns, the measure and further options, which
            `nearkin.settings.table` describes.

    Raises:
        UsageError: If a parameter is unknown or out of range, or the data cannot be read, or is of
            another type, or a list of texts that all are paths of existing files.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> texts = ["the cat sat on the mat", "a dog", "the cat sat on the mat today"]
        >>> result = pairs(texts, threshold=0.5)
        >>> result.pairs.arrow.select(["id_a", "id_b", "similarity"]).to_pylist()
        [{'id_a': '0000000000', 'id_b': '0000000002', 'similarity': 0.8}]
    """
    if out is not None:
        open_destination(Path(out), may_exist=overwrite)
    parameters = given_parameters(further, text=text, threshold=threshold, preset=preset, keep=keep)
    settings = Settings.resolve(parameters.get("settings"), preset).for_pairs()
    relation = relation or str(settings.values.get("relation", Relation.SIMILARITY))
    with open_progress(progress) as updates:
        with settings.named_in_errors():
            finished = prepare_run(
                data,
                id,
                work,
                updates,
                settings.apply_to(parameters),
                check_options=partial(require_listable, relation, expand_exact=expand_exact),
                executor=executor,
            )
        run = finished.run
        parsed = Relation(relation)
        found_pairs = find_pairs(run, parsed, expand_exact=expand_exact)
        table = pa.Table.from_batches(found_pairs.batches, found_pairs.schema)
    warnings = warn_of_run(run)
    log_warnings(warnings)
    result = PairsResult.from_run(run, table, found_pairs.copies, tuple(warnings))
    finished.folder.remove()
    if out is not None:
        result.write(out, overwrite=overwrite)
    return result


@check_arguments
def passages(
    data: Any,
    text: str | Sequence[str] | None = None,
    *,
    id: str | None = None,
    min_tokens: int | None = None,
    source: str | None = None,
    cut_unit: str | None = None,
    min_left: int = 0,
    repeated_lines: int | str | None = None,
    repeated_paragraphs: int | str | None = None,
    lines_action: str | None = None,
    keep: str | None = None,
    spec: Spec | None = None,
    key: HashKey | None = None,
    memory: int | str = "auto",
    workers: int | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **reading: Unpack[ReadKeywords],
) -> PassagesResult:
    r"""Finds the passages that occur at two or more places: runs of words that two texts share.

    Each passage is given with its bytes in both texts, and continues at neither end in both.

    Args:
        data: The documents, as for `dedup`.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids. The default is the row number, or the path and the row for files.
        min_tokens: Smallest number of words of a passage, at least 2. The default is 50.
        source: Column of sources, whose repeated shares are computed.
        cut_unit: What is cut from all places of a passage but one: `passage` (the words),
            `sentence`, `line`, `paragraph` (those that are repeated as a whole), or
            `document:SHARE` (documents of which at least that share of the bytes is repeated). By
            default, nothing is cut.
        min_left: Number of words below which the rest of a cut document is removed, too.
        repeated_lines: Number of documents, at least 2, or number of places, for example
            `"3:places"`. Lines that occur so often are found instead of passages. Normalization is
            that of `spec`, and white space is folded.
        repeated_paragraphs: The same for paragraphs between blank lines.
        lines_action: What is done with repeated lines or paragraphs: `keep-one` (the default) cuts
            all places but one, `remove` cuts all, `report` none.
        keep: Keep policy: order of the documents, of which the first one keeps a passage or line
            that is cut from the others. The default is `length desc`.
        spec: Spec of the words. Its normalization steps are `lower`, and perhaps `nfkc` and
            `marks`. The default is `Spec()`. With the unit `chars`, passages are runs of letters
            and digits, and all numbers of words are numbers of these characters.
        key: The hash key, if the Spec requires one.
        memory: Bound on the anonymous memory of the run: a number of bytes, a size, or `auto` for
            half of the memory that the process may use.
        workers: Number of threads. By default, the cores that the process may use.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        **reading: How files are read, as for `dedup`.

    Raises:
        UsageError: If a parameter is out of range, or the data cannot be read.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> texts = ["He said: the cat sat on the mat.", "The Cat sat on the mat, and slept"]
        >>> found = passages(texts, min_tokens=4)
        >>> row = found.passages.to_pylist()[0]
        >>> texts[0].encode()[row["start"] : row["end"]]
        b'the cat sat on the mat'
        >>> texts[1].encode()[row["repeats_start"] : row["repeats_end"]]
        b'The Cat sat on the mat'
        >>> passages(texts, min_tokens=4, cut_unit="passage").kept_documents["text"].to_pylist()
        ['He said: .', 'The Cat sat on the mat, and slept']
        >>> pages = ["Home | News\nFirst text", "home |  news\nSecond text, longer"]
        >>> passages(pages, repeated_lines=2).kept_documents["text"].to_pylist()
        ['First text', 'home |  news\nSecond text, longer']
    """
    lines = LinesRequest.parse_options(repeated_lines, repeated_paragraphs, lines_action, keep)
    columns = columns_of({"text": text}, id)
    request = None
    policy = None
    if lines is not None:
        lines.require_alone(cut_unit=cut_unit, min_left=min_left, min_tokens=min_tokens)
        policy = require_lines_request(columns, lines)
    else:
        request = CutRequest.parse_options(cut_unit, min_left, keep)
    if request is not None:
        policy = require_cuttable(columns, request)
    keep_columns = () if policy is None else policy.columns
    least = PassageOptions.least if min_tokens is None else min_tokens
    options = PassageOptions(
        spec or Spec(n=1),
        least,
        source,
        parse_memory(memory),
        workers_or_cores(workers),
        keep_columns,
    )
    corpus = open_corpus(data, reading)
    folder = TemporaryFolder.open(work)
    work_folder = WorkFolder.create(folder.path / "work", {}, durable=False)
    with open_progress(progress) as updates:
        if lines is not None and policy is not None:
            line_run = LineRun(corpus, columns, options, work_folder, updates, key)
            line_run.find_lines(lines, partial(order_documents, line_run, policy))
            result = PassagesResult.from_line_run(line_run, lines)
        else:
            run = PassageRun(corpus, columns, options, work_folder, updates, key)
            cut_run = None
            if request is not None and policy is not None:
                cut_run = CutRun(run, request, partial(order_documents, run, policy))
                cut_run.find()
            else:
                run.find()
            result = PassagesResult.from_run(run, cut_run)
    log_warnings(result.warnings)
    folder.remove()
    return result


@check_arguments
def decontaminate(
    data: Any,
    against: str | Path | Sequence[str | Path] | Mapping[str, Any],
    text: str | Sequence[str] | None = None,
    *,
    id: str | None = None,
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
    **reading: Unpack[ReadKeywords],
) -> DecontaminationResult:
    """Finds the items of benchmark suites in documents.

    A document contains an item if the words that it shares with a field of the item, in order,
    cover enough of the field. Words that are rare in the documents and in the suite count more.

    Args:
        data: The documents, as for `dedup`.
        against: The suites: the path of files, a glob, a folder or a URL, or a list of them; or
            tables in memory, by the names of the suites. Files are tables of items, or were written
            by `nearkin decontaminate --build`.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids. The default is the row number, or the path and the row for files.
        suite_fields: Columns of the texts of an item, of which a suite needs at least one.
        suite_id: Column of the ids of items. The default is the row number.
        operating_point: What counts as a passage: `longest` (8 words, two of them with one gap) or
            `exact` (13 words, no gap).
        field_thresholds: Smallest score at which a field counts as found, in (0, 1], by the names
            of the fields. The default is 0.7, and 0.9 for `context`.
        action: What happens to contaminated documents: `annotate`, `cut` (their passages are cut)
            or `drop`. By default, they are only listed.
        cut_unit: What is cut with a passage: `passage` (the default), `sentence`, `line` or
            `paragraph`.
        key: Hash key of the words. Saved suites with fingerprints under a key require it.
        memory: Bound on the anonymous memory of the run: a number of bytes, a size, or `auto` for
            half of the memory that the process may use.
        workers: Number of threads. By default, the cores that the process may use.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        **reading: How the files of documents are read, as for `dedup`.

    Raises:
        UsageError: If a parameter is out of range, or the data cannot be read.
        IncompatibleError: If saved suites have other hashes than the others.
        KeyRequiredError: If saved suites have hashes under another key.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> question = "Which of the northern rivers freezes first when the winter comes early?"
        >>> found = decontaminate(
        ...     [f"Quiz of the week: {question.upper()} Write to us!", "Another text"],
        ...     {"rivers": [{"question": question, "answer": "The smallest one"}]},
        ... )
        >>> found.hits.to_pylist()[0]["spans"]
        [{'start': 18, 'end': 88}]
        >>> found.suites.to_pylist()[0]["contaminated_items"]
        1
    """
    request = DecontaminationRequest.parse(operating_point, field_thresholds, action, cut_unit)
    columns = columns_of({"text": text}, id)
    bound = parse_memory(memory)
    if request.action == ContaminationAction.CUT:
        require_rewritable(columns, "action")
    suite_columns = SuiteColumns(tuple(suite_fields), suite_id)
    suites = read_suites_of(against, suite_columns, key, bound)
    options = PassageOptions(
        suites.spec, request.point.least, memory=bound, workers=workers_or_cores(workers)
    )
    request.require_fields(suites.fields)
    require_memory(len(suites.rarity), bound)
    corpus = open_corpus(data, reading)
    folder = TemporaryFolder.open(work)
    work_folder = WorkFolder.create(folder.path / "work", {}, durable=False)
    index = SuiteIndex(suites, request.point.least)
    with open_progress(progress) as updates:
        run = DecontaminationRun(
            corpus, columns, index, request, options, work_folder, updates, key
        )
        run.find()
        result = DecontaminationResult.from_run(run)
    log_warnings(result.warnings)
    folder.remove()
    return result


@partial(show_parameters, recall=SPLIT_RECALL)
@check_arguments
def split(
    data: Any,
    groups: Sequence[float] = (0.8, 0.1, 0.1),
    text: str | Sequence[str] | None = None,
    *,
    id: str | None = None,
    threshold: float | None = None,
    preset: str | None = None,
    names: Sequence[str] | None = None,
    group_seed: int = 0,
    keep: str | Callable[..., object] | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **further: Unpack[FurtherParameters],
) -> SplitResult:
    """Splits documents into groups so that no near-duplicates are in different groups.

    Whole clusters of near-duplicates are assigned to groups, by a hash of their content. So a
    document is nearly always in the same group as before if others are added.

    Args:
        data: The documents, as `dedup` takes them.
        groups: Share of each group, which add up to 1.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids. The default is the row number, or the path and the row for files.
        threshold: Minimum similarity of near-duplicates, in (0, 1]. The default is that of the
            settings or the preset, or 0.8.
        preset: Settings for a kind of data, for example `web`, `articles`, `records` or `titles`.
        names: Names of the groups. The default is `train` and `test` for two groups, `validation`
            between them for three, and `group-1`, `group-2` and so on for more.
        group_seed: Seed of the hashes that select groups.
        keep: Keep policy, for example `source:gold>web, quality desc, length desc`. The default
            is `length desc`.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        executor: Does the tasks of the run over files, for example
            `nearkin.spark.SparkExecutor(spark)`. By default, threads of this process do.
        **further: The other columns, the measure and further options, which
            `nearkin.settings.table` describes. The default of `recall` is 0.99.
            Equal values of `same` and `url` keep documents together.

    Raises:
        UsageError: If a parameter is unknown or out of range or leaves pairs out (`block_by`,
            `across`, `accept`), the shares do not add up to 1, or the data cannot be read.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> texts = ["the cat sat on the mat", "a dog ran", "the cat sat on the mat!", "a bird"]
        >>> result = split(texts, [0.5, 0.5])
        >>> [len(result.select(texts, name)) for name in result.names]
        [2, 2]
        >>> result.facts["pairs"], result.rows[0] == result.rows[2]
        (1, np.True_)
    """
    shares = tuple(map(float, groups))
    parsed = SplitGroups(shares, () if names is None else tuple(names), group_seed)
    parameters = given_parameters(further, text=text, threshold=threshold, preset=preset, keep=keep)
    settings = Settings.resolve(parameters.get("settings"), preset).for_splits()
    with open_progress(progress) as updates:
        with settings.named_in_errors():
            applied = with_recall_of_splits(settings.apply_to(parameters))
            finished = prepare_run(
                data,
                id,
                work,
                updates,
                applied,
                check_options=require_splittable,
                executor=executor,
            )
        executed = execute_split(finished.run, parsed)
    log_warnings(tuple(executed.warnings))
    result = SplitResult.from_run(finished.run, executed)
    finished.folder.remove()
    return result


@partial(show_parameters, recall=SPLIT_RECALL)
@check_arguments
def check(
    first: Any,
    second: Any,
    text: str | Sequence[str] | None = None,
    *,
    id: str | None = None,
    threshold: float | None = None,
    preset: str | None = None,
    keep: str | Callable[..., object] | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **further: Unpack[FurtherParameters],
) -> CheckResult:
    """Finds the near-duplicates between two corpora, such as a training and a test set.

    Documents of one corpus are not compared with each other.

    Args:
        first: The documents of the first corpus, as `dedup` takes them.
        second: The documents of the second corpus: paths if the first one consists of paths,
            otherwise anything else that `dedup` takes. A path can be that of a folder, or a
            pattern.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        id: Column of ids of both. The default is the row number, or the path and the row for files.
        threshold: Minimum similarity of near-duplicates, in (0, 1]. The default is that of the
            settings or the preset, or 0.8.
        preset: Settings for a kind of data, for example `web`, `articles`, `records` or `titles`.
        keep: Keep policy, for example `source:gold>web, quality desc, length desc`. The default
            is `length desc`.
        work: Folder for temporary files. The default is that of the system.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        executor: Does the tasks of the run over files, for example
            `nearkin.spark.SparkExecutor(spark)`. By default, threads of this process do.
        **further: The other columns, the measure and further options, which
            `nearkin.settings.table` describes. The default of `recall` is 0.99.

    Raises:
        UsageError: If a parameter is unknown or out of range or has no meaning between two corpora
            (`across`, `same`, `url`, `accept`), a file is in both, or the data cannot be read.
        RunError: If a file cannot be read or temporary files cannot be written.

    Examples:
        >>> train, test = ["the cat sat on the mat", "a dog"], ["a bird", "the cat sat on the mat!"]
        >>> result = check(train, test)
        >>> result.pairs.arrow.select(["id_a", "id_b", "similarity"]).to_pylist()
        [{'id_a': '0000000000', 'id_b': '0000000001', 'similarity': 1.0}]
        >>> result.affected
        (1, 1)
    """
    parameters = given_parameters(further, text=text, threshold=threshold, preset=preset, keep=keep)
    settings = Settings.resolve(parameters.get("settings"), preset).for_splits()
    with open_progress(progress) as updates:
        with settings.named_in_errors():
            applied = with_recall_of_splits(settings.apply_to(parameters))
            opened = open_two_corpora(first, second, applied, id)
            finished = prepare_run(
                opened.corpus,
                id,
                work,
                updates,
                applied,
                check_options=require_checkable,
                executor=executor,
            )
        result = check_inputs(finished.run, opened.inputs)
    log_warnings(result.warnings)
    finished.folder.remove()
    return result


def _open_decisions(decisions: str | Path | Decisions | None) -> Decisions | None:
    """Returns the decisions of a file, or given ones."""
    return read_decisions(decisions) if isinstance(decisions, str | Path) else decisions


@check_arguments
def sketch(
    texts: Any,
    spec: Spec | None = None,
    *,
    resources: SpecResources = NO_RESOURCES,
    workers: int | None = None,
) -> np.ndarray:
    """Returns the signatures of texts, token lists or vectors.

    Args:
        texts: List of str; or a column of Arrow, pandas, polars or `datasets`. The values may be
            lists of tokens instead of texts. For a Spec of vectors, a column of vectors or a matrix
            of shape (n, d).
        spec: The Spec of the signatures. The default is `Spec()`.
        resources: The hash key and the data that the Spec refers to.
        workers: Number of threads. By default, the cores that the process may use.

    Returns:
        An array of shape (n, w). It is uint32 (n, k) for MinHash, with all bits set for a text
        without shingles; uint64 (n, k / 64) for simhash and cosine; and uint8 (n, k · bits / 8)
        for slots of fewer than 32 bits.

    Raises:
        UsageError: If a text is null or not valid UTF-8 (the message names the row), the data is a
            table and not a column, or all texts are paths of existing files.

    Examples:
        >>> sketch(["one two three", "four"], Spec(k=8)).shape
        (2, 8)
    """
    spec = spec or Spec()
    if isinstance(texts, list | tuple):
        refuse_paths(texts, reads_files=False)
    measure = measure_of(spec, resources)
    return sketch_documents(
        texts, measure, sketcher_pool(measure), workers_or_cores(workers)
    ).signatures


@check_arguments
def frequencies(
    data: Any,
    *,
    text: str | Sequence[str] | None = None,
    tokens: str | None = None,
    spec: Spec | None = None,
    key: HashKey | None = None,
    work: str | Path | None = None,
    workers: int | None = None,
) -> DocumentFrequencies:
    """Counts in how many documents each shingle occurs.

    The result is the base of tf-idf weights, of measure `idf-jaccard`, and of cut lists (`above`).

    Args:
        data: The documents, as for `dedup`.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        tokens: Column of token lists, instead of texts.
        spec: The Spec of the shingles. The default is `Spec()`.
        key: The hash key, if the Spec requires one.
        work: Folder for temporary files. The default is that of the system.
        workers: Number of threads. By default, the cores that the process may use.

    Raises:
        UsageError: If both columns are given, or the data cannot be read.

    Examples:
        >>> counted = frequencies(["the cat sat", "the cat lay"], spec=Spec(n=1))
        >>> spec = Spec(measure="simhash", n=1, weights="tfidf", frequencies=counted.fingerprint)
        >>> sketch(["the cat sat"], spec, resources=SpecResources(frequencies=counted)).shape
        (1, 1)
    """
    folder = TemporaryFolder.open(work)
    columns = columns_of({"text": text, "tokens": tokens}, None)
    corpus = open_corpus(data, {})
    with open_progress() as updates:
        counting = FrequencyRequest(
            corpus,
            columns,
            spec or Spec(),
            SpecResources(key),
            workers_or_cores(workers),
            folder.path,
            updates,
        )
        counted = count_frequencies(counting)
    folder.remove()
    return counted


@check_arguments
def observe(
    data: Any,
    *,
    text: str | Sequence[str] | None = None,
    tokens: str | None = None,
    spec: Spec | None = None,
    resources: SpecResources = NO_RESOURCES,
    sample: int = SAMPLE_SIZE,
    workers: int | None = None,
) -> Distribution:
    """Describes texts and the similarities of their pairs, from a sample, for `tune`.

    Args:
        data: The documents, as for `dedup`.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        tokens: Column of token lists, instead of texts.
        spec: The Spec of the shingles and the measure. The default is `Spec()`.
        resources: The hash key and the data that the Spec refers to.
        sample: Number of sampled documents, all pairs of which are compared.
        workers: Number of threads. By default, the cores that the process may use.

    Raises:
        UsageError: If both columns are given, the data cannot be read, or there are fewer than two
            documents.

    Examples:
        >>> from nearkin.quality.plan.tune import tune
        >>> texts = [f"call {number} of {number * 3} ended" for number in range(50)]
        >>> data = tune(0.8, distribution=observe(texts)).to_dict()["data"]
        >>> data["kind"], data["distinct"], data["templates"]
        ('logs', 50, 1)
    """
    columns = columns_of({"text": text, "tokens": tokens}, None)
    measure = measure_of(spec or Spec(), resources)
    return observe_corpus(
        open_corpus(data, {}), columns, measure, sample, workers=workers_or_cores(workers)
    )


@check_arguments
def report(source: DedupResult | str | Path, out: str | Path | None = None) -> Path:
    """Writes the report page of a result, or of the output folder of a run.

    Args:
        source: A result of `dedup`, or the output folder of `nearkin dedup`.
        out: The page. The default is `report.html` in the folder, or in the current folder for a
            result. A new page can be read by its owner alone, because it quotes documents.

    Returns:
        The page.

    Raises:
        UsageError: If the folder is not the output of a run, the folder of the page does not exist,
            or the page would replace the one of another run, or a file that is not a page of
            nearkin.
        RunError: If the page cannot be written. An earlier page is unchanged.
    """
    if isinstance(source, DedupResult):
        folder = None
        report_data = source.report_data
        target = Path(out or "report.html")
    else:
        folder = Path(source)
        report_data = read_report(folder)
        target = Path(out or folder / "report.html")
    require_page_output(target, [], "out", folder)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else PRIVATE_FILE
    with disk_errors(target.parent):
        write_page(target, render_page(report_data), mode)
        # The umask has removed permissions of the earlier page.
        target.chmod(mode)
    return target
