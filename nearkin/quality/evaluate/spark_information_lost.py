"""The information that a run over Spark lost, counted where the rows are."""

from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.engine.result_schema import EXACT, KINDS, NEAR, NONE_LABEL
from nearkin.engine.spark.run import SparkRun
from nearkin.quality.evaluate.information_lost import (
    LISTED_REMOVALS,
    MAX_SOURCES,
    LossyRemoval,
    LostInformation,
)
from nearkin.quality.evaluate.labels import OTHERS_LABEL, shorten_label
from nearkin.quality.evaluate.lost_share import LostShare
from nearkin.settings.choices import ClusterMethod
from nearkin.stages.measures.compared_sets import compares_sets


def measure_lost_information(run: SparkRun) -> LostInformation | None:
    """Returns the information that a run lost, as `information_lost` defines it.

    The shared shingles are those of the verification. Pairs of components that were not verified
    are compared here.
    """
    compares_texts = compares_sets(run.options.spec.measure) and not run.options.fields
    if not run.is_exact or not compares_texts or run.request.merge_parts:
        return None
    listed = _list_losses(run)
    if run.has_reference:
        listed = listed.unionByName(_list_losses_to_reference(run))
    losses = run.tables.keep(listed, "losses")
    measured = losses.where(f.col("lost").isNotNull())
    unmeasured = losses.count() - measured.count()
    total = _sum_losses(measured.withColumn("source", f.lit("")))
    sources: list[LostShare] = []
    if run.options.source is not None:
        sources = _sum_losses(_with_labels(run, measured))
        sources.sort(key=lambda share: (-share.shingles, share.source))
    lossy = measured.where("lost > 0")
    if run.options.acceptance is None:
        # As in the local engine, documents that a reference removed are not quoted then.
        lossy = lossy.where(f.col("reference_id").isNull())
    lossy = lossy.orderBy(f.desc("lost"), "doc").limit(LISTED_REMOVALS)
    worst = [
        LossyRemoval(row["leader"], row["doc"], row["lost"], row["reference_id"])
        for row in lossy.collect()
    ]
    no_removal = LostShare("", 0, 0.0, 0.0, 0)
    return LostInformation(
        total[0] if total else no_removal, tuple(sources), unmeasured, tuple(worst)
    )


def _list_losses(run: SparkRun) -> DataFrame:
    """Returns (doc, leader, reference_id, missing, lost) of each document that the run removed.

    `missing` is the number of its shingles that the kept document lacks, and `lost` their share.
    Both are null if the loss is not known. The kept document is the leader, or one of a reference.
    """
    own = run.documents.select("doc", "fp0", "fp1")
    kept = run.documents.select(
        f.col("doc").alias("leader"), f.col("fp0").alias("kept0"), f.col("fp1").alias("kept1")
    )
    copies = run.exact_duplicates.copies.where(~f.col("same")).select("doc", "head")
    removed = run.removed.select("doc", "leader", "kind").join(own, "doc").join(kept, "leader")
    compared = f.coalesce("head", "doc")
    removed = removed.join(copies, "doc", "left").select(
        "doc",
        "leader",
        compared.alias("compared"),
        f.least(compared, "leader").alias("a"),
        f.greatest(compared, "leader").alias("b"),
        ((f.col("fp0") == f.col("kept0")) & (f.col("fp1") == f.col("kept1"))).alias("is_copy"),
        (f.col("kind") == KINDS[NEAR]).alias("is_near"),
    )
    is_compared = f.col("is_near") & ~f.col("is_copy")
    shared = run.scored.where(f.col("size_a").isNotNull())
    shared = shared.select("a", "b", "shared", "size_a", "size_b")
    has_unscored = run.options.cluster == ClusterMethod.COMPONENTS
    # Older versions saved pairs without the numbers of shingles.
    has_unscored |= run.document_tables.before is not None
    if has_unscored:
        pairs = removed.where(is_compared).select("a", "b").distinct()
        unscored = pairs.join(shared, ["a", "b"], "left_anti")
        shared = shared.unionByName(run.scorer.count_shared(unscored))
    size = f.when(f.col("compared") == f.col("a"), f.col("size_a")).otherwise(f.col("size_b"))
    missing = size - f.col("shared").cast("long")
    return removed.join(shared, ["a", "b"], "left").select(
        "doc",
        "leader",
        f.lit(None).cast("string").alias("reference_id"),
        _of_known(f.lit(0), missing, is_compared).alias("missing"),
        _of_known(f.lit(0.0), missing / size, is_compared).alias("lost"),
    )


def _list_losses_to_reference(run: SparkRun) -> DataFrame:
    """Returns (doc, leader, reference_id, missing, lost) of the documents that repeat one of it."""
    matches = run.matches.withColumn("is_copy", f.col("match_kind") == KINDS[EXACT])
    is_compared = f.col("match_kind") == KINDS[NEAR]
    missing = f.col("size") - f.col("shared").cast("long")
    return matches.select(
        "doc",
        f.lit(None).cast("long").alias("leader"),
        f.col("duplicate_of").alias("reference_id"),
        _of_known(f.lit(0), missing, is_compared).alias("missing"),
        _of_known(f.lit(0.0), missing / f.col("size"), is_compared).alias("lost"),
    )


def _of_known(of_copies: Column, of_compared: Column, is_compared: Column) -> Column:
    """Returns a number of copies and of compared documents, and null for all others."""
    return f.when(f.col("is_copy"), of_copies).when(is_compared, of_compared)


def _sum_losses(losses: DataFrame) -> list[LostShare]:
    """Returns the information that the removed documents of each source lost."""
    totals = losses.groupBy("source").agg(
        f.count("*"), f.avg("lost"), f.max("lost"), f.sum("missing")
    )
    return [
        LostShare(shorten_label(row[0]), row[1], row[2], row[3], row[4]) for row in totals.collect()
    ]


def _with_labels(run: SparkRun, losses: DataFrame) -> DataFrame:
    """Adds the source of each removed document. Less frequent ones are counted together."""
    source = f.coalesce("source", f.lit(NONE_LABEL)).alias("source")
    documents = run.documents.select("doc", source)
    by_frequency = documents.groupBy("source").count().orderBy(f.desc("count"), "source")
    names = [cast(str, row["source"]) for row in by_frequency.limit(MAX_SOURCES + 1).collect()]
    labelled = losses.join(documents, "doc")
    if len(names) <= MAX_SOURCES:
        return labelled
    is_frequent = f.col("source").isin(names[: MAX_SOURCES - 1])
    label = f.when(is_frequent, f.col("source")).otherwise(OTHERS_LABEL)
    return labelled.withColumn("source", label)
