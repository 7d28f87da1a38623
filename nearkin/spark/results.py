"""The results of runs over DataFrames, as DataFrames over the files that the engine wrote."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from nearkin.engine.result_schema import RELATED_FILE
from nearkin.engine.split_groups import SplitFacts, describe_group_sizes, require_group
from nearkin.engine.stats import MissingPairsStats, StageRecords
from nearkin.errors import UsageError
from nearkin.executors.spark import SparkExecutor
from nearkin.reports.model import ReportData
from nearkin.runs.passage_cuts import CUTS_TABLE, LINES_TABLE
from nearkin.runs.results import DedupResult
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_format import format_part
from nearkin.runtime.setting_names import name_setting
from nearkin.spark.row_files import RowFiles, read_files, select_rows_of_ids, text_id, url_of
from nearkin.texts.passages.cutting.request import CUT_SPANS

REJECTED = "file string, row long, reason string, raw string"
"""The schema of rejected.jsonl."""
CONTAMINATION_ITEMS = "array<struct<suite:string,item:string,field:string,score:double>>"
"""The type of the column `contamination`."""
SPANS = "array<struct<start:long,end:long>>"
"""The type of the column `cut_spans`."""


@dataclass(frozen=True, repr=False)
class RunFiles:
    """The files of a run.

    Attributes:
        folder: Folder of all files, which belongs to the run.
        rows: The rows of the DataFrame.
        id: Column of ids.
    """

    folder: Path
    rows: RowFiles
    id: str

    @property
    def spark(self) -> SparkSession:
        """The session of the DataFrame."""
        return self.rows.frame.sparkSession

    @property
    def executor(self) -> SparkExecutor | None:
        """The workers of the session, or None if threads of this process do the same at once."""
        if self.spark.sparkContext.master.startswith("local"):
            return None
        return SparkExecutor(self.spark)

    @property
    def result(self) -> Path:
        """The folder in which the engine writes the result."""
        return self.folder / "result"

    def read(self, name: str, schema: StructType | None = None) -> DataFrame:
        """Returns a file of the result, or the files of a folder, as a DataFrame."""
        return read_files(self.spark, self.result / name, schema)

    def write(self, name: str, table: pa.Table) -> DataFrame:
        """Writes a table beside the result, and returns it as a DataFrame."""
        path = self.folder / name
        pq.write_table(table, path)
        return read_files(self.spark, path)

    def read_kept(self, added: Mapping[str, str] | None = None) -> DataFrame:
        """Returns the copies of the rows, with the types that they have in the DataFrame.

        Args:
            added: Types of the columns that the engine added, by their names.
        """
        schema = StructType(list(self.rows.frame.schema.fields))
        for name, kind in (added or {}).items():
            schema = schema.add(name, DataType.fromDDL(kind))
        return self.read("kept", schema)

    def read_rejected(self) -> DataFrame:
        """Returns the rejected rows: id, reason, and the beginning of the raw value."""
        listed = self.spark.read.schema(REJECTED).json(url_of(self.result / "rejected.jsonl"))
        rows = self.rows.frame
        places = rows.select(
            text_id(rows, self.id).alias("id"),
            f.col("_metadata.file_name").alias("name"),
            f.col("_metadata.row_index").alias("number"),
        )
        is_place = (f.substring_index("file", "/", -1) == f.col("name")) & (
            f.col("row") == f.col("number")
        )
        return listed.join(places, is_place, "left").select("id", "reason", "raw")

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, repr=False, kw_only=True)
class ClosableResult:
    """A result whose DataFrames read the files of a work folder.

    `close`, or leaving `with`, deletes the folder; the DataFrames cannot be computed any more then.
    """

    _files: RunFiles

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the files. DataFrames of this result cannot be computed then."""
        self._files.remove()


