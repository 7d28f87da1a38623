"""The sources of documents: files, which tasks read themselves, or the rows of a DataFrame."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import FileCorpus
from nearkin.corpus.file_names import make_output_names
from nearkin.corpus.formats.base import make_unused_name
from nearkin.engine.spark.frame_columns import quote_column, read_column
from nearkin.engine.spark.frequencies import HASHES, Hashing
from nearkin.engine.spark.rereading import Reread, Rows
from nearkin.engine.spark.sketching import FILE_SHIFT, FILES, Sketching, TaskRequest

FileRow: TypeAlias = tuple[int, str, str, str]
RowFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
TASK_BYTES = 64 << 20
"""Approximate size of the files that a task reads, in bytes. Small files share a task."""


class Source(Protocol):
    """A corpus, which is the same each time it is read."""

    def documents(self) -> DataFrame:
        """Returns the table that `Sketching` makes."""

    def again(self, wanted: DataFrame, rows: Rows) -> DataFrame:
        """Reads some documents again."""


@dataclass(frozen=True)
class FileSource:
    """Files, which have the same path on the driver and on all workers.

    Attributes:
        spark: Session.
        corpus: Files, in order.
        request: Request of the run.
    """

    spark: SparkSession
    corpus: FileCorpus
    request: TaskRequest

    def documents(self) -> DataFrame:
        """Returns the table that `Sketching` makes."""
        return self.files().mapInArrow(Sketching(self.request).files, self.request.schema)

    def hashes(self, hashing: Hashing) -> DataFrame:
        """Returns HASHES of all documents."""
        return self.files().mapInArrow(hashing.files, HASHES)

    def again(self, wanted: DataFrame, rows: Rows) -> DataFrame:
        """Reads some documents again."""
        return self.interleave_with_files(wanted.select("doc")).mapInArrow(
            Reread(rows).files, rows.schema
        )

    def interleave_with_files(self, documents: DataFrame) -> DataFrame:
        """Returns files, each followed by the rows of its documents in their order."""
        files = self.files()
        numbered = documents.withColumn("number", f.shiftright("doc", FILE_SHIFT).cast("int"))
        # There are more partitions than tasks, because a hash assigns files to partitions.
        tasks = 2 * max(len(self.runs()), self.spark.sparkContext.defaultParallelism)
        files_and_documents = files.unionByName(numbered, allowMissingColumns=True).repartition(
            tasks, "number"
        )
        return files_and_documents.sortWithinPartitions("number", f.asc_nulls_first("doc"))

    def files(self) -> DataFrame:
        """Returns FILES: number, path, name, and target, which is the name of the output file."""
        runs = self.runs()
        return self.spark.sparkContext.parallelize(runs, len(runs)).flatMap(list).toDF(FILES)

    def runs(self) -> list[list[FileRow]]:
        """Returns the files of each task: about TASK_BYTES, and at least one task for each core."""
        sizes = [file.status().size for file in self.corpus.files]
        cores = self.spark.sparkContext.defaultParallelism
        return list(_group_files(self.corpus, sizes, max(1, min(TASK_BYTES, sum(sizes) // cores))))


def _group_files(corpus: FileCorpus, sizes: list[int], most_bytes: int) -> Iterator[list[FileRow]]:
    run: list[FileRow] = []
    run_bytes = 0
    targets = make_output_names(corpus.names)
    for number, (file, size) in enumerate(zip(corpus.files, sizes, strict=True)):
        if run and run_bytes + size > most_bytes:
            yield run
            run = []
            run_bytes = 0
        run.append((number, file.path, file.name, targets[number]))
        run_bytes += size
    yield run


@dataclass(frozen=True)
class FrameSource:
    """A DataFrame with an id column.

    Its rows may be computed more than once, and must be the same each time.

    Attributes:
        frame: Rows.
        request: Request of the run.
        before: Rows that an earlier run sketched, which are only read again.
    """

    frame: DataFrame
    request: TaskRequest
    before: DataFrame | None = None

    def documents(self) -> DataFrame:
        """Returns the table that `Sketching` makes."""
        rows = self._read(self.frame)
        return map_rows(rows, Sketching(self.request).rows, self.request.schema)

    def value_keys(self) -> DataFrame:
        """Returns (id, value0, ...) of the documents: the keys of their values."""
        sketching = Sketching(self.request)
        return map_rows(self._read(self.frame), sketching.value_rows, sketching.value_schema)

    def hashes(self, hashing: Hashing) -> DataFrame:
        """Returns HASHES of all documents."""
        return map_rows(self._read(self.frame), hashing.rows, HASHES)

    def again(self, wanted: DataFrame, rows: Rows) -> DataFrame:
        """Reads some documents again."""
        name = f.col(quote_column(str(self.request.columns.id))).cast("string")
        other = unused_name("wanted", self.request.columns.all)
        wanted_ids = wanted.select(f.col("id").alias(other))
        rows_again = self._read(
            self.frame
            if self.before is None
            else self.frame.unionByName(self.before, allowMissingColumns=True)
        )
        matching = rows_again.join(wanted_ids, name == f.col(other)).drop(other)
        return map_rows(matching, Reread(rows).frame, rows.schema)

    def _read(self, frame: DataFrame) -> DataFrame:
        return frame.select(*(read_column(frame, name) for name in self.request.columns.all))


@dataclass(frozen=True)
class _NamedColumns:
    """A function of batches that gives their columns the names that another function expects."""

    names: list[str]
    function: RowFunction

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(
            pa.RecordBatch.from_arrays(batch.columns, self.names) for batch in batches
        )


def map_rows(rows: DataFrame, function: RowFunction, schema: str) -> DataFrame:
    """Applies a function to the batches of a DataFrame whose columns can have any name.

    `mapInArrow` takes a dot in the name of a column for the access to a field.
    """
    numbered = rows.toDF(*(f"column{number}" for number, _ in enumerate(rows.columns)))
    return numbered.mapInArrow(_NamedColumns(rows.columns, function), schema)


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Returns an unused name for a column. Spark does not distinguish upper and lower case."""
    return make_unused_name(name, {other.lower() for other in taken})
