"""The result of a deduplication of a DataFrame."""

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.cluster_columns import ClusterColumns, DocumentWeights
from nearkin.engine.result_schema import RELATED, RELATED_AGAINST
from nearkin.engine.spark.cluster_columns import ColumnsById, with_cluster_columns
from nearkin.engine.spark.document_split import SparkDocumentSplit
from nearkin.engine.spark.frame_columns import read_column
from nearkin.engine.spark.reference import OURS, THEIRS
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.session import translate_spark_errors
from nearkin.engine.spark.sources import unused_name
from nearkin.engine.split_groups import SplitFacts, describe_group_sizes, require_group
from nearkin.engine.stats import StageRecords
from nearkin.errors import UsageError
from nearkin.reports.collect import collect_counts, collect_report, summary_counts
from nearkin.reports.model import Provenance, ReportData
from nearkin.reports.run_warnings import warn_of_run
from nearkin.reports.spark_view import SparkRunView
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.number_format import format_part
from nearkin.runtime.setting_names import name_setting
from nearkin.spark.document_cuts import SparkDocumentCuts


@dataclass(repr=False)
class SparkResult:
    """The result of `dedup`, as DataFrames.

    Its tables are in a work folder. `close`, or leaving `with`, deletes the folder; the DataFrames
    cannot be computed any more then.
    """

    _run: SparkRun
    _frame: DataFrame
    _cuts: SparkDocumentCuts | None = None
    _doubt: str | None = None
    """The warning that the run seems to remove unique documents, or None."""

    def __enter__(self) -> "SparkResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the intermediate tables. DataFrames of this result cannot be computed then."""
        self._run.tables.remove()

    @property
    def clusters(self) -> DataFrame:
        """A row for each document: id, cluster (id of the kept one), kept, similarity, kind.

        With a reference, there are also duplicate_of and matched_in. With the option `related`,
        there is also outcome: `same` (a duplicate), `related` or `new`.
        """
        return self._run.clusters.drop("doc")

    @property
    def pairs(self) -> DataFrame:
        """The verified pairs: id_a, id_b, similarity, estimate, and distance if one was given.

        `id_a` is the smaller id by its bytes. Of exact duplicates only one is in pairs.
        """
        pairs = self._run.scorer.pair_table.drop("a", "b")
        score_columns = [name for name in pairs.columns if not name.startswith("id_")]
        first = f.least("id_a", "id_b").alias("id_a")
        second = f.greatest("id_a", "id_b").alias("id_b")
        return pairs.select(first, second, *score_columns)

    @property
    def related(self) -> DataFrame:
        """The verified pairs of different clusters.

        The columns are those of `nearkin.DedupResult.related`. `id_a` is the smaller id by
        its bytes. If document b is one of a reference, `id_a` is that of the run.

        Raises:
            UsageError: If the run has no option `related`.
        """
        related = self._run.related
        if related is None:
            raise UsageError(
                f"related documents were not searched for; deduplicate again with "
                f"{name_setting('related', 0.6)}, for example"
            )
        is_ordered = f.col("id_a") <= f.col("id_b")
        sides = [
            f.when(is_ordered, f.col(f"{name}_{side}"))
            .otherwise(f.col(f"{name}_{other}"))
            .alias(f"{name}_{side}")
            for name in ("id", "kept", "cluster")
            for side, other in (("a", "b"), ("b", "a"))
        ]
        if "matched_in" not in related.columns:
            return related.select(*sides, "similarity").select(*RELATED.names)
        in_run = related.where(f.col("b").isNotNull()).select(*sides, "similarity", "matched_in")
        in_reference = related.where(f.col("b").isNull()).select(*RELATED_AGAINST.names)
        return in_run.select(*RELATED_AGAINST.names).unionByName(in_reference)

    @property
    def kept(self) -> DataFrame:
        """The input rows of kept documents.

        If passages or lines were cut, the texts are without them, and there is also `cut_spans`:
        start and end of each part that was cut, in bytes of the original text.
        """
        columns = self._run.request.columns
        ids = self._run.clusters.where("kept").select("id")
        rows = select_rows_of_ids(self._frame, str(columns.id), ids)
        if self._cuts is None:
            return rows
        own_id = read_column(self._frame, str(columns.id)).cast("string")
        (text,) = columns.sources
        return self._cuts.texts.cut(rows, own_id, text)

    @property
    def cuts(self) -> DataFrame:
        """The parts that were cut from kept documents, with the columns of `DedupResult.cuts`.

        Raises:
            UsageError: If nothing was to be cut.
        """
        if self._cuts is None:
            raise UsageError(
                "nothing was cut; deduplicate again with "
                f"{name_setting('passages', 50)}, for example"
            )
        return self._cuts.texts.parts

    @property
    def repeated_lines(self) -> DataFrame:
        """The repeated lines of kept documents, with the columns of `DedupResult.repeated_lines`.

        Raises:
            UsageError: If they were not searched for.
        """
        if self._cuts is None or self._cuts.lines is None:
            raise UsageError(
                "repeated lines were not searched for; deduplicate again with "
                f"{name_setting('repeated_lines', 2)}, for example"
            )
        return self._cuts.lines.lines

    @check_arguments
    def cluster_columns(self, document_weights: str = "none") -> DataFrame:
        """Returns how often each document occurs, with one row for each document.

        The columns are those of `nearkin.runs.results.DedupResult.cluster_columns`.

        Args:
            document_weights: Weights: `none`, `one`, `sqrt`, `log`, or the path of a CSV file with
                the columns `size` and `weight`, which the driver reads.

        Raises:
            UsageError: If the weights are unknown, the file is not such a table, or the run has a
                reference.
        """
        if self._run.has_reference:
            raise UsageError(
                "cluster_columns is not possible with against=: ids of clusters can be those of "
                "the reference; use nearkin.dedup, whose result has these columns"
            )
        source = self._run.options.source
        added = ClusterColumns(
            sizes=True,
            sources=source is not None,
            weights=DocumentWeights.parse(document_weights),
        )
        rows = with_cluster_columns(self._run, self._run.clusters, added)
        return rows.mapInArrow(ColumnsById(added), ColumnsById(added).schema)

    @property
    def rejected(self) -> DataFrame:
        """The rejected rows: id, reason, and the beginning of the raw value."""
        place = f.get_json_object("place", "$.id").alias("id")
        return self._run.document_tables.rejected.select(place, "reason", "raw")

    @property
    def stages(self) -> StageRecords:
        """The statistics of each stage, by its name, as in run.json."""
        return self._run.stages

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the result, for example that most texts are short."""
        with translate_spark_errors():
            doubts = () if self._doubt is None else (self._doubt,)
            return (*doubts, *warn_of_run(self._run))

    @cached_property
    def report_data(self) -> ReportData:
        """The content of a report."""
        with translate_spark_errors():
            return collect_report(
                SparkRunView(self._run), "a DataFrame", peak_memory=0, provenance=Provenance.now()
            )

    @property
    def statistics(self) -> dict[str, int]:
        """The numbers of documents that were read, kept, removed and rejected."""
        return summary_counts(collect_counts(self._run, self._run.recorded("cluster")))

    def __repr__(self) -> str:
        counts = self.statistics
        documents = counts["read"] - counts["rejected"]
        return f"<SparkResult: {documents:,} documents, {counts['kept']:,} kept>"


@dataclass(frozen=True, repr=False)
class SparkCheckResult:
    """The near-duplicates between two DataFrames.

    Their table is in a work folder. `close`, or leaving `with`, deletes the folder; the table
    cannot be computed any more then.

    Attributes:
        pairs: A table with the columns id_a (of the first DataFrame), id_b (of the second one),
            similarity and estimate, and distance for simhash, cosine and
            hamming.
        documents: Number of documents of each DataFrame.
        affected: Number of documents of each DataFrame that have a near-duplicate in the other one.
        warnings: Sentences about the result, for example that most texts are short.
    """

    pairs: DataFrame
    documents: tuple[int, int]
    affected: tuple[int, int]
    warnings: tuple[str, ...]
    _run: SparkRun

    @classmethod
    def from_run(cls, run: SparkRun) -> "SparkCheckResult":
        """Returns the result of a run over two DataFrames.

        Args:
            run: Run of `run_over_both`, after its pairs are verified.
        """
        ids = run.documents.select("id")
        counted = ids.agg(
            f.count(f.when(f.col("id").startswith(OURS), 1)).alias("first"),
            f.count(f.when(f.col("id").startswith(THEIRS), 1)).alias("second"),
        ).first()
        table = run.scorer.pair_table.drop("a", "b")
        is_swapped = f.col("id_a").startswith(THEIRS)
        first = f.when(is_swapped, f.col("id_b")).otherwise(f.col("id_a"))
        second = f.when(is_swapped, f.col("id_a")).otherwise(f.col("id_b"))
        score_columns = [name for name in table.columns if not name.startswith("id_")]
        pairs = table.select(
            f.substring(first, 2, 1 << 30).alias("id_a"),
            f.substring(second, 2, 1 << 30).alias("id_b"),
            *score_columns,
        )
        affected = pairs.agg(f.countDistinct("id_a"), f.countDistinct("id_b")).first()
        return cls(
            pairs,
            (counted[0], counted[1]),
            (affected[0], affected[1]),
            tuple(warn_of_run(run)),
            run,
        )

    def __enter__(self) -> "SparkCheckResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the intermediate tables. The table of pairs cannot be computed then."""
        self._run.tables.remove()

    def __repr__(self) -> str:
        affected = format_part(self.affected[1], self.documents[1])
        return f"<SparkCheckResult: {affected} affected>"


