"""The data and the parameters of a function of the library, as a run in a temporary folder."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from nearkin.corpus import Corpus, FileCorpus, TableCorpus
from nearkin.corpus.arrow_conversion import (
    is_stream,
    refuse_distributed,
    to_table,
    type_name,
)
from nearkin.corpus.integers import concat_tables
from nearkin.corpus.nested_columns import list_roots
from nearkin.engine.blocking import BlocklistMatcher, require_blockable
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.decisions import require_decidable
from nearkin.engine.keep_function import KeepFunction, require_choosable
from nearkin.engine.keywords import RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.parameters import (
    columns_of,
    memory_of,
    resources_of,
    selection_of,
)
from nearkin.engine.reference import Reference, ReferenceMatcher
from nearkin.engine.run import Run
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runs.check import FilesOfInputs, RowsOfInputs, TwoInputs
from nearkin.runs.job import require_sendable
from nearkin.runs.reference import (
    ReferenceRequest,
    check_reference,
    columns_of_reference,
    open_references,
    require_comparable,
)
from nearkin.runs.resolved_run import OptionsCheck, ResolvedRun, SettingsChoice, resolve_run
from nearkin.runs.results import TemporaryRun
from nearkin.runtime.executor import Executor
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.decisions import Decisions
from nearkin.settings.keywords import ReadKeywords


class ReferenceData(NamedTuple):
    """The reference and the blocklist of a run, as `nearkin.dedup` takes them."""

    data: Any = None
    """The documents, the path of a finished run, or None without a reference."""
    only: bool = False
    """True if the documents of the run are not compared with each other."""
    blocklist: Blocklist | None = None
    """The blocklist, or None."""
    scope: str | None = None
    """The scope of an index, or None for the default one."""


NO_REFERENCE = ReferenceData()


def prepare_run(
    data: Any,
    id: str | None,
    work: str | Path | None,
    progress: Progress,
    parameters: RunParameters,
    reference: ReferenceData = NO_REFERENCE,
    decisions: Decisions | None = None,
    keep_function: KeepFunction | None = None,
    check_options: OptionsCheck | None = None,
    executor: Executor | None = None,
    choose: SettingsChoice | None = None,
) -> TemporaryRun:
    """Returns a run in a temporary work folder, whose stages are executed on demand."""
    is_open = isinstance(data, FileCorpus | TableCorpus)
    corpus: Corpus = data if is_open else open_corpus(data, parameters)

    def check(options: RunOptions) -> RunOptions:
        if check_options is not None:
            options = check_options(options)
        if reference.data is not None:
            require_comparable(options)
        if decisions is not None:
            require_decidable(options, has_reference=reference.data is not None)
        if keep_function is not None:
            require_choosable(options, corpus)
        require_sendable(resources_of(parameters), executor)
        return options

    folder = TemporaryFolder.open(work)
    columns = columns_of(parameters, id).with_memory(memory_of(parameters))
    resolved = resolve_run(corpus, columns, parameters, folder.path, progress, check, choose=choose)
    blocker = None
    if reference.blocklist is not None:
        require_blockable(resolved.options, reference.blocklist)
        blocker = BlocklistMatcher(reference.blocklist)
    own_work = WorkFolder.create(folder.path / "work", {}, durable=False)
    run = Run(
        corpus,
        resolved.columns,
        resolved.options,
        own_work,
        progress,
        resolved.resources,
        matcher=_open_matcher(reference, corpus, resolved, parameters),
        decisions=decisions,
        blocker=blocker,
        keep_function=keep_function,
        given_executor=None if executor is None else executor.at(own_work.path),
        chosen=resolved.chosen,
    )
    return TemporaryRun(run, folder)


def _open_matcher(
    reference: ReferenceData, corpus: Corpus, resolved: ResolvedRun, parameters: RunParameters
) -> ReferenceMatcher | None:
    """Returns the comparison with the reference, or None for a run without one."""
    data = _list_paths(reference.data)
    paths = _paths_of(data)
    if data is not None and not paths:
        if reference.scope is not None:
            raise UsageError(
                f"{name_setting('scope', reference.scope)} is the scope of an index, and "
                f"{name_setting('against')} is {type_name(data)}; leave it out"
            )
        table = open_corpus(data, parameters)
        columns = columns_of_reference(resolved.columns, resolved.options)
        check_reference(table, columns)
        return ReferenceMatcher([Reference(table, columns)], reference.only)
    opened = open_references(
        ReferenceRequest(
            paths,
            resolved.columns,
            resolved.options,
            on_error=parameters.get("on_error", "quarantine"),
            selection=selection_of(parameters),
            only=reference.only,
            scope=reference.scope,
            resources=resolved.resources,
        )
    )
    if opened is None:
        return None
    if isinstance(corpus, FileCorpus):
        opened.require_other_files(corpus)
    return opened.matcher


class TwoCorpora(NamedTuple):
    """Two corpora as one."""

    corpus: Corpus
    inputs: TwoInputs


def open_two_corpora(
    first: Any, second: Any, parameters: RunParameters, id: str | None
) -> TwoCorpora:
    """Opens two corpora as one: paths of files, or two tables."""
    on_error = parameters.get("on_error", "quarantine")
    first = _list_paths(first)
    second = _list_paths(second)
    of_first = _paths_of(first)
    of_second = _paths_of(second)
    if of_first and of_second:
        selection = selection_of(parameters)
        files = FileCorpus.open((*of_first, *of_second), on_error, selection=selection)
        return TwoCorpora(files, FilesOfInputs.find(files, of_first, of_second, selection))
    tables = (_read_rows(first, parameters, id), _read_rows(second, parameters, id))
    try:
        rows = concat_tables(tables)
    except pa.ArrowException as error:
        raise UsageError(
            f"the two corpora do not fit into one table: {error}; give columns of the same types"
        ) from error
    return TwoCorpora(TableCorpus(rows, on_error), RowsOfInputs(tables[0].num_rows))


def _read_rows(data: Any, parameters: RunParameters, id: str | None) -> pa.Table:
    """Returns the columns of one of two tables that a check reads."""
    paths = _paths_of(data)
    if paths:
        raise UsageError(
            f"{paths[0]!r} is a path, and the other corpus is a table; give paths or tables for "
            "both"
        )
    columns = columns_of(parameters, id)
    block_by = parameters.get("block_by")
    columns = replace(columns, carried_columns=() if block_by is None else (block_by,))
    table = to_table(data)
    TableCorpus(table).check(columns)
    return table.select(list_roots(columns, table.schema.names))


def open_corpus(data: Any, reading: ReadKeywords) -> Corpus:
    """Returns a corpus of files if the data is a path or a list of paths, otherwise of a table."""
    refuse_distributed(data)
    given = data
    data = _list_paths(data)
    on_error = reading.get("on_error", "quarantine")
    paths = _paths_of(data)
    if paths:
        return FileCorpus.open(paths, on_error, selection=selection_of(reading))
    return TableCorpus(to_table(data), on_error, given)


def _list_paths(data: Any) -> Any:
    """Returns an iterator of paths, such as that of `Path.glob`, as a list; other data as it is."""
    # A reader of Arrow is an iterator, too, whose values are batches.
    if not isinstance(data, Iterator) or is_stream(data):
        return data
    first = list(islice(data, 1))
    values = chain(first, data)
    return list(values) if _are_paths(first) else values


def _paths_of(data: Any) -> tuple[str, ...]:
    """Returns the paths that data consists of, or none for other data."""
    if isinstance(data, str | Path):
        return (str(data),)
    return tuple(map(_path_of, data)) if _are_paths(data) else ()


def _are_paths(data: object) -> bool:
    """Returns whether data is a list that holds a `Path`."""
    return isinstance(data, list | tuple) and any(isinstance(item, Path) for item in data)


def _path_of(item: object) -> str:
    """Returns the path of an entry of a list that holds paths."""
    if not isinstance(item, str | Path):
        raise UsageError(f"{type_name(item)} is not a path, and other entries of the list are")
    return str(item)
