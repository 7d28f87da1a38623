"""Stage 5: scored pairs to the kept document of each document, component by component.

Whom a document is removed for depends on its connected component alone, so components are found first (large-star and
small-star: Kiveris et al., *Connected Components in MapReduce and Beyond*, SoCC 2014), then each is clustered by the local
engine's functions in one task, in keep order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from nearkin.cluster.components import components
from nearkin.cluster.election import leaders
from nearkin.engine.leader_similarity import compute_leader_similarities, find_leader_similarities
from nearkin.engine.spark.arrow_columns import numbers, table
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.verification import Members, Scoring, with_payloads
from nearkin.measures.base import as_stored
from nearkin.packed_pairs import ScoredPairs

ELECTED = "doc long,leader long,similarity double"
"""Removed documents."""
MOST_ROUNDS = 60
"""Of stars: far more than any graph needs, whose rounds grow with the logarithm of its documents."""


@dataclass(frozen=True)
class Election:
    """What tasks of this stage do.

    Attributes:
        scoring: How further pairs are compared.
        exact: Whether that is by payloads, not by signatures.
        components: Components in the place of leaders.
    """

    scoring: Scoring
    exact: bool
    components: bool

    @property
    def request(self) -> TaskRequest:
        return self.scoring.request

    def elect(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Whole components: scored pairs (a, b, shared, joint) and documents (doc, sort, …) to ELECTED."""
        documents, compare = self._comparing(documents)
        docs = numbers(documents["doc"])
        packed = Members(docs).pack(numbers(pairs["a"]), numbers(pairs["b"]))
        sequence = np.argsort(packed)
        scored = ScoredPairs(packed, numbers(pairs["shared"]), numbers(pairs["joint"])).select(
            sequence
        )
        order = pc.sort_indices(documents["sort"]).to_numpy().astype(np.uint32)
        rank = np.empty(len(order), np.uint32)
        rank[order] = np.arange(len(order), dtype=np.uint32)
        if self.components:
            leader = components(
                scored, order, rank, self.request.options.lowest_similarity, compare
            )
            similarity = compute_leader_similarities(leader, compare)
        else:
            leader = leaders(scored, order, rank)
            similarity = find_leader_similarities(scored, leader)
        removed = np.flatnonzero(leader != np.arange(len(leader)))
        columns: dict[str, Any] = {
            "doc": docs[removed],
            "leader": docs[leader[removed]],
            "similarity": similarity[removed],
        }
        return pa.Table.from_batches([table(ELECTED, **columns)])

    def _comparing(
        self, documents: pa.Table
    ) -> tuple[pa.Table, Callable[[np.ndarray], ScoredPairs]]:
        """Documents, each once, and how further pairs of them are compared, where components ask for it."""
        measure = self.request.measure
        if not (self.components and self.exact):
            return documents, lambda pairs: measure.estimator.estimate(
                pairs, self.scoring.agreements(pairs, documents["signature"])
            )
        documents, payload = with_payloads(documents, self.request)
        held = as_stored(payload)
        return documents, lambda pairs: measure.compare(pairs, held)


def connected(edges: DataFrame, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """(doc, component): the smallest document that each document of an edge is connected with.

    Args:
        edges: Columns a < b.
        keep: Makes an intermediate result permanent, for it is used more than once.
    """
    now = keep(edges.select("a", "b").distinct())
    before: Any = None
    for _ in range(MOST_ROUNDS):
        state = now.agg(f.count("*"), f.sum(f.xxhash64("a", "b").cast("decimal(38,0)"))).first()
        if state == before:
            break
        before = state
        now = keep(_small_star(_large_star(now)))
    roots = now.select(f.col("a").alias("component"), f.col("b").alias("doc"))
    return roots.unionByName(roots.select("component", f.col("component").alias("doc")).distinct())


def _large_star(edges: DataFrame) -> DataFrame:
    """Each document's larger neighbours are linked to its smallest one (or to itself)."""
    both = _both_ways(edges)
    least = both.groupBy("doc").agg(f.least(f.min("other"), f.first("doc")).alias("least"))
    stars = both.join(least, "doc").where(f.col("other") > f.col("doc"))
    return stars.select(f.col("least").alias("a"), f.col("other").alias("b")).distinct()


def _small_star(edges: DataFrame) -> DataFrame:
    """Each document and its smaller neighbours are linked to the smallest of them."""
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
