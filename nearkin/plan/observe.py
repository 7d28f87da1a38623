"""Measures how similar the documents of a corpus are, by comparing all pairs of a sample."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Columns, Corpus
from nearkin.errors import UsageError
from nearkin.measures import Measure, Payload
from nearkin.packed_pairs import ScoredPairs
from nearkin.plan.tune import Distribution
from nearkin.sketch.minhash import splitmix64

SAMPLE_SIZE = 2000
SIMILARITY_BINS = 200
MIN_SIMILARITY = 1e-9
"""The similarity from which pairs are listed. The other pairs share nothing."""


def observe_corpus(
    corpus: Corpus,
    columns: Columns,
    measure: Measure,
    sample: int = SAMPLE_SIZE,
    seed: int = 1,
    workers: int = 2,
) -> Distribution:
    """Estimates the similarities of the pairs of a corpus from a sample of its documents.

    Args:
        corpus: Corpus, which is read once.
        columns: Columns of the corpus to read.
        measure: Measure of the similarity.
        sample: Number of sampled documents, all pairs of which are compared.
        seed: Random seed for sampling. The sample does not depend on how the corpus is divided into
            batches.
        workers: Number of threads.

    Raises:
        UsageError: If the corpus has fewer than two documents.
    """
    corpus.check(columns)
    chosen, count = sample_documents(corpus, columns, sample, seed)
    if len(chosen) < 2:
        raise UsageError(
            f"{count} documents have no pair to compare; give a corpus of at least two documents, "
            "or tune without a corpus"
        )
    payload = measure.payload_builder().build(chosen)
    distribution = observe_sample(payload, measure, count, workers)
    characters = None
    if pa.types.is_large_string(chosen.type):
        characters = float(np.median(pc.utf8_length(chosen).to_numpy(zero_copy_only=False)))
    return replace(distribution, shingles=payload.sizes, characters=characters)


def observe_sample(
    payload: Payload, measure: Measure, documents: int, workers: int = 2
) -> Distribution:
    """Estimates the similarities of the pairs of a corpus from the payload of a sample.

    Args:
        payload: What the exact comparison of the sampled documents needs, two or more.
        measure: Measure of the similarity.
        documents: Number of documents of the corpus.
        workers: Number of threads.
    """
    sampled = len(payload.sizes)
    blocks = np.zeros(sampled, np.uint64)
    scored = list(measure.compare_all(payload, blocks, MIN_SIMILARITY, workers))
    similarities = ScoredPairs.concatenate(scored).similarity
    counts, edges = np.histogram(np.clip(similarities, 0, 1), SIMILARITY_BINS, (0.0, 1.0))
    total = sampled * (sampled - 1) // 2
    counts[0] += total - len(similarities)
    centers = (edges[:-1] + edges[1:]) / 2
    centers[0] = 0.0
    centers[-1] = 1.0
    return Distribution(
        documents=documents,
        similarities=centers,
        pairs=counts / total * (documents - 1),
        source=f"all pairs of {sampled:,} sampled documents of {documents:,}",
    )


def sample_documents(
    corpus: Corpus, columns: Columns, size: int, seed: int
) -> tuple[pa.Array, int]:
    """Draws documents of a corpus at random.

    Args:
        corpus: Corpus, which is read once.
        columns: Columns of the corpus to read.
        size: Number of documents to draw.
        seed: Random seed for sampling.

    Returns:
        The documents in the order of the corpus, and the number of documents of the corpus.
    """
    parts = []
    ranks = np.empty(0, np.uint64)
    count = 0
    for batch in corpus.batches(columns):
        documents = batch.documents[columns.content]
        batch_ranks = splitmix64(seed, len(documents), batch.first)
        limit = np.uint64(2**64 - 1)
        if len(ranks) >= size:
            limit = np.partition(ranks, size - 1)[size - 1]
        eligible = np.flatnonzero(batch_ranks <= limit)
        if len(eligible):
            parts.append(documents.take(pa.array(eligible)))
            ranks = np.concatenate([ranks, batch_ranks[eligible]])
        count += len(documents)
    if not parts:
        return pa.array([], pa.large_string()), count
    chosen = np.sort(np.argsort(ranks, kind="stable")[:size])
    return pa.concat_arrays(parts).take(pa.array(chosen)), count
