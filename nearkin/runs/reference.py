"""The references of a run: files, finished runs or indexes whose documents are never removed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearkin.corpus import Columns, Corpus, FileCorpus, describe_inputs, find_first_change
from nearkin.corpus.input_file import identify_file
from nearkin.corpus.input_manifest import HashedPart, InputRecord
from nearkin.corpus.inputs import Selection
from nearkin.corpus.table_versions import TableRecord
from nearkin.engine.acceptance import text_facts_of
from nearkin.engine.banding import builds_keys_while_sketching
from nearkin.engine.options import RunOptions
from nearkin.engine.reference import Reference, ReferenceMatcher, SavedSignatures
from nearkin.engine.stats import Stage
from nearkin.errors import UsageError
from nearkin.runs.extension import CLUSTERS
from nearkin.runs.run_record import RUN, FileRun, RunRecord, is_run_folder, read_run_record
from nearkin.runs.saved import SIGNATURES, SavedRun
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.stages.measures import measure_of
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

if TYPE_CHECKING:
    from nearkin.runs.index_reference import IndexReference

KEPT = "kept"
DEFAULT_SCOPE = "default"
"""The scope of an index that is searched if none is given, as for the commands of an index."""


@dataclass(frozen=True)
class ReferenceRequest:
    """A request to open references, and to compare documents with them.

    Attributes:
        paths: Paths, globs, folders and URLs of files, folders of finished runs, and URLs of
            indexes.
        columns: Columns of the inputs, which files of references have too.
        options: Options of the run.
        on_error: `quarantine` or `fail`, for rows and files that cannot be read.
        selection: Rules that decide which files of folders are read.
        only: Whether the documents of the run are not compared with each other.
        scope: Scope of the indexes, or None for the default one.
        resources: The hash key and the data that the Spec refers to, which indexes need.
    """

    paths: tuple[str, ...]
    columns: Columns
    options: RunOptions
    on_error: str = "quarantine"
    selection: Selection | None = None
    only: bool = False
    scope: str | None = None
    resources: SpecResources = NO_RESOURCES


@dataclass(frozen=True)
class OpenedReferences:
    """References that can be compared, and the files by which changes are detected.

    Attributes:
        matcher: The comparison with the references.
        files: Files of each reference. Of a run whose signatures are used, these are its run record
            and its clusters, because the record holds the digests of its inputs.
        texts: Files of each reference that hold its texts.
        indexes: References that are indexes, which have no such files.
    """

    matcher: ReferenceMatcher
    files: tuple[FileCorpus, ...]
    texts: tuple[FileCorpus, ...]
    indexes: "tuple[IndexReference, ...]" = ()

    @property
    def tables(self) -> list[TableRecord]:
        """The versions of the tables among the references, for run.json."""
        return [table for files in self.files for table in files.tables]

    def identify_indexes(self) -> dict[str, object]:
        """Returns what identifies the indexes of a run that is resumed. An index may change."""
        if not self.indexes:
            return {}
        return {
            "indexes": [index.shown_url for index in self.indexes],
            "scope": self.indexes[0].scope,
        }

    def list_local_files(self) -> list[Path | str]:
        """Returns the files on this machine that the references consist of."""
        files: list[Path | str] = [file.path for texts in self.texts for file in texts.files]
        stores = [index.local_file for index in self.indexes]
        return files + [file for file in stores if file is not None]

    def describe(self, hash_inputs: HashedPart) -> list[list[InputRecord]]:
        """Returns an entry for each file of each reference, with its size, time and hash."""
        return [describe_inputs(files, hash_inputs) for files in self.files]

    def find_change(self, described: Sequence[Sequence[InputRecord]]) -> str | None:
        """Returns a sentence about the first difference of the references, or None."""
        if len(described) != len(self.files):
            return f"there were {len(described)} references and there are {len(self.files)}"
        changes = map(find_first_change, described, self.files)
        return next((f"of the reference, {change}" for change in changes if change), None)

    def require_other_files(self, corpus: FileCorpus) -> None:
        """Requires that no file is both an input and a part of a reference."""
        inputs = {identify_file(file.path) for file in corpus.files}
        for texts in self.texts:
            for file in texts.files:
                if identify_file(file.path) in inputs:
                    raise UsageError(
                        f"{file.shown_path} is both an input and a part of the reference, "
                        f"so that each of its documents would be removed; leave it out of the "
                        f"inputs or of {name_setting('against')}"
                    )


def require_comparable(options: RunOptions) -> None:
    """Requires that the options of a run have a meaning with a reference."""
    options.require_defaults(
        name_setting("against"),
        {
            "cluster": "a removed document must be similar to the document of the reference "
            "itself, and not through others",
            "across": "documents of the reference are compared whatever their source is",
            "second_measure": "vectors of the reference are not compared, so duplicates would be "
            "missed; run twice, once for each measure",
        },
    )


def open_references(request: ReferenceRequest) -> OpenedReferences | None:
    """Opens the references of a run.

    The files of the request are one reference, and each finished run or index is another one.
    """
    if not request.paths:
        if request.only:
            raise UsageError(
                f"{name_flag('only_against')} has no effect without {name_setting('against')}; "
                "leave it out"
            )
        if request.scope is not None:
            raise UsageError(
                f"{name_setting('scope', request.scope)} has no effect without "
                f"{name_setting('against')}; leave it out"
            )
        return None
    require_comparable(request.options)
    indexes = _open_indexes(request)
    urls = find_store_urls(request.paths)
    paths = [path for path in request.paths if path not in urls]
    runs = [path for path in paths if is_run_folder(path)]
    files = [path for path in paths if path not in runs]
    opened = [_open_run(Path(path), request) for path in runs]
    if files:
        opened.insert(
            0, _open_files(files, columns_of_reference(request.columns, request.options), request)
        )
    references = tuple(entry.reference for entry in opened)
    for entry in opened:
        check_reference(entry.texts, entry.reference.columns)
    return OpenedReferences(
        ReferenceMatcher((*references, *indexes), only_reference=request.only),
        files=tuple(entry.files for entry in opened),
        texts=tuple(entry.texts for entry in opened),
        indexes=indexes,
    )


def check_reference(corpus: Corpus, columns: Columns) -> None:
    """Checks that a reference has the columns that are compared."""
    try:
        corpus.check(columns)
    except UsageError as error:
        raise name_reference(error, columns) from error


def name_reference(error: UsageError, columns: Columns) -> UsageError:
    """Returns an error that says which data it is about, and which columns a reference needs."""
    remedy = ""
    if columns.carried_columns:
        names = ", ".join(map(repr, columns.carried_columns))
        remedy = f"; options of the run compare {names}: add it to the reference, or leave them out"
    return UsageError(f"the reference cannot be compared: {error}{remedy}")


def find_store_urls(paths: Sequence[str]) -> list[str]:
    """Returns the paths that are URLs of stores of an index."""
    urls = [path for path in paths if "://" in path]
    if not urls:
        return []
    # A run without an index does not load it.
    from nearkin.index.stores.urls import is_store_url

    return [url for url in urls if is_store_url(url)]


def _open_indexes(request: ReferenceRequest) -> "tuple[IndexReference, ...]":
    """Returns the references of a request that are indexes, after a look at each of them."""
    urls = find_store_urls(request.paths)
    if request.scope is not None and not urls:
        raise UsageError(
            f"{name_setting('scope', request.scope)} is the scope of an index, and "
            f"{name_setting('against')} names none; leave it out, or give the URL of an index"
        )
    if not urls:
        return ()
    from nearkin.runs.index_reference import IndexReference

    scope = DEFAULT_SCOPE if request.scope is None else request.scope
    indexes = tuple(IndexReference(url, scope, request.resources) for url in urls)
    for index in indexes:
        index.check(request.columns, request.options)
    return indexes


@dataclass(frozen=True)
class _OpenedReference:
    """A reference, the files by which a change is detected, and the files of its texts."""

    reference: Reference
    files: FileCorpus
    texts: FileCorpus


def columns_of_reference(columns: Columns, options: RunOptions) -> Columns:
    """Returns the columns that are read of a reference: those that are compared."""
    return replace(columns, carried_columns=options.compared_columns)


def _open_files(
    paths: Sequence[str], columns: Columns, request: ReferenceRequest
) -> _OpenedReference:
    """Opens files whose documents are sketched."""
    memory = request.options.memory // 32
    corpus = FileCorpus.open(paths, request.on_error, memory, request.selection)
    return _OpenedReference(Reference(corpus, columns), corpus, corpus)


def _open_run(folder: Path, request: ReferenceRequest) -> _OpenedReference:
    """Opens the kept documents of a finished run.

    Its signatures are used if it has those of the Spec, and the inputs whose texts they are of.
    Otherwise the copies of its kept documents are sketched.
    """
    record = read_run_record(folder / RUN)
    columns = _columns_of_run(record, request)
    difference = _find_difference(folder, record, columns, request)
    if difference is None:
        try:
            return _open_saved(SavedRun(folder, record), columns, request)
        except UsageError as error:
            difference = str(error)
    copies = folder / KEPT
    is_annotated = isinstance(record, FileRun) and record.annotate
    if not copies.is_dir() or is_annotated:
        lack = f"was made with {name_flag('annotate')}" if is_annotated else "has no copies of them"
        raise UsageError(
            f"{folder} cannot be a reference: {difference}, and its kept documents cannot be "
            f"sketched, because it {lack}; give the files of the documents with "
            f"{name_setting('against')}"
        )
    return _open_files([str(copies)], columns, request)


def _columns_of_run(record: RunRecord, request: ReferenceRequest) -> Columns:
    """Returns the columns that are read of the texts of a finished run: its own ones."""
    if not isinstance(record, FileRun):
        return columns_of_reference(request.columns, request.options)
    recorded = record.recorded_columns
    carried = columns_of_reference(request.columns, request.options).carried_columns
    limit = request.columns.document_limit
    if request.columns.fields and recorded.fields != request.columns.fields:
        return replace(
            request.columns, id=recorded.id, carried_columns=carried, document_limit=limit
        )
    if recorded.content != request.columns.content:
        raise UsageError(
            f"the reference {record.out} is a run over {recorded.content}, and the "
            f"inputs have {request.columns.content}; give a reference with "
            f"{request.columns.content}"
        )
    if recorded.bits != request.columns.bits:
        raise UsageError(
            f"the reference {record.out} has fingerprints of {recorded.bits} bits, "
            f"and the inputs of {request.columns.bits}; give a reference with as many"
        )
    return replace(recorded, carried_columns=carried, document_limit=limit)


def _find_difference(
    folder: Path, record: RunRecord, columns: Columns, request: ReferenceRequest
) -> str | None:
    """Returns why the signatures of a finished run cannot be used, or None if they can be."""
    spec = request.options.spec
    if not (folder / SIGNATURES).is_dir() or not isinstance(record, FileRun):
        return "it has no signatures"
    if record.spec != spec:
        return "its signatures are of another Spec"
    recorded = record.recorded_columns
    if SavedRun(folder, record).options.sketched_fields != request.options.sketched_fields:
        return "its signatures are of other fields"
    missing = [name for name in columns.carried_columns if name not in recorded.carried_columns]
    if missing:
        return f"it has not kept the column {missing[0]!r}"
    for fact in text_facts_of(request.options.acceptance):
        if not (folder / SIGNATURES / fact).exists():
            return f"it has not kept the {fact} of the texts, which the condition compares"
    sketched = record.stats.sketch
    keyed = None
    if builds_keys_while_sketching(request.options):
        banding = request.options.banding(measure_of(spec), 0)
        keyed = [banding.bands, banding.rows, banding.probes]
    if sketched is None or sketched.keyed != keyed:
        return "its signatures have the keys of other bands"
    return None


def _open_saved(saved: SavedRun, columns: Columns, request: ReferenceRequest) -> _OpenedReference:
    """Opens the kept documents of a run whose signatures are used."""
    evidence = FileCorpus.open([str(saved.folder / name) for name in (RUN, CLUSTERS)])
    evidence.require_all_unchanged()
    corpus = saved.open_corpus(request.on_error)
    kept = saved.read_clusters(["kept"])["kept"].to_numpy()
    recorded = saved.record.require_files(saved.folder).recorded_columns
    sketched = saved.record.require_sketch_stats(saved.folder)
    reference = Reference(
        corpus,
        replace(
            columns,
            carried_columns=recorded.carried_columns,
            document_limit=sketched.document_limit,
        ),
        SavedSignatures(saved.folder / SIGNATURES, saved.record.stages[Stage.SKETCH], evidence),
        np.asarray(kept, bool),
    )
    return _OpenedReference(reference, evidence, corpus)