@dataclass(frozen=True, repr=False, kw_only=True)
class SparkResult(ClosableResult):
    """The result of `dedup`, as DataFrames over the files of a work folder.

    `close`, or leaving `with`, deletes the folder; the DataFrames cannot be computed any more then.
    """

    _result: DedupResult
    _tables: frozenset[str]
    """The names of the files of the result."""

    @classmethod
    def write(cls, files: RunFiles, result: DedupResult) -> Self:
        """Writes the result of a run into its folder."""
        # the folder around it decides who may read it
        result.write(files.result, readable_by="everyone")
        tables = frozenset(path.name for path in files.result.iterdir())
        return cls(_files=files, _result=result, _tables=tables)

    def close(self) -> None:
        """Deletes the files. DataFrames of this result cannot be computed then."""
        self._result.close()
        super().close()

    @property
    def clusters(self) -> DataFrame:
        """A row for each document, with the columns of `nearkin.results.DedupResult.clusters`."""
        return self._files.read("clusters.parquet")

    @property
    def pairs(self) -> DataFrame:
        """The verified pairs, with the columns of `nearkin.results.DedupResult.pairs`.

        `id_a` is the smaller id by its bytes.
        """
        pairs = self._files.read("pairs.parquet")
        scores = [name for name in pairs.columns if not name.startswith("id_")]
        first = f.least("id_a", "id_b").alias("id_a")
        second = f.greatest("id_a", "id_b").alias("id_b")
        return pairs.select(first, second, *scores)

    @property
    def related(self) -> DataFrame:
        """The verified pairs of different clusters, with the columns of `DedupResult.related`.

        `id_a` is the smaller id by its bytes; or that of the run, if document b is one of a
        reference.

        Raises:
            UsageError: If the run has no option `related`.
        """
        if RELATED_FILE not in self._tables:
            raise UsageError(
                "related documents were not searched for; deduplicate again with "
                f"{name_setting('related', 0.6)}, for example"
            )
        related = self._files.read(RELATED_FILE)
        is_ordered = f.col("id_a") <= f.col("id_b")
        if "matched_in" in related.columns:
            is_ordered |= f.col("matched_in") == "reference"
        columns = []
        for name in related.columns:
            stem, _, side = name.rpartition("_")
            other = {"a": "b", "b": "a"}.get(side)
            column = f.col(name)
            if other is not None:
                column = f.when(is_ordered, column).otherwise(f.col(f"{stem}_{other}"))
            columns.append(column.alias(name))
        return related.select(columns)

    @property
    def kept(self) -> DataFrame:
        """The input rows of kept documents.

        If passages or lines were cut, the texts are without them, and there is also `cut_spans`:
        start and end of each part that was cut, in bytes of the original text.
        """
        return self._files.read_kept({CUT_SPANS: SPANS} if CUTS_TABLE in self._tables else {})

    @property
    def cuts(self) -> DataFrame:
        """The parts that were cut from kept documents: id, start, end, text and kept_id.

        Raises:
            UsageError: If nothing was to be cut.
        """
        if CUTS_TABLE not in self._tables:
            raise UsageError(
                "nothing was cut; deduplicate again with "
                f"{name_setting('passages', 50)}, for example"
            )
        return self._files.read(CUTS_TABLE).drop("document")

    @property
    def repeated_lines(self) -> DataFrame:
        """The repeated lines of kept documents, with the columns of `DedupResult.repeated_lines`.

        Raises:
            UsageError: If they were not searched for.
        """
        if LINES_TABLE not in self._tables:
            raise UsageError(
                "repeated lines were not searched for; deduplicate again with "
                f"{name_setting('repeated_lines', 2)}, for example"
            )
        return self._files.read(LINES_TABLE)

    @check_arguments
    def cluster_columns(self, document_weights: str = "none") -> DataFrame:
        """Returns how often each document occurs, as `DedupResult.cluster_columns` does.

        Args:
            document_weights: Weights: `none`, `one`, `sqrt`, `log`, or the path of a CSV file with
                the columns `size` and `weight`, which the driver reads.

        Raises:
            UsageError: If the weights are unknown, the file is not such a table, or the run has a
                reference.
        """
        columns = self._result.cluster_columns(document_weights)
        name = "-".join(["columns", *map(str, columns.arrow.schema.names)])
        return self._files.write(f"{name}.parquet", columns.arrow)

    @property
    def rejected(self) -> DataFrame:
        """The rejected rows: id, reason, and the beginning of the raw value."""
        return self._files.read_rejected()

    @property
    def stages(self) -> StageRecords:
        """The statistics of each stage, by its name, as in run.json."""
        return self._result.stages

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the result, for example that most texts are short."""
        return self._result.warnings

    @property
    def report_data(self) -> ReportData:
        """The content of a report."""
        return replace(self._result.report_data, title="a DataFrame")

    @property
    def statistics(self) -> dict[str, int]:
        """The numbers of documents that were read, kept, removed and rejected."""
        return self._result.statistics

    def __repr__(self) -> str:
        return repr(self._result).replace("DedupResult", "SparkResult", 1)


@dataclass(frozen=True, repr=False, kw_only=True)
class SparkCheckResult(ClosableResult):
    """The near-duplicates between two DataFrames.

    Its table is in a work folder. `close`, or leaving `with`, deletes the folder; the table cannot
    be computed any more then.

    Attributes:
        pairs: A table with the columns of `nearkin.results.CheckResult.pairs`.
        documents: Number of documents of each DataFrame.
        affected: Number of documents of each DataFrame that have a near-duplicate in the other one.
        missing: Estimate of the pairs that are missing because buckets exceed the pair budget, or
            None if no bucket does.
        warnings: Sentences about the result, for example that most texts are short.
    """

    pairs: DataFrame
    documents: tuple[int, int]
    affected: tuple[int, int]
    missing: MissingPairsStats | None
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        affected = format_part(self.affected[1], self.documents[1])
        return f"<SparkCheckResult: {affected} affected>"


@dataclass(frozen=True, repr=False, kw_only=True)
class SparkSplitResult(ClosableResult):
    """The groups of a DataFrame, between which there are no near-duplicates.

    Its table is in a work folder. `close`, or leaving `with`, deletes the folder; the table cannot
    be computed any more then.

    Attributes:
        groups: A table with a row for each document: id, group (the name) and cluster (the id of
            the first document of its cluster). Documents of one cluster are in one group.
        facts: The numbers of documents and clusters, of each group too, the largest cluster, and
            the numbers of pairs.
        warnings: Sentences about the result, for example that most texts are short.
    """

    groups: DataFrame
    facts: SplitFacts
    warnings: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(group["name"] for group in self.facts["groups"])

    def select(self, name: str) -> DataFrame:
        """Returns the input rows of one group.

        Args:
            name: The name of the group.

        Raises:
            UsageError: If no group has this name.
        """
        require_group(name, self.names)
        ids = self.groups.where(f.col("group") == name).select("id")
        return select_rows_of_ids(self._files.rows.frame, self._files.id, ids)

    def __repr__(self) -> str:
        return f"<SparkSplitResult: {describe_group_sizes(self.facts)}>"


@dataclass(frozen=True, repr=False, kw_only=True)
class SparkPassages(ClosableResult):
    """The passages of a DataFrame.

    Its table is in a work folder. `close`, or leaving `with`, deletes the folder; the table cannot
    be computed any more then.

    Attributes:
        passages: A row for each passage, with the columns of `PassagesResult.passages`.
        documents: Number of documents.
        rejected: Number of rows without a text, which are left out.
        warnings: Sentences about the rows.
    """

    passages: DataFrame
    documents: int
    rejected: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class SparkDecontamination(ClosableResult):
    """The items of suites that the rows of a DataFrame hold.

    The rows of its tables are those of `DecontaminationResult`, without the numbers of
    documents. They are in a work folder. `close`, or leaving `with`, deletes the folder.

    Attributes:
        statistics: The counts of documents, items and hits.
        warnings: Sentences about suites.
    """

    statistics: Mapping[str, int]
    warnings: tuple[str, ...]
    _added: Mapping[str, str] | None
    """The types of the columns that the action adds to the rows. None without an action."""

    @property
    def hits(self) -> DataFrame:
        """A row for each field of an item that a document holds."""
        return self._files.read("hits.parquet").drop("document")

    @property
    def items(self) -> DataFrame:
        """A row for each item that documents hold."""
        return self._files.read("items.parquet")

    @property
    def suites(self) -> DataFrame:
        """A row for each suite."""
        return self._files.read("suites.parquet")

    @property
    def documents(self) -> DataFrame:
        """A row for each contaminated document."""
        return self._files.read("documents.parquet").drop("document")

    @property
    def kept(self) -> DataFrame:
        """The input rows after the action.

        They are all rows with the column `contamination`, the rows with rewritten texts and the
        column `cut_spans`, or the rows that hold no item. Rejected rows are left out.

        Raises:
            UsageError: If no action was given.
        """
        if self._added is None:
            raise UsageError(
                f"documents were only listed; search again with {name_setting('action', 'drop')}, "
                "for example"
            )
        return self._files.read_kept(self._added)

    @property
    def cuts(self) -> DataFrame:
        """The parts that were cut: id, start, end, text and kept_id (null).

        Raises:
            UsageError: If nothing was to be cut.
        """
        if CUT_SPANS not in (self._added or {}):
            raise UsageError(f"nothing was cut; search again with {name_setting('action', 'cut')}")
        return self._files.read(CUTS_TABLE).drop("document")

    @property
    def rejected(self) -> DataFrame:
        """The rejected rows: id, reason, and the beginning of the raw value."""
        return self._files.read_rejected()

    def __repr__(self) -> str:
        counts = self.statistics
        return (
            f"<SparkDecontamination: {counts['contaminated_items']:,} of {counts['items']:,} "
            f"items in {counts['contaminated_documents']:,} of {counts['documents']:,} documents>"
        )
