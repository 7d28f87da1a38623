"""Where documents come from: files that tasks read themselves, or the rows of a DataFrame."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.corpus import FileCorpus
from nearkin.engine.spark.sketching import FILE_SHIFT, FILES, PayloadRows, Request, Sketching

TASK_BYTES = 64 << 20
"""Files are given to tasks in runs of about so many bytes, so that small ones are not a task each."""


class Source(Protocol):
    """Documents that can be read again and again, always the same."""

    def documents(self) -> DataFrame:
        """The table of `Sketching`."""

    def payloads(self, wanted: DataFrame) -> DataFrame:
        """The rows of `PayloadRows` of some documents (`doc`, each once)."""


@dataclass(frozen=True)
class FileSource:
    """Files, by path: every worker must see them where the driver does.

    Attributes:
        spark: The session.
        corpus: The files, in order.
        request: What is asked.
        partitions: Tasks at most; None for runs of files of TASK_BYTES, and at least one for each core.
    """

    spark: SparkSession
    corpus: FileCorpus
    request: Request
    partitions: int | None = None

    def documents(self) -> DataFrame:
        return self.files().mapInArrow(Sketching(self.request).files, self.request.schema)

    def payloads(self, wanted: DataFrame) -> DataFrame:
        rows = PayloadRows(self.request)
        files = self.files().withColumn("doc", f.lit(None).cast("long"))
        docs = wanted.select(
            f.shiftright("doc", FILE_SHIFT).cast("int").alias("number"),
            f.lit(None).cast("string").alias("path"),
            f.lit(None).cast("string").alias("name"),
            "doc",
        )
        # A multiple of the tasks, since files are dealt out by a hash.
        tasks = 2 * max(len(self.runs()), self.spark.sparkContext.defaultParallelism)
        dealt = files.unionByName(docs).repartition(tasks, "number").sortWithinPartitions("number", "doc")
        return dealt.mapInArrow(rows.files, rows.schema)

    def files(self) -> DataFrame:
        """number, path, name: a run of files in each partition."""
        runs = self.runs()
        return self.spark.sparkContext.parallelize(runs, len(runs)).flatMap(list).toDF(FILES)

    def runs(self) -> list[list[tuple[int, str, str]]]:
        """The files of each task."""
        sizes = [size for size, _ in (file.status() for file in self.corpus.files)]
        cores = self.partitions or self.spark.sparkContext.defaultParallelism
        most = max(1, min(TASK_BYTES, sum(sizes) // cores)) if self.partitions is None else max(1, sum(sizes) // cores)
        return list(_runs(self.corpus, sizes, most))


def _runs(corpus: FileCorpus, sizes: list[int], most: int) -> Iterator[list[tuple[int, str, str]]]:
    run: list[tuple[int, str, str]] = []
    held = 0
    for number, (file, size) in enumerate(zip(corpus.files, sizes, strict=True)):
        if run and held + size > most:
            yield run
            run, held = [], 0
        run.append((number, file.path, file.name))
        held += size
    yield run


@dataclass(frozen=True)
class FrameSource:
    """A DataFrame with an id column; its rows may be computed more than once, so they must come out the same.

    Attributes:
        frame: The rows.
        request: What is asked.
    """

    frame: DataFrame
    request: Request

    def documents(self) -> DataFrame:
        return self._read().mapInArrow(Sketching(self.request).rows, self.request.schema)

    def payloads(self, wanted: DataFrame) -> DataFrame:
        rows, name = PayloadRows(self.request), str(self.request.columns.id)
        some = self._read().join(wanted.select(f.col("id").alias("__wanted")), f.col(name).cast("string") == f.col("__wanted"))
        return some.drop("__wanted").mapInArrow(rows.rows, rows.schema)

    def _read(self) -> DataFrame:
        return self.frame.select(*(f.col(quoted(name)) for name in self.request.columns.all))


def quoted(name: str) -> str:
    """A column's name with dots and backticks in it taken literally."""
    return f"`{name.replace('`', '``')}`"


def types_of(frame: DataFrame) -> dict[str, Any]:
    """Spark's type of each column."""
    return {field.name: field.dataType for field in frame.schema.fields}
