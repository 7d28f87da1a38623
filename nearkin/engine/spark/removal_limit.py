"""The check of removal limits in the Spark engine."""

from pyspark.sql import functions as f

from nearkin.engine.removal_limit import (
    MOST_BLAMED,
    QUOTED_PAIRS,
    BlamedDocument,
    QuotedPair,
    RemovedShare,
)
from nearkin.engine.result_schema import EXACT, KINDS, MATCHED_IN, NEAR
from nearkin.engine.spark.rereading import TextRows, to_excerpts
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.sketching import LIMITED_BY


def quote_removed(run: SparkRun) -> list[QuotedPair]:
    """Returns the removed documents that are least similar to the kept ones.

    They are among those that count for the limit.
    """
    clusters = run.clusters
    removals = run.limited_removals().where(f.col("kind").isin(KINDS[NEAR], KINDS[EXACT]))
    in_order = removals.join(run.documents.select("doc", "sort"), "doc")
    removed = in_order.orderBy("similarity", "sort").limit(QUOTED_PAIRS).collect()
    kept = clusters.where(f.col("kept") & f.col("id").isin([row["cluster"] for row in removed]))
    kept_docs = {row["id"]: row["doc"] for row in kept.select("id", "doc").collect()}
    docs = sorted({row["doc"] for row in removed} | set(kept_docs.values()))
    wanted = run.spark.createDataFrame([(doc,) for doc in docs], "doc long")
    excerpts = run.document_tables.read_again(wanted, TextRows(run.request, to_excerpts))
    texts = {row["doc"]: row["text"] for row in excerpts.collect()}
    pairs = []
    for row in removed:
        in_reference = run.has_reference and row["matched_in"] == MATCHED_IN[0]
        pair = QuotedPair(
            similarity=row["similarity"],
            removed=row["id"],
            removed_text=texts[row["doc"]],
            kept=row["cluster"],
            kept_text="" if in_reference else texts[kept_docs[row["cluster"]]],
        )
        pairs.append(pair)
    return pairs


def require_column_limit(run: SparkRun) -> None:
    """Requires that a run removes no more of each value of a column than it may."""
    limit = run.options.removal_limits.column
    if limit is None:
        return
    values = run.documents.select("doc", f.col(LIMITED_BY).alias("value"))
    in_reference = f.lit(False)
    if run.has_reference:
        in_reference = f.coalesce(f.col("matched_in") == MATCHED_IN[0], f.lit(False))
    clusters = run.clusters.select("doc", "kept", "cluster", in_reference.alias("in_reference"))
    documents = values.join(clusters, "doc")
    groups = documents.groupBy("value").agg(
        f.count("*").alias("documents"),
        f.sum((~f.col("kept")).cast("long")).alias("removed"),
        f.min("doc").alias("first"),
    )
    share = f.col("removed") / f.col("documents")
    worst = groups.orderBy(f.desc(share), f.desc("documents"), "first").first()
    if worst is None or not limit.is_exceeded(worst["removed"], worst["documents"]):
        return
    is_worst = f.col("value").eqNullSafe(f.lit(worst["value"]))
    removed = documents.where(is_worst & ~f.col("kept"))
    # A document that is like a blocked one has no kept document in the run.
    kept = run.clusters.where("kept").select(f.col("id").alias("cluster"))
    in_run = removed.where("NOT in_reference").join(kept, "cluster", "left_semi")
    matched = removed.where("in_reference").select(*in_run.columns)
    counted = in_run.unionByName(matched).groupBy("in_reference", "cluster").count()
    rows = counted.orderBy(f.desc("count"), "in_reference", "cluster").limit(MOST_BLAMED).collect()
    blamed = [BlamedDocument(row["cluster"], row["count"], row["in_reference"]) for row in rows]
    excess = RemovedShare(worst["value"], worst["documents"], worst["removed"])
    limit.refuse(excess, blamed, can_resume=False)
