"""The values that kept rows get from the rows of their clusters, out of core.

The values of all rows in clusters are read once more and wait in files, which are mapped. Clusters
are then merged in the order of their kept rows, a bounded number of rows at a time, so that a
result does not depend on the parts of a corpus and on what reads them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.corpus import ReadFiles
from nearkin.corpus.encoded_columns import cast_to_stored_type
from nearkin.corpus.formats.base import ValueForm
from nearkin.corpus.formats.record_batches import ColumnarFormat
from nearkin.corpus.parts import divide_file
from nearkin.corpus.places import RowRange
from nearkin.corpus.stored_values import (
    decode_values,
    is_empty,
    kind_of_type,
    replace_stored,
    show_values,
    to_plain,
)
from nearkin.corpus.writer import KnownDocuments, make_count_error, spread_values
from nearkin.engine.clustering import Clustering
from nearkin.engine.documents import take_values
from nearkin.engine.merge_rules import (
    ClusterValues,
    MergedField,
    merge_values,
    parse_merged_fields,
)
from nearkin.engine.run import Run
from nearkin.engine.work_folder import MERGED
from nearkin.errors import UsageError
from nearkin.runtime.executor import Task, limit_threads
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.stages.packed_pairs import isin_sorted

MERGED_FROM = "merged_from"
"""The column with the sources of the values that a kept row has got."""
SOURCES_OF_FIELDS = pa.map_(pa.string(), pa.list_(pa.string()))
"""The type of that column: the ids of the rows that the value of a field is from."""
BATCH_BYTES = 16 << 20
"""The number of bytes of the values of a column that are merged at a time, approximately."""
BATCH_ROWS = 8192
"""The number of rows that are merged at a time, unless one cluster has more."""
SAMPLED_FILES = 20
"""The number of files without types of columns whose first rows are looked at before a run."""
EXAMPLES = 5
"""The number of changed values of each column that a report shows."""


@dataclass(frozen=True)
class MergeRequest:
    """A request to fill kept rows from the rows of their clusters.

    Attributes:
        fields: The columns and their rules.
        adds_sources: Whether kept rows get the column `merged_from`.
    """

    fields: tuple[MergedField, ...]
    adds_sources: bool = False

    @classmethod
    def parse(cls, text: str | None, *, adds_sources: bool = False) -> "MergeRequest | None":
        """Returns the request that settings make, or None if nothing is merged."""
        if text is None:
            if adds_sources:
                raise UsageError(
                    f"{name_setting('merge_sources')} has no effect without "
                    f"{name_setting('merge_fields')}; name columns and their rules"
                )
            return None
        return cls(parse_merged_fields(text), adds_sources)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field.column for field in self.fields]

    @property
    def added_names(self) -> list[str]:
        """The names of the columns that kept rows get."""
        return [MERGED_FROM] if self.adds_sources else []

    def to_record(self) -> str:
        """Returns the columns and rules as they are written on the command line."""
        return ", ".join(f"{field.column}:{field.rule}" for field in self.fields)

    def require_mergeable(self, corpus: FileCorpus | TableCorpus, columns: Columns) -> None:
        """Requires that the columns exist, can be changed, and have types that fit the rules.

        Of files without types of columns, such as JSON, the first rows are looked at.
        """
        setting = name_setting("merge_fields", self.to_record())
        if columns.id in self.names:
            raise UsageError(
                f"{setting} cannot change the column of ids {columns.id!r}, which names the "
                "documents of all results; leave it out"
            )
        corpus.check(replace(columns, carried_columns=(*columns.carried_columns, *self.names)))
        corpus.require_replaceable(self.names, columns)
        if isinstance(corpus, TableCorpus):
            self._require_types(corpus.table.schema, "the table")
            return
        sampled = 0
        for number, file in enumerate(corpus.files):
            given = [name for name in self.names if name in file.partitions]
            if given:
                raise UsageError(
                    f"{setting} cannot change {given[0]!r}, which is part of the path "
                    f"{file.shown_path}; leave it out"
                )
            form = corpus.format_of(file)
            if isinstance(form, ColumnarFormat):
                schema = form.schema(file)
                self._require_types(schema, file.shown_path)
            elif sampled < SAMPLED_FILES:
                sampled += 1
                self._require_sample(corpus, number, columns)

    def _require_types(self, schema: pa.Schema, place: str) -> None:
        for field in self.fields:
            kind = to_plain(pa.array([], schema.field(field.column).type)).type
            if not pa.types.is_null(kind):
                field.require_kinds([kind_of_type(kind)], place)

    def _require_sample(self, corpus: FileCorpus, number: int, columns: Columns) -> None:
        """Requires that the values of the first rows of a file fit the rules."""
        file = corpus.files[number]
        form = corpus.format_of(file)
        read_values = form.value_reader(file, columns, self.names)
        sampled = next(corpus.read_slices(number, columns, whole=True), None)
        if sampled is None or not len(sampled.rows):
            return
        values = read_values(sampled.complete_rows)
        for field in self.fields:
            decoded = decode_values(values[field.column], form.value_form)
            kinds = zip(decoded.kinds, decoded.values, strict=True)
            field.require_kinds(
                (kind for kind, value in kinds if not is_empty(value)), file.shown_path
            )


class _ClusterRows(NamedTuple):
    """The rows of the clusters of several documents."""

    documents: np.ndarray
    """The documents, ascending, int64 (m,)."""
    order: np.ndarray
    """The positions of these documents, cluster after cluster in the order of the kept ones. The
    kept one of a cluster comes first, then the others in keep order, int64 (m,)."""
    starts: np.ndarray
    """The position in `order` of each kept document, and m, int64 (n + 1,)."""

    @classmethod
    def of(cls, run: Run, clustering: Clustering) -> "_ClusterRows":
        leader = np.asarray(clustering.leader)
        sizes = np.bincount(leader, minlength=len(leader))
        documents = np.flatnonzero((sizes > 1)[leader] & np.asarray(clustering.kept)[leader])
        leaders = leader[documents]
        rank = np.asarray(run.work.load("rank"))[documents]
        order = np.lexsort((rank, leaders != documents, leaders))
        starts = np.flatnonzero(leaders[order] == documents[order])
        return cls(documents, order, np.append(starts, len(order)))

    def batches(self, rows: int) -> Iterator[slice]:
        """Yields consecutive clusters that have about so many rows together."""
        first = 0
        while first < len(self.starts) - 1:
            end = int(np.searchsorted(self.starts, self.starts[first] + rows, side="right")) - 1
            end = max(end, first + 1)
            yield slice(first, end)
            first = end


class _ValuePart(NamedTuple):
    """A part of a file of which values are read."""

    rows: RowRange
    needed: np.ndarray
    """The rows whose values are read, ascending, int64 (n,)."""


class _WrittenValues(NamedTuple):
    """The values of a part of a file."""

    path: Path
    rows: int
    read: ReadFiles


@dataclass(frozen=True)
class WriteValues(Task):
    """A task that writes the values of some columns of a part of a file into a new file."""

    corpus: FileCorpus
    columns: Columns
    names: Sequence[str]
    folder: Path

    def __call__(self, part: _ValuePart) -> _WrittenValues:
        """Writes the values of the needed rows of one part."""
        corpus = self.corpus
        number, first, _, span = part.rows
        form = corpus.format_of(corpus.files[number])
        read_values = form.value_reader(corpus.files[number], self.columns, self.names)
        path = self.folder / f"{uuid4().hex}.arrow"
        count = 0
        writer = None
        with pa.OSFile(str(path), "wb") as sink:
            slices = corpus.read_slices(
                number, self.columns, first, whole=True, rows=part.needed, span=span
            )
            for file_slice in slices:
                is_needed = isin_sorted(file_slice.rows, part.needed)
                if is_needed.any():
                    batch = read_values(file_slice.complete_rows).filter(pa.array(is_needed))
                    writer = writer or pa.ipc.new_file(sink, batch.schema)
                    writer.write(batch)
                    count += len(batch)
                if file_slice.next_row > part.needed[-1]:
                    break
            if writer is not None:
                writer.close()
        return _WrittenValues(path, count, corpus.tell([number]))


@dataclass(frozen=True)
class _Column:
    """The stored values of a column, mapped from files.

    Attributes:
        values: The values.
        places: The position in `values` of the value of each row of a cluster, int64 (m,).
        form: The form of the values.
    """

    values: pa.ChunkedArray
    places: np.ndarray
    form: ValueForm


class MergedExample(NamedTuple):
    """A value that a kept row has got."""

    document: int
    before: str | None
    after: str | None
    sources: tuple[int, ...]
    """The documents that it is from."""


class MergedColumn(NamedTuple):
    """The values of a column that kept rows have got."""

    field: MergedField
    values: pa.ChunkedArray
    """A value for each document of `MergedRows`. A null leaves the value as it is."""
    sources: pa.ChunkedArray
    """The documents that each value is from, list of int64."""
    changed: int
    """The number of values that are not null."""
    examples: tuple[MergedExample, ...]


@dataclass(frozen=True)
class MergedRows:
    """The values that the kept rows of a run have got from their clusters, mapped from disk.

    Attributes:
        run: The run.
        request: What was asked for.
        documents: The kept documents of clusters of several ones, ascending, int64 (n,).
        columns: The merged columns.
        folder: The folder of the files, which exists as long as this object.
    """

    run: Run
    request: MergeRequest
    documents: np.ndarray
    columns: Sequence[MergedColumn]
    folder: TemporaryFolder

    @classmethod
    def find(cls, run: Run, clustering: Clustering, request: MergeRequest) -> "MergedRows":
        """Merges the clusters of a run."""
        rows = _ClusterRows.of(run, clustering)
        folder = TemporaryFolder(run.work.folder(MERGED))
        columns = _read_columns(run, rows.documents, request.names, folder.path)
        merged = [
            _merge_column(run, field, columns[field.column], rows, folder.path)
            for field in request.fields
        ]
        kept = rows.documents[rows.order[rows.starts[:-1]]]
        return cls(run, request, kept, merged, folder)

    @cached_property
    def filled(self) -> int:
        """The number of kept rows that have got a value."""
        is_filled = np.zeros(len(self.documents), bool)
        for column in self.columns:
            is_filled |= column.values.is_valid().to_numpy()
        return int(np.count_nonzero(is_filled))

    def new_values(self, start: int, end: int) -> pa.RecordBatch:
        """Returns the new values of a range of documents. A null leaves a value as it is."""
        low, high = np.searchsorted(self.documents, [start, end]).tolist()
        places = self.documents[low:high] - start
        values = [
            spread_values(take_values(column.values, np.arange(low, high)), places, end - start)
            for column in self.columns
        ]
        return pa.record_batch(values, self.request.names)

    def source_column(self, start: int, end: int) -> pa.RecordBatch:
        """Returns the column `merged_from` of a range of documents, null for unchanged ones."""
        low, high = np.searchsorted(self.documents, [start, end]).tolist()
        entries: dict[int, list[tuple[str, list[str]]]] = {}
        for column in self.columns:
            lists = take_values(column.sources, np.arange(low, high))
            ids = iter(self.name_documents(lists.flatten().to_numpy()))
            for document, those in zip(self.documents[low:high], lists.to_pylist(), strict=True):
                if those:
                    named = (column.field.column, [next(ids) for _ in those])
                    entries.setdefault(int(document), []).append(named)
        rows = [entries.get(document) for document in range(start, end)]
        return pa.record_batch([pa.array(rows, SOURCES_OF_FIELDS)], [MERGED_FROM])

    def name_documents(self, documents: Sequence[int] | np.ndarray) -> list[str]:
        """Returns the ids of documents."""
        ordinals = np.asarray(documents, np.int64)
        return list(take_values(self.run.documents().ids, ordinals).to_pylist())

    def fill_table(self, table: pa.Table, kept: np.ndarray) -> pa.Table:
        """Returns rows of a table in memory with the values that they have got.

        Args:
            kept: The documents of which they are the rows, ascending, int64 (n,).
        """
        values = self.new_values(0, len(self.run.documents())).take(pa.array(kept))
        for name in self.request.names:
            at = table.schema.get_field_index(name)
            field = table.schema.field(at)
            before = table[name].combine_chunks()
            parts = before.chunks if isinstance(before, pa.ChunkedArray) else [before]
            replaced = []
            first = 0
            for part in parts:
                new = replace_stored(part, values[name].slice(first, len(part)))
                replaced.append(cast_to_stored_type(new, field.type))
                first += len(part)
            table = table.set_column(at, field, pa.chunked_array(replaced, field.type))
        return table


def _read_columns(
    run: Run, documents: np.ndarray, names: Sequence[str], folder: Path
) -> dict[str, _Column]:
    """Returns the values of some documents, ascending, int64 (m,)."""
    corpus = run.corpus
    if isinstance(corpus, TableCorpus):
        rows = np.asarray(run.documents().rows)[documents].astype(np.int64)
        return {
            name: _Column(
                pa.chunked_array(
                    [to_plain(chunk) for chunk in corpus.table[name].chunks],
                    to_plain(pa.array([], corpus.table[name].type)).type,
                ),
                rows,
                ValueForm.ARROW,
            )
            for name in names
        }
    assert isinstance(corpus, FileCorpus)
    known = run.documents()
    needed = KnownDocuments(
        np.asarray(known.files)[documents], np.asarray(known.rows)[documents], documents
    )
    parts = list(_divide(corpus, run.columns, needed))
    task = WriteValues(corpus, run.columns, names, folder)
    executor = limit_threads(run.executor, run.copying_workers)
    written: list[tuple[_ValuePart, pa.Table]] = []
    for part, done in zip(parts, executor.map(task, parts), strict=True):
        if done.rows != len(part.needed):
            raise make_count_error(done.rows, len(part.needed))
        corpus.learn(done.read)
        written.append((part, pa.ipc.open_file(pa.memory_map(str(done.path))).read_all()))
    places = np.arange(len(documents))
    return {name: _join_values(corpus, name, written, places) for name in names}


def _divide(corpus: FileCorpus, columns: Columns, needed: KnownDocuments) -> Iterator[_ValuePart]:
    """Yields the parts of files that have needed rows."""
    for number in np.unique(needed.files).tolist():
        for rows in divide_file(corpus, columns, number):
            first = needed.count_before(number, rows.first)
            end = needed.count_before(number, rows.end)
            if end > first:
                yield _ValuePart(rows, needed.rows[first:end].astype(np.int64))


def _join_values(
    corpus: FileCorpus,
    name: str,
    written: Sequence[tuple[_ValuePart, pa.Table]],
    places: np.ndarray,
) -> _Column:
    """Returns the values of all parts as one column, which must have one type."""
    form = ValueForm.ARROW
    kind = pa.null()
    first = ""
    chunks: list[pa.Array] = []
    for part, table in written:
        file = corpus.files[part.rows.file]
        own_form = corpus.format_of(file).value_form
        own_kind = table[name].type
        if pa.types.is_null(kind):
            form = own_form
            kind = own_kind
            first = file.shown_path
        elif not pa.types.is_null(own_kind) and (own_form, own_kind) != (form, kind):
            raise UsageError(
                f"the column {name!r} has the type {_name_type(form, kind)} in {first} and "
                f"{_name_type(own_form, own_kind)} in {file.shown_path}, so that its values cannot "
                f"be merged; give it one type in all inputs, or leave it out of "
                f"{name_setting('merge_fields')}"
            )
        chunks += table[name].chunks
    chunks = [pa.nulls(len(one), kind) if pa.types.is_null(one.type) else one for one in chunks]
    return _Column(pa.chunked_array(chunks, kind), places, form)


def _name_type(form: ValueForm, kind: pa.DataType) -> str:
    """Returns the name of a type for a message."""
    return str(kind).removeprefix("large_") if form is ValueForm.ARROW else f"values of {form}"


def _merge_column(
    run: Run, field: MergedField, column: _Column, rows: _ClusterRows, folder: Path
) -> MergedColumn:
    """Merges the values of a column, and writes the new ones into a file."""
    schema = pa.schema([("values", column.values.type), ("sources", pa.list_(pa.int64()))])
    ids = run.documents().ids
    count = 0
    examples: list[MergedExample] = []
    path = folder / f"{uuid4().hex}.arrow"
    mean = column.values.nbytes // max(len(column.values), 1)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for clusters in rows.batches(max(1, min(BATCH_ROWS, BATCH_BYTES // max(mean, 1)))):
            bounds = rows.starts[clusters.start : clusters.stop + 1]
            members = rows.order[bounds[0] : bounds[-1]]
            documents = rows.documents[members]
            values = take_values(column.values, column.places[members])

            def name_row(at: int, documents: np.ndarray = documents) -> str:
                return repr(take_values(ids, documents[at : at + 1])[0].as_py())

            starts = bounds - bounds[0]
            merged = merge_values(field, ClusterValues(values, column.form, starts), name_row)
            sources = [[int(documents[at]) for at in those] for those in merged.sources]
            writer.write(pa.record_batch([merged.values, pa.array(sources)], schema=schema))
            count += len(merged.values) - merged.values.null_count
            if len(examples) < EXAMPLES:
                before = values.take(pa.array(starts[:-1]))
                kept = documents[starts[:-1]]
                examples += _show_examples(before, column.form, merged.values, kept, sources)
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return MergedColumn(field, table["values"], table["sources"], count, tuple(examples[:EXAMPLES]))


def _show_examples(
    before: pa.Array,
    form: ValueForm,
    after: pa.Array,
    documents: np.ndarray,
    sources: Sequence[Sequence[int]],
) -> Iterator[MergedExample]:
    """Yields the first values that changed, as texts."""
    changed = np.flatnonzero(after.is_valid().to_numpy(zero_copy_only=False))[:EXAMPLES]
    shown = (show_values(values.take(pa.array(changed)), form) for values in (before, after))
    for at, old, new in zip(changed.tolist(), *shown, strict=True):
        yield MergedExample(int(documents[at]), old, new, tuple(sources[at]))
