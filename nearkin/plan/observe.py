"""How similar the documents of a corpus are to each other: a sample of it, all its pairs compared exactly."""

import numpy as np
import pyarrow as pa

from nearkin.corpus import Columns, Corpus
from nearkin.errors import UsageError
from nearkin.measures import Measure, Payload
from nearkin.packed_pairs import ScoredPairs
from nearkin.plan.tune import Distribution
from nearkin.sketch.minhash import splitmix64

SAMPLE = 2000
BINS = 200
ABOVE_NOTHING = 1e-9
"""Pairs from this similarity on are listed; the others share nothing."""


def observe(
    corpus: Corpus,
    columns: Columns,
    measure: Measure,
    sample: int = SAMPLE,
    seed: int = 1,
    workers: int = 2,
) -> Distribution:
    """The pairs of a corpus by similarity, estimated from those of a sample.

    Args:
        corpus: Read once.
        columns: What of it is read.
        measure: How documents are compared.
        sample: Documents compared each with each.
        seed: Of the sample: documents are taken by a hash of their ordinal, whatever batches they come in.
        workers: Threads.

    Raises:
        UsageError: The corpus has fewer than two documents.
    """
    corpus.check(columns)
    chosen, count = sample_of(corpus, columns, sample, seed)
    if len(chosen) < 2:
        raise UsageError(
            f"{count} documents have no pair to learn from; tune without a corpus, or give one"
        )
    return distribution_of(measure.payload_builder().build(chosen), measure, count, workers)


def distribution_of(
    payload: Payload, measure: Measure, documents: int, workers: int = 2
) -> Distribution:
    """The pairs of a corpus by similarity, from a sample that is compared each with each.

    Args:
        payload: Of the sample, two documents or more.
        measure: How they are compared.
        documents: Of the corpus.
        workers: Threads.
    """
    sampled = len(payload.sizes)
    found = measure.compare_all(payload, np.zeros(sampled, np.uint64), ABOVE_NOTHING, workers)
    similarities = ScoredPairs.concatenate(list(found)).similarity
    counts, edges = np.histogram(np.clip(similarities, 0, 1), BINS, (0.0, 1.0))
    total = sampled * (sampled - 1) // 2
    counts[0] += total - len(similarities)
    each = counts / total * (documents - 1)
    centres = (edges[:-1] + edges[1:]) / 2
    centres[0], centres[-1] = 0.0, 1.0
    return Distribution(
        documents, centres, each, f"{sampled:,} of {documents:,} documents, each compared with each"
    )


def sample_of(corpus: Corpus, columns: Columns, size: int, seed: int) -> tuple[pa.Array, int]:
    """Some documents of a corpus, in its order, and how many it has."""
    held, ranks, count = [], np.empty(0, np.uint64), 0
    for batch in corpus.batches(columns):
        documents = batch.documents[columns.content]
        own = splitmix64(seed, len(documents), batch.first)
        limit = (
            np.partition(ranks, size - 1)[size - 1] if len(ranks) >= size else np.uint64(2**64 - 1)
        )
        some = np.flatnonzero(own <= limit)
        if len(some):
            held.append(documents.take(pa.array(some)))
            ranks = np.concatenate([ranks, own[some]])
        count += len(documents)
    if not held:
        return pa.array([], pa.large_string()), count
    best = np.sort(np.argsort(ranks, kind="stable")[:size])
    return pa.concat_arrays(held).take(pa.array(best)), count
