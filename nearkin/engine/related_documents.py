"""Related documents: those that resemble a document of another cluster, below the threshold.

A run with the option `related` keeps the pairs from that similarity on. The pairs of duplicates
make clusters, and all pairs of different clusters link documents. With a reference, the documents
that do not repeat one of its documents are also linked to those that they are related to.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nearkin.engine.clustering import Clustering, LinkedDocuments
from nearkin.engine.run import Run
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, sorted_unique, unpack_pairs


def with_related_documents(run: Run, clustering: Clustering) -> Clustering:
    """Returns the clusters with the documents that resemble one of another cluster."""
    if run.options.related is None:
        return clustering
    is_linked = np.zeros(len(clustering.leader), bool)
    pairs = 0
    for related in iterate_related_pairs(run, clustering):
        first, second = unpack_pairs(related.pairs)
        is_linked[first] = True
        is_linked[second] = True
        pairs += len(related.pairs)
    in_reference = run.related_in_reference()
    is_linked[in_reference.documents] = True
    pairs += len(in_reference)
    return replace(clustering, linked=LinkedDocuments(is_linked, pairs))


def iterate_related_pairs(run: Run, clustering: Clustering) -> Iterator[ScoredPairs]:
    """Yields the scored pairs whose documents are in different clusters, in order."""
    assert run.options.related is not None
    leader = np.asarray(clustering.leader)
    # At a higher threshold, some pairs of duplicates are those of related documents.
    stored = run.scored_at(run.options.scored_threshold)
    for part in _merge_in_order(stored, run.related_pairs()):
        similar = part.select(part.meets_threshold(run.options.related))
        first, second = unpack_pairs(similar.pairs)
        yield similar.select(leader[first] != leader[second])


def _merge_in_order(first: ScoredPairs, second: ScoredPairs) -> Iterator[ScoredPairs]:
    """Yields the pairs of two sorted collections in order, in parts of a bounded size."""
    every = slice(PAIRS_PER_BATCH, None, PAIRS_PER_BATCH)
    cuts = sorted_unique(np.concatenate([first.pairs[every], second.pairs[every]]))
    bounds = [
        [0, *np.searchsorted(scored.pairs, cuts).tolist(), len(scored.pairs)]
        for scored in (first, second)
    ]
    for part in range(len(cuts) + 1):
        merged = ScoredPairs.concatenate(
            [
                scored.select(slice(places[part], places[part + 1]))
                for scored, places in zip((first, second), bounds, strict=True)
            ]
        )
        yield merged.select(np.argsort(merged.pairs))
