"""The second reading of documents: payloads, excerpts for a report, and the output files."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from nearkin.corpus import write_kept
from nearkin.corpus.batches import read_content
from nearkin.corpus.file_names import join_inside
from nearkin.corpus.places import places_of
from nearkin.corpus.text_forms import format_content
from nearkin.corpus.writer import Annotations, Rewriter
from nearkin.engine.acceptance import token_kinds_of
from nearkin.engine.cluster_columns import ClusterColumns
from nearkin.engine.result_schema import (
    BLOCKED_BY_COLUMN,
    CLUSTERS,
    CLUSTERS_AGAINST,
    OUTCOME_COLUMN,
)
from nearkin.engine.spark.arrow_columns import payload_columns, to_binary_slices
from nearkin.engine.spark.sketching import (
    FILE_SHIFT,
    TaskRequest,
    corpus_of,
    docs_of,
    read_rows,
)
from nearkin.engine.token_runs import TokenKind, create_token_reader
from nearkin.stages.measures.compared_sets import payload_builder_for_run

EXCERPT = 4001
"""The number of characters of a text that are read for the report: one more than it shows, by which
it finds out whether a word ends there."""
ATTEMPT_PREFIX = ".attempt-"
"""The beginning of the names of the folders of incomplete copies."""
WRITTEN = "facts string"


class WrittenFacts(TypedDict):
    """The facts that a task records that writes files again."""

    documents: int


class Rows(Protocol):
    """A conversion of documents that are read again."""

    @property
    def request(self) -> TaskRequest:
        """The request of the run."""

    @property
    def schema(self) -> str:
        """The schema of the rows."""

    def maker(self) -> Callable[[np.ndarray, pa.Array], pa.RecordBatch]:
        """Returns a function of document numbers, int64 (n,), and their content, for one task."""


@dataclass(frozen=True)
class PayloadRows:
    """The payloads of documents: `doc`, `payload0`, `payload1`, and so on.

    There are also the tokens of each kind whose order the acceptance of the run compares.
    """

    request: TaskRequest

    @property
    def schema(self) -> str:
        payloads = [f"{name} binary" for name in payload_names(self.request)]
        return ",".join(["doc long", *payloads])

    def maker(self) -> Callable[[np.ndarray, pa.Array], pa.RecordBatch]:
        request = self.request
        builder = payload_builder_for_run(request.measure)
        token_readers = [
            create_token_reader(kind, request.options.spec, request.resources)
            for kind in token_kinds_of(request.options.acceptance)
        ]
        names = ["doc", *payload_names(request)]

        def make(docs: np.ndarray, content: pa.Array) -> pa.RecordBatch:
            columns = [pa.array(docs), *payload_columns(builder.build(content))]
            for read_tokens in token_readers:
                tokens, counts = read_tokens(content)
                columns.append(to_binary_slices(tokens, np.concatenate([[0], np.cumsum(counts)])))
            return pa.record_batch(columns, names)

        return make


def payload_names(request: TaskRequest) -> list[str]:
    """Returns the names of the columns of a document's payload."""
    names = [f"payload{number}" for number, _ in enumerate(request.measure.column_types)]
    return [*names, *map(token_column, token_kinds_of(request.options.acceptance))]


def token_column(kind: TokenKind) -> str:
    """Returns the name of the column of a document's tokens of a kind."""
    return kind.replace("-", "_")


@dataclass(frozen=True)
class TextRows:
    """The texts of documents, or their beginnings: `doc` and `text`."""

    request: TaskRequest
    convert: Callable[[pa.Array], pa.Array]
    """Returns the texts of some contents: `to_texts` or `to_excerpts`."""

    @property
    def schema(self) -> str:
        return "doc long,text string"

    def maker(self) -> Callable[[np.ndarray, pa.Array], pa.RecordBatch]:
        def make(docs: np.ndarray, content: pa.Array) -> pa.RecordBatch:
            return pa.record_batch([pa.array(docs), self.convert(content)], ["doc", "text"])

        return make


def to_texts(content: pa.Array) -> pa.Array:
    """Returns the texts of documents."""
    return content.cast(pa.string())


def to_excerpts(content: pa.Array) -> pa.Array:
    """Returns the first characters of texts or of fields, or the first items of lists."""
    excerpts = [format_content(value, EXCERPT)[:EXCERPT] for value in content.to_pylist()]
    return pa.array(excerpts, pa.string())


@dataclass(frozen=True)
class Reread:
    """The tasks that read documents again.

    Attributes:
        rows: What is made of the documents.
    """

    rows: Rows

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields rows of documents of files."""
        request, make = self.rows.request, self.rows.maker()
        for file, parts in by_file(batches):
            if not parts:
                continue
            wanted_docs = np.concatenate([batch["doc"].to_numpy() for batch in parts])
            numbers, corpus = corpus_of([file], request)
            rows = np.unique(wanted_docs) & ((1 << FILE_SHIFT) - 1)
            places = places_of(np.zeros(len(rows)), rows)
            for batch in read_content(corpus, request.columns, places):
                if len(batch.rows):
                    docs = docs_of(numbers[batch.files], batch.rows)
                    yield make(docs, batch.documents[request.columns.content])

    def frame(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields rows of the documents of a DataFrame."""
        make = self.rows.maker()
        for read in read_rows(batches, self.rows.request):
            if len(read.docs):
                yield make(read.docs, read.documents[self.rows.request.columns.content])


