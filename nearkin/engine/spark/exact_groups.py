"""Stage 2: the exact duplicates, and the documents with equal values of a column."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from nearkin.engine.spark.clustering import find_components
from nearkin.engine.spark.decisions import divide_components, list_same_pairs
from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.stages.cluster import kernels
from nearkin.stages.cluster.decided_pairs import DecidedPairs
from nearkin.stages.pair_scope import NO_BLOCK

EDGES_IN_ONE_TASK = 4_000_000
"""Number of edges between documents up to which one task joins all of them."""


@dataclass(frozen=True)
class ExactDuplicateTables:
    """The exact duplicates, and the documents that are in a group because of an equal value."""

    copies: DataFrame
    """(doc, head, same): each document that another one represents, and the first document of its
    group in keep order. `same` is true if their contents differ."""
    count: int
    """The number of exact duplicates of another document."""
    same: int | None = None
    """The number of further documents that another one represents because of an equal value or a
    decision, or None without the options `same` and `url` and without decisions."""


def find_exact_duplicates(
    documents: DataFrame,
    tables: IntermediateTables,
    group: tuple[str, ...],
    *,
    has_groups: bool,
) -> ExactDuplicateTables:
    """Returns the exact duplicates, and the first document of each one's group in keep order."""
    if not has_groups:
        none = documents.select("doc", f.col("doc").alias("head"), f.lit(False).alias("same"))
        return ExactDuplicateTables(none.where(f.lit(False)), 0)
    is_grouped = has_shingles() & has_block()
    copies = find_copies(documents, ["fp0", "fp1", *group], is_grouped)
    table, counts = tables.counted(copies.withColumn("same", f.lit(False)), "copies")
    return ExactDuplicateTables(table, counts["rows"])


def join_by_values(
    exact: ExactDuplicateTables,
    documents: DataFrame,
    value_keys: tuple[str, ...],
    tables: IntermediateTables,
    *,
    drops_empty: bool,
    decided: DecidedPairs | None = None,
) -> ExactDuplicateTables:
    """Joins groups of exact duplicates, and of documents with an equal value or decided pairs."""
    relations = [exact.copies.select("doc", "head")]
    for name in value_keys:
        is_grouped = f.col(name).isNotNull() & has_block()
        if drops_empty:
            is_grouped &= has_shingles()
        relations.append(find_copies(documents, [name, "block"], is_grouped))
    edges = reduce(DataFrame.unionByName, relations)
    if decided is not None:
        edges = edges.unionByName(list_same_pairs(decided, documents))
    components = join_edges(edges, tables)
    facts = documents.select("doc", "sort", "fp0", "fp1", (~has_shingles()).alias("empty"))
    if decided is not None:
        components = tables.keep(components, "joined-components")
        components = divide_components(components, relations, facts, decided)
    members = components.join(facts, "doc")
    heads = members.groupBy("component").agg(
        f.min_by(f.struct("doc", "fp0", "fp1"), f.struct("empty", "sort", "doc")).alias("first")
    )
    is_copy = (f.col("fp0") == f.col("first.fp0")) & (f.col("fp1") == f.col("first.fp1"))
    joined = members.join(heads, "component").where(f.col("doc") != f.col("first.doc"))
    copies = joined.select(
        "doc", f.col("first.doc").alias("head"), (~is_copy | f.col("empty")).alias("same")
    )
    number_exact = f.count(f.when(~f.col("same"), 1))
    table, counts = tables.counted(copies, "joined-copies", exact=number_exact)
    exact_count = exact.count if decided is None else counts["exact"]
    return ExactDuplicateTables(table, exact_count, counts["rows"] - exact_count)


def join_edges(edges: DataFrame, tables: IntermediateTables) -> DataFrame:
    """Returns (doc, component): each document of an edge, and the smallest of its component."""
    ordered = edges.select(f.least("doc", "head").alias("a"), f.greatest("doc", "head").alias("b"))
    stored, counts = tables.counted(ordered, "joined-edges")
    if counts["rows"] <= EDGES_IN_ONE_TASK:
        return stored.coalesce(1).mapInArrow(_unite_edges, "doc long, component long")
    return find_components(stored, lambda frame: tables.keep(frame, "joined-groups"))


def _unite_edges(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields (doc, component): each document of an edge, and the smallest of its component."""
    edges = pa.Table.from_batches(list(batches), pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    ends = [edges[name].to_numpy() for name in ("a", "b")]
    docs, places = np.unique(np.concatenate(ends), return_inverse=True)
    parent = np.arange(len(docs), dtype=np.uint32)
    first, second = np.split(places.astype(np.uint32), 2)
    kernels.unite(first, second, parent)
    kernels.flatten(parent)
    yield pa.record_batch([pa.array(docs), pa.array(docs[parent])], ["doc", "component"])


def has_shingles() -> Column:
    """Returns whether a document has shingles before the frequency cut."""
    return (f.col("fp0") != 0) | (f.col("fp1") != 0)


def has_block() -> Column:
    """Returns whether a document is compared with those of a block."""
    return f.col("block") != int(NO_BLOCK)


def find_copies(documents: DataFrame, group: list[str], is_grouped: Column) -> DataFrame:
    """Returns (doc, head): the documents with the same key as an earlier one in keep order."""
    hashed = documents.where(is_grouped).select("doc", "sort", *group)
    heads = hashed.groupBy(*group).agg(
        f.min(f.struct("sort", "doc")).alias("first"), f.count("*").alias("times")
    )
    heads = heads.where(f.col("times") > 1).select(*group, f.col("first.doc").alias("head"))
    copies = hashed.join(heads, group).where(f.col("doc") != f.col("head"))
    return copies.select("doc", "head")
