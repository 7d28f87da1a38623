"""The check of a removal limit in the Spark engine."""

from pyspark.sql import functions as f

from nearkin.engine.removal_limit import BLAMED_CLUSTERS, BlamedCluster, RemovedShare
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.spark.sketching import LIMITED_BY


def require_removal_limit(run: SparkRun) -> None:
    """Requires that a run removes no more of each value of a column than it may.

    Args:
        run: The run after its last stage.

    Raises:
        RunError: If it removes more of a value. The message names the clusters that do.
    """
    limit = run.options.removal_limit
    if limit is None:
        return
    values = run.documents.select("doc", f.col(LIMITED_BY).alias("value"))
    documents = values.join(run.clusters.select("doc", "kept", "cluster"), "doc")
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
    removed = documents.where(is_worst & ~f.col("kept")).groupBy("cluster").count()
    rows = removed.orderBy(f.desc("count"), "cluster").limit(BLAMED_CLUSTERS).collect()
    clusters = [BlamedCluster(row["cluster"], row["count"]) for row in rows]
    limit.refuse(RemovedShare(worst["value"], worst["documents"], worst["removed"]), clusters)