@dataclass(frozen=True, repr=False)
class SparkSplitResult:
    """The groups of a DataFrame, between which there are no near-duplicates.

    Their table is in a work folder. `close`, or leaving `with`, deletes the folder; the table
    cannot be computed any more then.

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
    _frame: DataFrame
    _run: SparkRun

    @classmethod
    def from_run(
        cls, run: SparkRun, frame: DataFrame, documents: SparkDocumentSplit
    ) -> "SparkSplitResult":
        """Returns the result of a run over a DataFrame.

        Args:
            run: Run, after its pairs are verified.
            frame: Rows that were split.
            documents: The groups of the documents.
        """
        return cls(documents.groups, documents.facts, tuple(warn_of_run(run)), frame, run)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(group["name"] for group in self.facts["groups"])

    def select(self, name: str) -> DataFrame:
        """Returns the input rows of one group.

        Args:
            name: The name of the group.

        Raises:
            UsageError: If there is no such group.
        """
        require_group(name, self.names)
        ids = self.groups.where(f.col("group") == name).select("id")
        return select_rows_of_ids(self._frame, str(self._run.request.columns.id), ids)

    def __enter__(self) -> "SparkSplitResult":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the intermediate tables. The table of groups cannot be computed then."""
        self._run.tables.remove()

    def __repr__(self) -> str:
        return f"<SparkSplitResult: {describe_group_sizes(self.facts)}>"


def select_rows_of_ids(frame: DataFrame, id_column: str, ids: DataFrame) -> DataFrame:
    """Returns the rows of a frame whose ids are in a table.

    Args:
        frame: Rows.
        id_column: Column of ids of the frame, text or whole numbers.
        ids: (id), as text.
    """
    chosen_id = unused_name("chosen", frame.columns)
    chosen = ids.select(f.col("id").alias(chosen_id))
    own_id = read_column(frame, id_column).cast("string")
    return frame.join(chosen, own_id == f.col(chosen_id), "left_semi")
