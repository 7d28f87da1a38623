"""Stage 2: the exact duplicates."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.spark.materialized import IntermediateTables


@dataclass(frozen=True)
class ExactDuplicateTables:
    """The exact duplicates."""

    copies: DataFrame
    """(doc, head): each exact duplicate, and the first document of its group in keep order."""
    count: int


def find_exact_duplicates(
    documents: DataFrame, tables: IntermediateTables, *, by_source: bool
) -> ExactDuplicateTables:
    """Returns the exact duplicates, and the first document of each one's group in keep order.

    Args:
        documents: Sketched documents.
        tables: Intermediate tables.
        by_source: Whether only documents of different sources are compared. There are no groups
            then: copies of different sources are found like other pairs.
    """
    if by_source:
        none = documents.select("doc", f.col("doc").alias("head")).where(f.lit(False))
        return ExactDuplicateTables(none, 0)
    group = ["fp0", "fp1", "block"]
    has_shingles = (f.col("fp0") != 0) | (f.col("fp1") != 0)
    hashed = documents.where(has_shingles).select("doc", "sort", *group)
    heads = hashed.groupBy(*group).agg(
        f.min(f.struct("sort", "doc")).alias("first"), f.count("*").alias("times")
    )
    heads = heads.where(f.col("times") > 1).select(*group, f.col("first.doc").alias("head"))
    copies = hashed.join(heads, group).where(f.col("doc") != f.col("head"))
    table, counts = tables.counted(copies.select("doc", "head"), "copies")
    return ExactDuplicateTables(table, counts["rows"])
