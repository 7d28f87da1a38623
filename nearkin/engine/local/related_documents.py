"""Related documents: those that resemble a document of another cluster, below the threshold.

A run with the option `related` scores the pairs from that similarity on. The pairs that reach the
threshold make clusters, and those of different clusters link documents.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nearkin.engine.local.clustering import Clustering, LinkedDocuments
from nearkin.engine.local.run import LocalRun
from nearkin.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, unpack_pairs


def with_related_documents(run: LocalRun, clustering: Clustering) -> Clustering:
    """Returns the clusters with the documents that resemble one of another cluster.

    Args:
        run: Run with scored pairs.
        clustering: Its final clusters. They are returned as they are for a run without the option
            `related`.
    """
    if run.options.related is None:
        return clustering
    is_linked = np.zeros(len(clustering.leader), bool)
    pairs = 0
    for related in iterate_related_pairs(run, clustering):
        first, second = unpack_pairs(related.pairs)
        is_linked[first] = True
        is_linked[second] = True
        pairs += len(related.pairs)
    return replace(clustering, linked=LinkedDocuments(is_linked, pairs))


def iterate_related_pairs(run: LocalRun, clustering: Clustering) -> Iterator[ScoredPairs]:
    """Yields the scored pairs whose documents are in different clusters, in order.

    Args:
        run: Run with the option `related`, whose pairs are scored.
        clustering: Its final clusters.
    """
    scored = run.scored_at(run.options.scored_threshold)
    leader = np.asarray(clustering.leader)
    for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
        part = scored.select(slice(start, start + PAIRS_PER_BATCH))
        first, second = unpack_pairs(np.asarray(part.pairs))
        yield part.select(leader[first] != leader[second])
