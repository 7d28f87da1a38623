"""The report's view of a run over Spark, which counts where the rows are and fetches few texts."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from nearkin.corpus.corpus import describe_skipped_records
from nearkin.engine.result_schema import EXACT, FURTHER, KINDS, NEAR
from nearkin.engine.spark.arrow_columns import to_numbers
from nearkin.engine.spark.rereading import TextRows, to_excerpts
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.sketching import FILE_SHIFT
from nearkin.engine.spark.sources import FileSource
from nearkin.engine.spark.task_functions import collect_facts
from nearkin.quality.evaluate.boilerplate import sample_size
from nearkin.quality.evaluate.information_lost import LostInformation
from nearkin.quality.evaluate.spark_information_lost import measure_lost_information
from nearkin.quality.evaluate.template_families import (
    MAX_BYTES,
    TemplateFamilies,
    find_template_families,
)
from nearkin.reports.collect import (
    EXAMPLES_PER_CLUSTER,
    QUOTED_CLUSTERS,
    SAMPLE_SEED,
    SAMPLED_CLUSTERS,
    ClosestPair,
    QuotedCluster,
    RemovedMember,
    RunView,
)
from nearkin.reports.model import Histogram, SizeCount, SourceCount
from nearkin.reports.run_warnings import warn_of_inputs
from nearkin.stages.packed_pairs import ScoredPairs

EXAMINED_FILES = 64
"""The largest number of files whose documents are examined for template families."""


class SimilarityFacts(TypedDict):
    """The facts that a task records that counts similarities."""

    counts: list[int]
    """The number of pairs in each column of a histogram."""


class SparkRunView(RunView):
    """The view of a run over Spark.

    It has neither boilerplate nor overlaps nor results at higher thresholds, because these need
    every text or every pair in one place.
    """

    def __init__(self, run: SparkRun, clusters: int = QUOTED_CLUSTERS) -> None:
        """Creates a view."""
        super().__init__(run)
        self._spark_run = run
        self._clusters = clusters

    def input_warnings(self) -> list[str]:
        """Returns warnings about the input files. There are none about a DataFrame."""
        source = self._spark_run.source
        if not isinstance(source, FileSource):
            return []
        skipped: Counter[str] = Counter()
        for facts in self._spark_run.document_tables.task_facts:
            skipped.update(facts["skipped"])
        return [
            *describe_skipped_records(skipped),
            *warn_of_inputs(source.corpus, self._spark_run.request.columns),
        ]

    def stage_statistics(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns the statistics of all stages by name, in the order of execution."""
        return self._spark_run.stages

    def cluster_counts(self) -> Mapping[str, int]:
        """Returns the numbers of documents by kind, and the number `documents_kept`."""
        return self._spark_run.recorded("cluster")

    def cluster_sizes(self) -> tuple[SizeCount, ...]:
        """Returns the number of clusters of each size above 1, in ascending order of the sizes."""
        sizes = self._spark_run.joined.groupBy("leader").agg((f.count("*") + 1).alias("size"))
        rows = sizes.groupBy("size").count().orderBy("size").collect()
        return tuple(SizeCount(row[0], row[1]) for row in rows)

    def verified_histogram(self) -> Histogram:
        """Returns the histogram of the similarities of all scored pairs."""
        scored = self._spark_run.scored.select("shared", "joint")
        counted = scored.mapInArrow(_count_similarities, "facts string")
        total = Histogram()
        for part in collect_facts(counted, SimilarityFacts):
            total += Histogram(tuple(part["counts"]))
        return total

    def source_counts(self) -> tuple[SourceCount, ...]:
        """Returns the numbers of rows by source, or nothing without a source column."""
        run = self._spark_run
        if run.options.source is None:
            return ()
        source = f.coalesce("source", f.lit("(none)")).alias("source")
        documents = run.documents.select("doc", source)
        groups = documents.join(run.clusters.select("doc", "kept"), "doc").groupBy("source")
        removed = f.sum((~f.col("kept")).cast("long"))
        rows = groups.agg(f.count("*"), removed).orderBy("source").collect()
        return tuple(SourceCount(row[0], row[1], row[2]) for row in rows)

    def rejected_reasons(self) -> Mapping[str, int]:
        """Returns the number of rejected rows for each reason."""
        return self._spark_run.document_tables.count_reasons()

    def quoted_clusters(self) -> Sequence[QuotedCluster]:
        """Returns the clusters to quote, the largest first."""
        return self._quoted_clusters

    @cached_property
    def _quoted_clusters(self) -> list[QuotedCluster]:
        sizes = self._cluster_sizes()
        largest = sizes.orderBy(f.desc("members"), "leader").limit(self._clusters)
        quoted = self._quote(largest)
        return sorted(quoted, key=lambda cluster: (-cluster.size, cluster.kept))

    def sampled_clusters(self) -> Sequence[QuotedCluster]:
        """Returns clusters that are drawn at random from those that are not quoted otherwise."""
        excluded = [cluster.kept for cluster in self._quoted_clusters]
        further_clusters = self._cluster_sizes().where(~f.col("leader").isin(excluded))
        draw = f.xxhash64("leader", f.lit(SAMPLE_SEED))
        return self._quote(further_clusters.orderBy(draw, "leader").limit(SAMPLED_CLUSTERS))

    def closest_call(self) -> ClosestPair | None:
        """Returns the removed near-duplicate that is least similar to its kept document."""
        near = self._spark_run.removed.where(f.col("kind") == KINDS[NEAR])
        row = near.orderBy("similarity", "doc").first()
        if row is None:
            return None
        return ClosestPair(row.leader, row.doc, float(row.similarity))

    def lost_information(self) -> LostInformation | None:
        """Returns the information that the run lost, or None if it was not measured."""
        return measure_lost_information(self._spark_run)

    def template_families(self) -> TemplateFamilies | None:
        """Returns the documents that are equal but for values such as dates, or None.

        Documents of a bounded number of files are examined, because they are read again.
        """
        run = self._spark_run
        request = run.request
        if request.columns.content != "text" or request.merge_parts:
            return None
        short = run.documents.where(f.col("length") <= MAX_BYTES)
        if isinstance(run.source, FileSource):
            file = f.shiftright("doc", FILE_SHIFT).alias("file")
            files = short.select(file).distinct().orderBy(*_random_order("file"))
            examined_files = [row.file for row in files.limit(EXAMINED_FILES).collect()]
            short = short.where(f.shiftright("doc", FILE_SHIFT).isin(examined_files))
        total = short.agg(f.count("*").alias("documents"), f.sum("length").alias("bytes")).first()
        if total is None or not total.documents:
            return None
        size = sample_size(total.bytes / total.documents)
        drawn = short.select("doc").orderBy(*_random_order("doc")).limit(size)
        texts = run.document_tables.read_again(drawn, TextRows(request, to_excerpts))
        clusters = run.clusters.select("doc", f.coalesce("cluster", "id").alias("cluster"))
        examined = texts.join(clusters, "doc").orderBy("doc").select("text", "cluster").collect()
        _, numbers = np.unique([row.cluster for row in examined], return_inverse=True)
        documents = pa.array([row.text for row in examined], pa.large_string())
        return find_template_families(documents, numbers)

    def _cluster_sizes(self) -> DataFrame:
        """Returns (leader, size, members): kept documents with the number of their removed ones."""
        is_removed = f.col("kind") != KINDS[FURTHER]
        counts = self._spark_run.joined.groupBy("leader").agg(
            (f.count("*") + 1).alias("size"), f.count(f.when(is_removed, 1)).alias("members")
        )
        return counts.where("members > 0")

    def _quote(self, chosen: DataFrame) -> list[QuotedCluster]:
        """Returns clusters with some of their removed documents, in no order."""
        is_exact = f.col("kind") == KINDS[EXACT]
        rank = f.row_number().over(
            Window.partitionBy("leader").orderBy(is_exact, f.asc_nulls_last("similarity"), "doc")
        )
        removed = self._spark_run.removed
        ranked = removed.join(f.broadcast(chosen), "leader").withColumn("place", rank)
        shown = ranked.where(f.col("place") <= EXAMPLES_PER_CLUSTER).orderBy("leader", "place")
        examples: dict[tuple[int, int], list[RemovedMember]] = {}
        for row in shown.collect():
            similarity = None if row.similarity is None else float(row.similarity)
            member = RemovedMember(row.doc, similarity)
            examples.setdefault((row.leader, row["size"]), []).append(member)
        return [
            QuotedCluster(leader, size, tuple(shown_members))
            for (leader, size), shown_members in examples.items()
        ]

    def ids_of(self, ordinals: Iterable[int]) -> Mapping[int, str]:
        """Returns the ids of some documents by their numbers in the corpus."""
        chosen = sorted(ordinals)
        if not chosen:
            return {}
        rows = self._spark_run.documents.where(f.col("doc").isin(chosen)).select("doc", "id")
        return {row.doc: row.id for row in rows.collect()}

    def texts_of(self, ordinals: Iterable[int]) -> Mapping[int, str]:
        """Returns excerpts of some documents by their numbers, which reads the inputs again."""
        chosen = sorted(ordinals)
        if not chosen:
            return {}
        run = self._spark_run
        frame = run.spark.createDataFrame([(ordinal,) for ordinal in chosen], "doc long")
        excerpts = run.document_tables.read_again(frame, TextRows(run.request, to_excerpts))
        return {row.doc: row.text for row in excerpts.collect()}


def _random_order(column: str) -> tuple[Column, str]:
    """Returns columns that order rows at random, in the same way in each run."""
    return f.xxhash64(column, f.lit(SAMPLE_SEED)), column


def _count_similarities(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = Histogram()
    for batch in batches:
        pairs = np.zeros(len(batch), np.uint64)
        scored = ScoredPairs(pairs, to_numbers(batch["shared"]), to_numbers(batch["joint"]))
        total += Histogram.from_similarities(scored.similarity)
    yield pa.record_batch([pa.array([json.dumps({"counts": total.counts})])], ["facts"])
