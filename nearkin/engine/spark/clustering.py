"""Stage 5 inside tasks: from scored pairs to kept documents.

The kept document of a document depends on its connected component alone. So connected components
are found first, with the large-star and small-star algorithm (Kiveris et al., *Connected Components
in MapReduce and Beyond*, SoCC 2014). Then one task clusters each component in keep order, with the
functions of the local engine.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from nearkin.cluster.components import cluster_components
from nearkin.cluster.election import elect_leaders
from nearkin.engine.leader_similarity import compute_leader_similarities, find_leader_similarities
from nearkin.engine.spark.arrow_columns import make_batch, to_numbers
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.verification import Members, Scoring, with_payloads
from nearkin.measures.base import as_stored
from nearkin.packed_pairs import ScoredPairs

ELECTED = "doc long,leader long,similarity double"
"""The removed documents."""
MOST_ROUNDS = 60
"""Largest number of rounds. A graph needs far fewer: they grow with the logarithm of its size."""


@dataclass(frozen=True)
class Election:
    """The tasks that decide which documents are kept.

    Attributes:
        scoring: Scores further pairs.
        exact: Whether further pairs are compared exactly, not by signatures.
        components: Whether components are clustered, not leaders elected.
    """

    scoring: Scoring
    exact: bool
    components: bool

    @property
    def request(self) -> TaskRequest:
        return self.scoring.request

    def elect(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Returns ELECTED of whole connected components.

        Args:
            pairs: Scored pairs (a, b, shared, joint).
            documents: Documents (doc, sort, ...).
        """
        documents, compare = self._make_comparison(documents)
        docs = to_numbers(documents["doc"])
        packed = Members(docs).pack(to_numbers(pairs["a"]), to_numbers(pairs["b"]))
        sequence = np.argsort(packed)
        scored = ScoredPairs(
            packed, to_numbers(pairs["shared"]), to_numbers(pairs["joint"])
        ).select(sequence)
        order = pc.sort_indices(documents["sort"]).to_numpy().astype(np.uint32)
        rank = np.empty(len(order), np.uint32)
        rank[order] = np.arange(len(order), dtype=np.uint32)
        if self.components:
            leader = cluster_components(
                scored, order, rank, self.request.options.lowest_similarity, compare
            )
            similarity = compute_leader_similarities(leader, compare)
        else:
            leader = elect_leaders(scored, order, rank)
            similarity = find_leader_similarities(scored, leader)
        removed = np.flatnonzero(leader != np.arange(len(leader)))
        columns: dict[str, np.ndarray] = {
            "doc": docs[removed],
            "leader": docs[leader[removed]],
            "similarity": similarity[removed],
        }
        return pa.Table.from_batches([make_batch(ELECTED, **columns)])

    def _make_comparison(
        self, documents: pa.Table
    ) -> tuple[pa.Table, Callable[[np.ndarray], ScoredPairs]]:
        """Returns the documents, each once, and a function that compares further pairs of them."""
        measure = self.request.measure
        if not (self.components and self.exact):
            return documents, lambda pairs: measure.estimator.estimate(
                pairs, self.scoring.agreements(pairs, documents["signature"])
            )
        documents, payload = with_payloads(documents, self.request)
        stored = as_stored(payload)
        return documents, lambda pairs: measure.compare(pairs, stored)


def find_components(edges: DataFrame, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Finds the connected components of a graph.

    Args:
        edges: Edges (a, b), with a < b.
        keep: Stores an intermediate table that is used more than once.

    Returns:
        (doc, component): each document of an edge, and the smallest document of its component.
    """
    stars = keep(edges.select("a", "b").distinct())
    checksum = f.sum(f.xxhash64("a", "b").cast("decimal(38,0)"))
    previous_state: Row | None = None
    for _ in range(MOST_ROUNDS):
        state = stars.agg(f.count("*"), checksum).first()
        if state == previous_state:
            break
        previous_state = state
        stars = keep(_small_star(_large_star(stars)))
    roots = stars.select(f.col("a").alias("component"), f.col("b").alias("doc"))
    return roots.unionByName(roots.select("component", f.col("component").alias("doc")).distinct())


def _large_star(edges: DataFrame) -> DataFrame:
    """Links the larger neighbours of each document to its smallest neighbour, or to itself."""
    directed = _both_ways(edges)
    least = directed.groupBy("doc").agg(f.least(f.min("other"), f.first("doc")).alias("least"))
    stars = directed.join(least, "doc").where(f.col("other") > f.col("doc"))
    return stars.select(f.col("least").alias("a"), f.col("other").alias("b")).distinct()


def _small_star(edges: DataFrame) -> DataFrame:
    """Links each document and its smaller neighbours to the smallest of them."""
    least = edges.groupBy("b").agg(f.min("a").alias("least"))
    linked = edges.join(least, "b").select(f.col("least"), f.col("a").alias("other"))
    return (
        linked.unionByName(least.select("least", f.col("b").alias("other")))
        .where(f.col("least") != f.col("other"))
        .select(f.col("least").alias("a"), f.col("other").alias("b"))
        .distinct()
    )


def _both_ways(edges: DataFrame) -> DataFrame:
    return edges.select(f.col("a").alias("doc"), f.col("b").alias("other")).unionByName(
        edges.select(f.col("b").alias("doc"), f.col("a").alias("other"))
    )
