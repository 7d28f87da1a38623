"""Kernels of the search: the clusters of many thresholds, counted against true clusters."""

import numpy as np

from nearkin.runtime.jit import kernel
from nearkin.stages.cluster.kernels import elect_pair

U32 = np.uint32


@kernel
def count_pairs_of_clusters(
    leader: np.ndarray,
    members: np.ndarray,
    counted: np.ndarray,
    by_cluster: np.ndarray,
    firsts: np.ndarray,
    sizes: np.ndarray,
    tally: np.ndarray,
) -> tuple[float, float]:
    """Counts the pairs of duplicates and the distinct pairs in predicted clusters.

    A pair of a labelled document and a counted one without a label is distinct, and half of it is
    counted.

    Args:
        leader: Kept document of each document, unsigned integers (n,).
        members: Whether a document takes part, bool (n,).
        counted: Whether a member is judged with the others of its predicted cluster, bool (n,). All
            labelled members are.
        by_cluster: Labelled documents, one true cluster after the other, int64 (l,).
        firsts: First position of each true cluster in `by_cluster`, and the end, int64 (c + 1,).
        sizes: Scratch space, int64 (n,).
        tally: Scratch space, int64 (n,). All elements are 0, and are so again in the end.

    Returns:
        The number of pairs of duplicates, and that of distinct pairs.
    """
    sizes[:] = 0
    for d in range(members.shape[0]):
        if counted[d]:
            sizes[leader[d]] += 1
    shared = 0
    foreign = 0
    for c in range(firsts.shape[0] - 1):
        for i in range(firsts[c], firsts[c + 1]):
            if members[by_cluster[i]]:
                tally[leader[by_cluster[i]]] += 1
        for i in range(firsts[c], firsts[c + 1]):
            d = by_cluster[i]
            if members[d]:
                shared += tally[leader[d]] - 1
                foreign += sizes[leader[d]] - tally[leader[d]]
        for i in range(firsts[c], firsts[c + 1]):
            tally[leader[by_cluster[i]]] = 0
    return shared / 2, foreign / 2


@kernel
def count_kept_documents(
    leader: np.ndarray,
    members: np.ndarray,
    by_cluster: np.ndarray,
    firsts: np.ndarray,
) -> tuple[int, int]:
    """Counts the true clusters without a kept document, and the kept redundant documents.

    Args:
        leader: Kept document of each document, unsigned integers (n,).
        members: Whether a document takes part, bool (n,).
        by_cluster: Labelled documents, one true cluster after the other, int64 (l,).
        firsts: First position of each true cluster in `by_cluster`, and the end, int64 (c + 1,).

    Returns:
        The number of clusters with members of which none is kept, and the number of kept members
        beyond one of each cluster.
    """
    lost = 0
    redundant = 0
    for c in range(firsts.shape[0] - 1):
        present = 0
        kept = 0
        for i in range(firsts[c], firsts[c + 1]):
            d = by_cluster[i]
            if members[d]:
                present += 1
                if leader[d] == d:
                    kept += 1
        if present > 0 and kept == 0:
            lost += 1
        if kept > 1:
            redundant += kept - 1
    return lost, redundant


@kernel
def count_leader_clusters(
    later: np.ndarray,
    earlier: np.ndarray,
    similarity: np.ndarray,
    preference: np.ndarray,
    members: np.ndarray,
    counted: np.ndarray,
    representative: np.ndarray,
    by_cluster: np.ndarray,
    firsts: np.ndarray,
    thresholds: np.ndarray,
    together: np.ndarray,
    wrong: np.ndarray,
    lost: np.ndarray,
    redundant: np.ndarray,
) -> None:
    """Counts the pairs of the clusters that leaders make at each threshold.

    Documents are numbered in keep order.

    Args:
        later: Later document of each pair, uint32 (m,), in ascending order.
        earlier: Earlier document of each pair, uint32 (m,).
        similarity: Similarity of each pair that reaches a threshold or not, float64 (m,).
        preference: Similarity by which a document joins one of several leaders, float64 (m,).
        members: Whether a document takes part, bool (n,).
        counted: Whether a member is judged with the others of its predicted cluster, bool (n,).
        representative: First exact duplicate of each document, int64 (n,). Pairs are of these.
        by_cluster: Labelled documents, one true cluster after the other, int64 (l,).
        firsts: First position of each true cluster in `by_cluster`, and the end, int64 (c + 1,).
        thresholds: Thresholds, float64 (t,).
        together: Receives the number of pairs of duplicates in one cluster, float64 (t,).
        wrong: Receives the number of distinct pairs in one cluster, float64 (t,).
        lost: Receives the number of true clusters without a kept document, float64 (t,).
        redundant: Receives the number of kept documents beyond one of each true cluster,
            float64 (t,).
    """
    n = members.shape[0]
    leader = np.empty(n, np.uint32)
    best = np.empty(n, np.float64)
    sizes = np.empty(n, np.int64)
    tally = np.zeros(n, np.int64)
    for t in range(thresholds.shape[0]):
        for d in range(n):
            leader[d] = U32(d)
            best[d] = 0.0
        for p in range(later.shape[0]):
            if similarity[p] >= thresholds[t] and members[later[p]] and members[earlier[p]]:
                elect_pair(later[p], earlier[p], preference[p], leader, best)
        for d in range(n):
            leader[d] = leader[representative[d]]
        together[t], wrong[t] = count_pairs_of_clusters(
            leader, members, counted, by_cluster, firsts, sizes, tally
        )
        lost[t], redundant[t] = count_kept_documents(leader, members, by_cluster, firsts)
