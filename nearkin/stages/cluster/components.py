"""Connected components, split where a member is not similar enough to the kept document."""

from collections.abc import Callable

import numpy as np

from nearkin.stages.cluster import kernels
from nearkin.stages.cluster.chains import SimilarityIndex, graph_of, settle_chains
from nearkin.stages.cluster.election import as_documents, rank_pairs
from nearkin.stages.packed_pairs import ScoredPairs, pack_pairs, sorted_unique

MAX_ROUNDS = 8
"""The number of rounds over all components at once.

Nearly all documents are settled after the first round. Long chains would need thousands of rounds.
"""

Compare = Callable[[np.ndarray], ScoredPairs]
"""Scores packed pairs, uint64 (m,)."""


def _no_index(documents: np.ndarray) -> None:
    return


def cluster_components(
    scored: ScoredPairs,
    order: np.ndarray,
    rank: np.ndarray,
    floor: float,
    compare: Compare,
    index_for: Callable[[np.ndarray], SimilarityIndex | None] = _no_index,
) -> np.ndarray:
    """Returns the kept document of each document, by connected components.

    The kept document of a component is the first one in keep order. Members whose similarity to
    it is below the floor are split off and clustered again among themselves. So a chain cannot
    remove a document that does not resemble the kept one.

    Args:
        order: Document numbers in keep order, uint32 (n,).
        rank: Rank of each document in keep order, uint32 (n,), the inverse of `order`.
        index_for: Returns an index that finds those of some documents, uint32 (m,), that can
            reach the floor with one of them. It returns None if comparing all of them is faster.

    Returns:
        uint32 (n,).
    """
    leader = np.arange(len(order), dtype=np.uint32)
    later, earlier = rank_pairs(scored.pairs, rank)
    alive = np.ones(len(later), bool)
    for _ in range(MAX_ROUNDS):
        if not alive.any():
            break
        touched = sorted_unique(np.concatenate([later[alive], earlier[alive]]))
        parent = np.arange(len(order), dtype=np.uint32)
        kernels.unite(later[alive], earlier[alive], parent)
        kernels.flatten(parent)
        members = touched[parent[touched] != touched]
        pairs = pack_pairs(order[members], order[parent[members]])
        is_far = np.zeros(len(order), bool)
        is_far[members] = ~compare(pairs).meets_threshold(floor)
        settled = members[~is_far[members]]
        leader[settled] = parent[settled]
        alive &= is_far[later] & is_far[earlier]
    if alive.any():
        remaining = sorted_unique(np.concatenate([later[alive], earlier[alive]]))
        documents = order[remaining]
        graph = graph_of(
            np.searchsorted(remaining, later[alive]),
            np.searchsorted(remaining, earlier[alive]),
            len(remaining),
        )

        def is_near(members: np.ndarray, kept: int) -> np.ndarray:
            return compare(pack_pairs(documents[members], documents[kept])).meets_threshold(floor)

        leader[remaining] = remaining[settle_chains(graph, is_near, index_for(documents))]
    return as_documents(leader, order)
