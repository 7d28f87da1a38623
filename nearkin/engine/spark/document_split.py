"""The split of a corpus into groups between which there are no near-duplicates, over Spark."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.engine.document_facts import id_hashes
from nearkin.engine.spark.arrow_columns import to_numbers, to_unsigned
from nearkin.engine.spark.exact_groups import find_copies, join_edges
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.split_groups import ClusterFacts, SplitFacts, SplitGroups, describe_split
from nearkin.stages.cluster.group_split import (
    assign_clusters,
    expand_smallest_hashes,
    hash_documents,
)

SIGN = np.uint64(1 << 63)
"""The bit that makes signed numbers compare as unsigned ones do."""
ASSIGNED = "component long, number int"


@dataclass(frozen=True)
class SparkDocumentSplit:
    """The groups of all documents.

    Attributes:
        groups: (id, group, cluster) of each document, as `nearkin.runs.results.SplitResult.groups`.
        facts: The numbers of the split.
    """

    groups: DataFrame
    facts: SplitFacts


def split_documents(run: SparkRun, groups: SplitGroups) -> SparkDocumentSplit:
    """Assigns each document to a group, and near-duplicates to the same one.

    The groups are those of the local engine. One task assigns all clusters, because the largest
    come first and the others fill up the groups: it holds about 100 bytes for each cluster.
    """
    run.to_pairs()
    copies = run.exact_duplicates.copies.select("doc", "head")
    scored = run.scored.select("a", "b")
    edges = copies.unionByName(scored.select(f.col("a").alias("doc"), f.col("b").alias("head")))
    for name in run.request.value_keys:
        edges = edges.unionByName(find_copies(run.documents, [name], f.col(name).isNotNull()))
    components = join_edges(edges, run.tables)
    hashed = run.documents.select("doc", "id", "sort", "fp0", "fp1", "shingles").mapInArrow(
        DocumentHashes(groups.seed), DocumentHashes.schema
    )
    component = f.coalesce("component", "doc").alias("component")
    members = run.tables.keep(
        hashed.join(components, "doc", "left").select("id", "sort", "hash", component), "members"
    )
    clusters = members.groupBy("component").agg(
        f.count("*").alias("size"),
        f.min("hash").alias("hash"),
        f.min_by("id", "sort").alias("cluster"),
    )
    clusters = run.tables.keep(clusters, "split-clusters")
    assigned = clusters.select("component", "size", "hash").coalesce(1)
    numbers = assigned.mapInArrow(ClusterAssignment(groups.shares), ASSIGNED)
    clusters = run.tables.keep(clusters.join(numbers, "component"), "assigned-clusters")
    names = f.array(*map(f.lit, groups.names))
    group = f.element_at(names, f.col("number") + 1).alias("group")
    chosen = clusters.select("component", group, "cluster")
    table = members.join(chosen, "component").select("id", "group", "cluster")
    return SparkDocumentSplit(table, _summarize(run, groups, clusters))


def _summarize(run: SparkRun, groups: SplitGroups, clusters: DataFrame) -> SplitFacts:
    """Returns the numbers of a split."""
    documents = [0] * len(groups.names)
    cluster_counts = [0] * len(groups.names)
    for row in clusters.groupBy("number").agg(f.sum("size"), f.count("*")).collect():
        documents[row[0]] = row[1]
        cluster_counts[row[0]] = row[2]
    first = clusters.orderBy(f.desc("size"), "cluster").first()
    largest: ClusterFacts | None = None
    if first is not None:
        largest = {
            "id": first["cluster"],
            "documents": first["size"],
            "group": groups.names[first["number"]],
        }
    return describe_split(groups, documents, cluster_counts, _count_pairs(run), largest)


def _count_pairs(run: SparkRun) -> int:
    """Returns the number of pairs of near-duplicates, exact duplicates included."""
    heads = run.exact_duplicates.copies.groupBy("head")
    copies = heads.agg((f.count("*") + 1).alias("copies"))
    twice_exact = copies.agg(f.sum(f.col("copies") * (f.col("copies") - 1))).first()
    first = copies.withColumnsRenamed({"head": "a", "copies": "copies_a"})
    second = copies.withColumnsRenamed({"head": "b", "copies": "copies_b"})
    scored = run.scored.select("a", "b").join(first, "a", "left").join(second, "b", "left")
    times = f.coalesce("copies_a", f.lit(1)) * f.coalesce("copies_b", f.lit(1))
    near = scored.agg(f.sum(times)).first()
    return int(twice_exact[0] or 0) // 2 + int(near[0] or 0)


@dataclass(frozen=True)
class DocumentHashes:
    """A task that hashes the contents of documents, and the ids of empty ones.

    Attributes:
        seed: Seed of the hashes.
    """

    seed: int
    schema = "doc long, id string, sort binary, hash long"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            content = np.stack([to_unsigned(batch[name]) for name in ("fp0", "fp1")], axis=1)
            is_empty = (content == 0).all(axis=1) & (to_numbers(batch["shingles"]) == 0)
            ids = batch["id"].cast(pa.large_string())
            content[is_empty, 0] = id_hashes(ids)[is_empty]
            hashes = (hash_documents(content, self.seed) ^ SIGN).view(np.int64)
            columns = [batch["doc"], batch["id"], batch["sort"], pa.array(hashes)]
            yield pa.record_batch(columns, ["doc", "id", "sort", "hash"])


@dataclass(frozen=True)
class ClusterAssignment:
    """A task that assigns all clusters to groups.

    Attributes:
        shares: Share of each group.
    """

    shares: tuple[float, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([("component", pa.int64()), ("size", pa.int64()), ("hash", pa.int64())])
        clusters = pa.Table.from_batches(list(batches), schema)
        hashes = expand_smallest_hashes(to_unsigned(clusters["hash"]) ^ SIGN)
        numbers = assign_clusters(hashes, to_numbers(clusters["size"]), self.shares)
        components = clusters["component"].combine_chunks()
        yield pa.record_batch(
            [components, pa.array(numbers.astype(np.int32))], ["component", "number"]
        )
