"""Stage 5 inside tasks: from scored pairs to kept documents.

The kept document of a document depends on its connected component alone. So connected components
are found first, with the large-star and small-star algorithm (Kiveris et al., *Connected Components
in MapReduce and Beyond*, SoCC 2014). Then one task clusters each component in keep order, with the
functions of the local engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from nearkin.engine.leader_similarity import compute_leader_similarities, find_leader_similarities
from nearkin.engine.spark.arrow_columns import make_batch, to_numbers
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.engine.spark.verification import Members, Scoring, with_payloads
from nearkin.stages.cluster.components import cluster_components
from nearkin.stages.cluster.decided_pairs import drop_forbidden_links
from nearkin.stages.cluster.election import elect_leaders
from nearkin.stages.cluster.kept_documents import ClusterCriterion, choose_kept_documents
from nearkin.stages.measures.base import StoredPayloads, as_stored
from nearkin.stages.packed_pairs import ScoredPairs, sorted_unique

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
        apart: Pairs of documents that are never in one cluster, int64 (d, 2).
        criterion: Criterion that chooses the kept document of each cluster, or None to keep the
            leader.
    """

    scoring: Scoring
    exact: bool
    components: bool
    apart: np.ndarray
    criterion: ClusterCriterion | None = None

    @property
    def request(self) -> TaskRequest:
        return self.scoring.request

    @property
    def reads_payloads(self) -> bool:
        """True if tasks compare documents exactly, or count their shingles."""
        is_by_size = self.criterion == ClusterCriterion.MOST_COMPLETE
        return (self.components and self.exact) or is_by_size

    def elect(self, pairs: pa.Table, documents: pa.Table) -> pa.Table:
        """Returns ELECTED of whole connected components."""
        sizes = np.zeros(len(documents), np.int64)
        compare: Callable[[np.ndarray], ScoredPairs] | None = None
        if self.reads_payloads:
            documents, payload = with_payloads(documents, self.request)
            sizes = payload.sizes
            if self.components:
                compare = partial(self._compare_exactly, as_stored(payload))
        elif self.components:
            compare = partial(self._compare_signatures, documents["signature"])
        docs = to_numbers(documents["doc"])
        bin_members = Members(docs)
        packed = bin_members.pack(to_numbers(pairs["a"]), to_numbers(pairs["b"]))
        sequence = np.argsort(packed)
        scored = ScoredPairs(
            packed, to_numbers(pairs["shared"]), to_numbers(pairs["joint"])
        ).select(sequence)
        order = pc.sort_indices(documents["sort"]).to_numpy().astype(np.uint32)
        rank = np.empty(len(order), np.uint32)
        rank[order] = np.arange(len(order), dtype=np.uint32)
        ends = self.apart[np.isin(self.apart, docs).all(axis=1)]
        apart = sorted_unique(bin_members.pack(ends[:, 0], ends[:, 1]))
        if compare is None:
            leader = elect_leaders(scored, order, rank, apart)
        else:
            floor = self.request.options.lowest_similarity
            linked = drop_forbidden_links(scored, rank, apart) if len(apart) else scored
            leader = cluster_components(linked, order, rank, floor, compare)
        if self.criterion is not None:
            copies = to_numbers(documents["copies"])
            leader = choose_kept_documents(scored, leader, rank, copies, self.criterion, sizes)
        if compare is None:
            similarity = find_leader_similarities(scored, leader)
        else:
            similarity = compute_leader_similarities(leader, compare)
        removed = np.flatnonzero(leader != np.arange(len(leader)))
        columns: dict[str, np.ndarray] = {
            "doc": docs[removed],
            "leader": docs[leader[removed]],
            "similarity": similarity[removed],
        }
        return pa.Table.from_batches([make_batch(ELECTED, **columns)])

    def _compare_exactly(self, stored: StoredPayloads, pairs: np.ndarray) -> ScoredPairs:
        return self.request.measure.compare(pairs, stored)

    def _compare_signatures(self, signatures: pa.ChunkedArray, pairs: np.ndarray) -> ScoredPairs:
        agreements = self.scoring.agreements(pairs, signatures)
        return self.request.measure.estimator.estimate(pairs, agreements)


def find_components(edges: DataFrame, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Finds the connected components of a graph."""
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
