"""Documents that are read again: what exact comparison needs of them, excerpts for a report, the kept ones to be written."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from nearkin.corpus import write_kept
from nearkin.corpus.file_names import join_inside
from nearkin.engine.result_schema import CLUSTERS
from nearkin.engine.spark.arrow_columns import payload_columns
from nearkin.engine.spark.sketching import TaskRequest, corpus_of, docs_of, read_rows

EXCERPT = 4000
WRITTEN = "facts string"


class Rows(Protocol):
    """Documents to rows of something else."""

    @property
    def request(self) -> TaskRequest:
        """What is asked."""

    @property
    def schema(self) -> str:
        """Of the rows."""

    def maker(self) -> Callable[[np.ndarray, pa.Array], pa.RecordBatch]:
        """A function of what identifies documents, int64, and their content; one for each task."""


@dataclass(frozen=True)
class PayloadRows:
    """Documents to what exact comparison needs of them: `doc`, and `payload0`, `payload1` … ."""

    request: TaskRequest

    @property
    def schema(self) -> str:
        return ",".join(
            [
                "doc long",
                *(f"payload{i} binary" for i in range(len(self.request.measure.column_types))),
            ]
        )

    def maker(self) -> Callable[[np.ndarray, pa.Array], pa.RecordBatch]:
        builder = self.request.measure.payload_builder()

        def make(docs: np.ndarray, content: pa.Array) -> pa.RecordBatch:
            columns = [pa.array(docs), *payload_columns(builder.build(content))]
            return pa.record_batch(
                columns, ["doc", *(f"payload{i}" for i in range(len(columns) - 1))]
            )

        return make


@dataclass(frozen=True)
class ExcerptRows:
    """The first characters of documents."""

    request: TaskRequest

    @property
    def schema(self) -> str:
        return "doc long,text string"

    def maker(self) -> Callable[[np.ndarray, pa.Array], pa.RecordBatch]:
        def make(docs: np.ndarray, content: pa.Array) -> pa.RecordBatch:
            texts = [excerpt(value) for value in content.to_pylist()]
            return pa.record_batch([pa.array(docs), pa.array(texts, pa.string())], ["doc", "text"])

        return make


def excerpt(value: Any) -> str:
    """The first characters of a text, tokens or numbers of a vector."""
    return value[:EXCERPT] if isinstance(value, str) else " ".join(map(str, value[:EXCERPT]))


@dataclass(frozen=True)
class Reread:
    """Reads documents again, some of them or all.

    Attributes:
        rows: What they become.
    """

    rows: Rows

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of files (rows with a path) and the documents wanted of each (rows with `doc`), sorted by file, the path first."""
        request, make = self.rows.request, self.rows.maker()
        for file, found in by_file(batches):
            if not found:
                continue
            wanted = np.concatenate([batch["doc"].to_numpy() for batch in found])
            numbers, corpus = corpus_of([file], request)
            for batch in corpus.batches(request.columns):
                docs = docs_of(numbers[batch.files], batch.rows)
                places = np.flatnonzero(np.isin(docs, wanted))
                if len(places):
                    yield make(
                        docs[places],
                        batch.documents[request.columns.content].take(pa.array(places)),
                    )

    def frame(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of a DataFrame's rows."""
        make = self.rows.maker()
        for read in read_rows(batches, self.rows.request):
            if len(read.docs):
                yield make(read.docs, read.documents[self.rows.request.columns.content])


def by_file(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, list[pa.RecordBatch]]]:
    """(the file's row, the rows of documents of it), of rows sorted by file, the file's own row first."""
    file: pa.RecordBatch | None = None
    found: list[pa.RecordBatch] = []
    for batch in batches:
        paths = batch["path"].is_valid().to_numpy(zero_copy_only=False)
        for low, high in itertools.pairwise([0, *np.flatnonzero(paths).tolist(), len(batch)]):
            part = batch.slice(low, high - low)
            if len(part) and paths[low]:
                if file is not None:
                    yield file, found
                file, found, part = part.slice(0, 1), [], part.slice(1)
            if len(part):
                found.append(part)
    if file is not None:
        yield file, found


@dataclass(frozen=True)
class Writing:
    """Writes the inputs anew, in their names and formats, without the removed rows (or with all, annotated).

    Attributes:
        request: What was asked.
        folder: `kept/`, which all workers see.
        annotate: Whether all rows are written, with the cluster columns.
    """

    request: TaskRequest
    folder: str
    annotate: bool

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of files and the rows of clusters of each, sorted; a file is moved into place when it is whole."""
        context = TaskContext.get()
        attempt = Path(self.folder) / f".attempt-{context.taskAttemptId() if context else 0}"
        written = 0
        for file, found in by_file(batches):
            _, corpus = corpus_of([file], self.request)
            clusters = pa.Table.from_batches(found).combine_chunks() if found else None
            kept = np.zeros(0, bool) if clusters is None else clusters["kept"].to_numpy()
            write_kept(
                corpus,
                self.request.columns,
                kept,
                attempt,
                self._annotations(clusters) if self.annotate else None,
            )
            made = join_inside(attempt, corpus.names[0])
            if made.exists():
                target = join_inside(Path(self.folder), file["target"][0].as_py())
                target.parent.mkdir(parents=True, exist_ok=True)
                made.replace(target)
            written += len(kept)
        shutil.rmtree(attempt, ignore_errors=True)
        yield pa.record_batch([pa.array([json.dumps({"documents": written})])], ["facts"])

    def _annotations(self, clusters: pa.Table | None) -> Callable[[int, int], pa.RecordBatch]:
        names = [name for name in CLUSTERS.names if name != "id"]

        def rows(start: int, end: int) -> pa.RecordBatch:
            assert clusters is not None
            part = clusters.slice(start, end - start).combine_chunks().to_batches()[0]
            return pa.record_batch(
                [part[name].cast(CLUSTERS.field(name).type) for name in names], names
            )

        return rows
