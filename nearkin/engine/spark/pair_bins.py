"""Bins of pairs. Each bin receives the documents that its pairs need, and a task works on it.

Payloads are large and pairs are small, so the pairs of a cluster should be in one bin, to which
each document is sent once. The smallest neighbour of its documents selects the bin of a pair; in a
clique it is the same for all pairs. A bin with too many pairs is split, because a leader of a hot
bucket may have a million neighbours.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

BIN_BYTES = 64 << 20
"""Size of the signatures or payloads that the pairs of a bin are compared by, in bytes."""
FEW_BINS = 16
"""Number of bins up to which neighbours are not searched, because it would take more time."""


def assign_bins(pairs: DataFrame, count: int, document_bytes: int) -> DataFrame:
    """Adds the column `bin` to pairs.

    Args:
        document_bytes: Mean size of what a document is compared by, in bytes.
    """
    pairs_of_bin = max(1, BIN_BYTES // (2 * document_bytes))
    bins = max(1, -(-count // pairs_of_bin))
    if bins <= FEW_BINS:
        return pairs.withColumn("bin", f.pmod(f.xxhash64("a"), f.lit(bins)).cast("int"))
    ends = pairs.select(f.col("a").alias("doc"), f.col("b").alias("other"))
    ends = ends.unionByName(ends.select(f.col("other").alias("doc"), f.col("doc").alias("other")))
    heads = ends.groupBy("doc").agg(f.least(f.min("other"), f.first("doc")).alias("head"))
    near = pairs.join(heads.withColumnsRenamed({"doc": "a", "head": "head_a"}), "a")
    near = near.join(heads.withColumnsRenamed({"doc": "b", "head": "head_b"}), "b")
    near = near.withColumn("head", f.least("head_a", "head_b")).drop("head_a", "head_b")
    crowded = near.groupBy("head").count().where(f.col("count") > pairs_of_bin)
    split = near.join(f.broadcast(crowded), "head", "left")
    splits = f.coalesce(f.ceil(f.col("count") / pairs_of_bin), f.lit(1))
    share = f.pmod(f.xxhash64("a", "b"), splits)
    numbered = split.withColumn("bin", f.pmod(f.xxhash64("head", share), f.lit(bins)).cast("int"))
    return numbered.drop("head", "count")


def assign_bins_of_all_pairs(documents: DataFrame, portions: int) -> DataFrame:
    """Repeats documents with the column `bin`, so that each two of them are in a bin together.

    A bin has the documents of two portions, so documents of one portion are in several bins.
    """
    if portions == 1:
        return documents.withColumn("bin", f.lit(0))
    portion = f.pmod("doc", f.lit(portions))
    others = documents.withColumn("other", f.explode(f.sequence(f.lit(0), f.lit(portions - 1))))
    bin_of_both = f.least(portion, "other") * portions + f.greatest(portion, "other")
    return others.where(f.col("other") != portion).withColumn("bin", bin_of_both).drop("other")


def list_documents_of_bins(pairs: DataFrame) -> DataFrame:
    """Returns the documents that each bin needs (doc, at), each once."""
    ends = [pairs.select(f.col(end).alias("doc"), f.col("bin").alias("at")) for end in ("a", "b")]
    return ends[0].unionByName(ends[1]).distinct()


def apply_to_bins(
    pairs: DataFrame,
    documents: DataFrame,
    function: Callable[[pa.Table, pa.Table], pa.Table],
    schema: str,
) -> DataFrame:
    """Applies a function to the pairs and the documents of each bin."""

    def apply(pairs_of_bin: pa.Table, documents_of_bin: pa.Table) -> pa.Table:
        return function(pairs_of_bin, documents_of_bin)

    return pairs.groupBy("bin").cogroup(documents.groupBy("at")).applyInArrow(apply, schema)