def by_file(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, list[pa.RecordBatch]]]:
    """Yields the row of each file, and the rows of its documents."""
    file: pa.RecordBatch | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        paths = batch["path"].is_valid().to_numpy(zero_copy_only=False)
        for low, high in itertools.pairwise([0, *np.flatnonzero(paths).tolist(), len(batch)]):
            part = batch.slice(low, high - low)
            if len(part) and paths[low]:
                if file is not None:
                    yield file, parts
                file = part.slice(0, 1)
                parts = []
                part = part.slice(1)
            if len(part):
                parts.append(part)
    if file is not None:
        yield file, parts


class FileEdits(NamedTuple):
    """The differences between a file and its copy."""

    kept: np.ndarray
    """bool (n,): True for each document that is copied."""
    columns: Annotations | None = None
    """Returns the columns that documents get."""
    rewrite: Rewriter | None = None
    """Returns the new texts of documents."""


FileEditor: TypeAlias = Callable[[int, pa.Table], FileEdits]
"""A function that receives the number of a file and the rows of its documents, and returns the
differences of its copy."""


@dataclass(frozen=True)
class FileCopying:
    """The tasks that copy the input files.

    Attributes:
        request: Request of the run.
        folder: Folder of the copies, which all workers share.
        edit: Returns the differences of a copy.
    """

    request: TaskRequest
    folder: str
    edit: FileEditor

    def copy(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copies files, moves each to its place when it is complete, and yields WRITTEN."""
        folder = Path(self.folder)
        attempt = attempt_folder(folder)
        written = 0
        for file, parts in by_file(batches):
            numbers, corpus = corpus_of([file], self.request)
            rows = pa.Table.from_batches([file.slice(0, 0), *parts]).combine_chunks()
            edits = self.edit(int(numbers[0]), rows)
            write_kept(
                corpus,
                self.request.columns,
                edits.kept,
                attempt,
                edits.columns,
                rewrite=edits.rewrite,
            )
            move_copy(attempt, corpus.names[0], folder, file["target"][0].as_py())
            written += len(edits.kept)
        shutil.rmtree(attempt, ignore_errors=True)
        yield pa.record_batch([pa.array([json.dumps({"documents": written})])], ["facts"])


@dataclass(frozen=True)
class ClusterEdits:
    """The differences of copies without the removed rows.

    Attributes:
        has_outcomes: Whether the clusters table has the column `outcome`.
        annotate: Whether all rows are written, with the cluster columns.
        purges: Whether the run purges an earlier one, so that no blocked row is written.
        added: Columns about clusters that are added.
    """

    has_outcomes: bool
    annotate: bool
    purges: bool
    added: ClusterColumns

    def __call__(self, number: int, clusters: pa.Table) -> FileEdits:
        """Returns the differences of a copy."""
        kept = clusters["kept"].to_numpy()
        if self.annotate or self.added.weights is not None:
            kept = np.ones(len(kept), bool)
            if self.purges:
                kept = clusters[BLOCKED_BY_COLUMN.name].is_null().to_numpy()
        has_columns = self.annotate or bool(self.added.names)
        return FileEdits(kept, self._columns_to_add(clusters) if has_columns else None)

    def _columns_to_add(self, clusters: pa.Table) -> Annotations:
        schema = CLUSTERS
        if "matched_in" in clusters.column_names:
            schema = CLUSTERS_AGAINST
        if self.has_outcomes:
            schema = schema.append(OUTCOME_COLUMN)
        if BLOCKED_BY_COLUMN.name in clusters.column_names:
            schema = schema.append(BLOCKED_BY_COLUMN)
        names = [name for name in schema.names if name != "id"] if self.annotate else []

        def rows(start: int, end: int) -> pa.RecordBatch:
            part = clusters.slice(start, end - start).combine_chunks().to_batches()[0]
            columns = [part[name].cast(schema.field(name).type) for name in names]
            added = self.added.build_from_rows(part)
            return pa.record_batch([*columns, *added.columns], [*names, *added.schema.names])

        return rows


def attempt_folder(folder: Path) -> Path:
    """Returns a folder for the incomplete copies of a task, so that attempts do not mix."""
    context = TaskContext.get()
    return folder / f"{ATTEMPT_PREFIX}{context.taskAttemptId() if context else 0}"


def move_copy(attempt: Path, name: str, folder: Path, target: str) -> None:
    """Moves the complete copy of a file to its place. A file that was not copied is passed over."""
    attempted = join_inside(attempt, name)
    if attempted.exists():
        place = join_inside(folder, target)
        place.parent.mkdir(parents=True, exist_ok=True)
        # A repeated task replaces the copy of an earlier attempt, which can be a folder.
        if place.is_dir():
            shutil.rmtree(place)
        attempted.replace(place)
