"""From a finished run over Spark to what its report shows: counts made where the rows are, and excerpts of few documents."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from nearkin.engine.local.clustering import EXACT, KINDS
from nearkin.engine.spark.arrow_columns import numbers
from nearkin.engine.spark.rereading import ExcerptRows
from nearkin.engine.spark.run import SparkRun, facts_of
from nearkin.engine.spark.sources import FileSource
from nearkin.packed_pairs import ScoredPairs
from nearkin.report.collect import (
    CLUSTERS,
    EXAMPLES,
    EXCERPT,
    HOT_BUCKETS,
    counts,
    estimated,
    hot_bucket,
    parameters,
    skipped_warnings,
    warnings,
)
from nearkin.report.model import (
    Cluster,
    Example,
    Histogram,
    ReasonCount,
    ReportData,
    SizeCount,
    SourceCount,
    StageSeconds,
)

Largest = list[tuple[int, int, list[dict[str, Any]]]]
"""(kept, members, some removed members) of clusters."""


def collect_distributed(run: SparkRun, title: str, peak: int, quoted: int = CLUSTERS) -> ReportData:
    """What a report shows of a run: as `collect`, without what needs every document's text or every pair in one place.

    Args:
        run: After its last stage.
        title: Of the page.
        peak: Bytes of anonymous memory of the driver.
        quoted: How many of the largest clusters are quoted.
    """
    largest = _largest(run, quoted)
    hottest = run.recorded("candidates").get("hottest", [])[:HOT_BUCKETS]
    texts = _texts(
        run,
        {x for kept, _, members in largest for x in (kept, *(m["doc"] for m in members))},
        hottest,
    )
    return ReportData(
        title=title,
        parameters=parameters(run),
        counts=counts(run, run.recorded("cluster")),
        seconds=tuple(StageSeconds(name, facts["seconds"]) for name, facts in run.stages.items()),
        peak_memory=peak,
        cluster_sizes=_cluster_sizes(run),
        verified=_verified(run),
        estimated=estimated(run),
        sources=_sources(run),
        hot_buckets=tuple(hot_bucket(bucket, texts, run) for bucket in hottest),
        rejected=_rejected(run),
        clusters=_clusters(run, largest, texts),
        warnings=(
            *warnings(run),
            *(skipped_warnings(run.source.corpus) if isinstance(run.source, FileSource) else ()),
        ),
    )


def _largest(run: SparkRun, most: int) -> Largest:
    """Near duplicates first, the least similar of them."""
    sizes = run.removed.groupBy("leader").agg(f.count("*").alias("members"))
    heads = sizes.orderBy(f.desc("members"), "leader").limit(most)
    exact = f.col("kind") == KINDS[EXACT]
    place = Window.partitionBy("leader").orderBy(exact, "similarity", "doc")
    among = run.removed.join(f.broadcast(heads), "leader").withColumn(
        "place", f.row_number().over(place)
    )
    shown: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in among.where(f.col("place") <= EXAMPLES).orderBy("leader", "place").collect():
        shown.setdefault((row.leader, row.members), []).append(row.asDict())
    ordered = sorted(shown, key=lambda head: (-head[1], head[0]))
    return [(kept, members + 1, shown[kept, members]) for kept, members in ordered]


def _texts(run: SparkRun, docs: set[int], hottest: list[list[int]]) -> dict[int, str]:
    """Excerpts of a few documents."""
    wanted = sorted(docs | {bucket[2] for bucket in hottest})
    if not wanted:
        return {}
    frame = run.spark.createDataFrame([(doc,) for doc in wanted], "doc long")
    return {row.doc: row.text for row in run.again(frame, ExcerptRows(run.request)).collect()}


def _clusters(run: SparkRun, largest: Largest, texts: dict[int, str]) -> tuple[Cluster, ...]:
    docs = [
        x for kept, _, members in largest for x in (kept, *(member["doc"] for member in members))
    ]
    rows = (
        run.documents.where(f.col("doc").isin(docs)).select("doc", "id").collect() if docs else []
    )
    ids = {row.doc: row.id for row in rows}

    def example(member: dict[str, Any]) -> Example:
        return Example(
            ids[member["doc"]], float(member["similarity"]), texts.get(member["doc"], "")[:EXCERPT]
        )

    return tuple(
        Cluster(ids[kept], texts.get(kept, "")[:EXCERPT], members, tuple(map(example, shown)))
        for kept, members, shown in largest
    )


def _cluster_sizes(run: SparkRun) -> tuple[SizeCount, ...]:
    sizes = (
        run.removed.groupBy("leader")
        .agg((f.count("*") + 1).alias("size"))
        .groupBy("size")
        .count()
        .orderBy("size")
    )
    return tuple(SizeCount(row[0], row[1]) for row in sizes.collect())


def _verified(run: SparkRun) -> Histogram:
    total = Histogram()
    for part in facts_of(
        run.scored.select("shared", "joint").mapInArrow(_histograms, "facts string")
    ):
        total += Histogram(tuple(part["counts"]))
    return total


def _histograms(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = Histogram()
    for batch in batches:
        scored = ScoredPairs(
            np.zeros(len(batch), np.uint64), numbers(batch["shared"]), numbers(batch["joint"])
        )
        total += Histogram.of(scored.similarity)
    yield pa.record_batch([pa.array([json.dumps({"counts": total.counts})])], ["facts"])


def _sources(run: SparkRun) -> tuple[SourceCount, ...]:
    if run.options.source is None:
        return ()
    named = run.documents.select("doc", f.coalesce("source", f.lit("(none)")).alias("source"))
    table = named.join(run.clusters.select("doc", "kept"), "doc").groupBy("source")
    counted: DataFrame = table.agg(f.count("*"), f.sum((~f.col("kept")).cast("long"))).orderBy(
        "source"
    )
    return tuple(SourceCount(*row) for row in counted.collect())


def _rejected(run: SparkRun) -> tuple[ReasonCount, ...]:
    reasons = run.rejected.groupBy(f.substring_index("reason", ":", 1).alias("reason")).count()
    rows = sorted(reasons.collect(), key=lambda row: (-row[1], row[0]))
    return tuple(ReasonCount(row[0], row[1]) for row in rows)
