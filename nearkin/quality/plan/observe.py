"""Measures how similar the documents of a corpus are, by comparing all pairs of a sample."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Batch, Columns, Corpus, carried_column_name
from nearkin.engine.document_facts import value_hashes
from nearkin.engine.exact_groups import number_groups
from nearkin.errors import UsageError
from nearkin.quality.plan.data_kind import profile_texts
from nearkin.quality.plan.distribution import Distribution
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.stages.measures import Measure, Payload
from nearkin.stages.packed_pairs import ScoredPairs, unpack_pairs
from nearkin.stages.pair_scope import EVERY_SOURCE, PairScope
from nearkin.stages.sketch.minhash import splitmix64

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
    across: str | None = None,
) -> Distribution:
    """Estimates the similarities of the pairs of a corpus from a sample of its documents."""
    if across is not None:
        columns = replace(columns, carried_columns=(across,))
    if sample < 2:
        raise UsageError(
            f"a sample of {sample} documents has no pair to compare; set {name_setting('sample')} "
            "to at least 2"
        )
    corpus.check(columns)
    sample_of_corpus = sample_documents(corpus, columns, measure, sample, seed, workers)
    chosen = sample_of_corpus.documents
    if len(chosen) < 2:
        raise UsageError(
            f"{len(chosen)} documents have no pair to compare; give a corpus of at least two "
            "documents, or tune without a corpus"
        )
    payload = measure.payload_builder().build(chosen)
    exact_groups = sample_of_corpus.exact_groups
    distribution = observe_sample(
        payload,
        measure,
        exact_groups.documents,
        workers,
        exact_groups,
        sample_of_corpus.sources,
    )
    if across is not None:
        source = f"{distribution.source}, of different sources by column {across!r}"
        distribution = replace(distribution, source=source)
    distribution = replace(distribution, shingles=payload.sizes)
    if not pa.types.is_large_string(chosen.type):
        return distribution
    profile = profile_texts(chosen, payload.sizes, distribution.exact_copies)
    return replace(
        distribution,
        characters=profile.median_characters,
        profile=profile,
        text_bytes=float(pc.mean(pc.binary_length(chosen)).as_py()),
    )


class SampledExactGroups(NamedTuple):
    """The exact groups of sampled documents. A run compares one document of each group."""

    groups: np.ndarray
    """The number of each sampled document's exact group, int64 (s,)."""
    sizes: np.ndarray
    """The number of documents of the corpus in this group, int64 (s,)."""
    documents: int
    """The number of documents of the corpus."""
    distinct: int
    """The number of exact groups of the corpus, with those of one document."""

    @classmethod
    def of_distinct_documents(cls, sampled: int, documents: int) -> "SampledExactGroups":
        """Returns the counts of a corpus without exact duplicates."""
        return cls(np.arange(sampled), np.ones(sampled, np.int64), documents, documents)


def observe_sample(
    payload: Payload,
    measure: Measure,
    documents: int,
    workers: int = 2,
    exact_groups: SampledExactGroups | None = None,
    sources: np.ndarray = EVERY_SOURCE,
) -> Distribution:
    """Estimates the similarities of the pairs of a corpus from the payload of a sample.

    Exact duplicates are folded, as runs fold them before they compare documents. A group of m
    documents is drawn m times as often as a single one, so a pair counts for 1 / (m · m') (Horvitz,
    Thompson, JASA 1952). Only documents of different sources, uint64 (s,), are compared, or all if
    there are none.
    """
    sampled = len(payload.sizes)
    exact_groups = exact_groups or SampledExactGroups.of_distinct_documents(sampled, documents)
    scope = PairScope.of_all_pairs(sampled)._replace(sources=sources)
    scored = ScoredPairs.concatenate(
        list(measure.compare_all(payload, scope, MIN_SIMILARITY, workers))
    )
    a, b = unpack_pairs(scored.pairs)
    weights = 1.0 / (exact_groups.sizes[a] * exact_groups.sizes[b])
    is_copy = exact_groups.groups[a] == exact_groups.groups[b]
    weights[is_copy] = 0.0
    similarities = np.clip(scored.similarity, 0, 1)
    # Quotients are rounded like similarities, so that a pair at an edge is in the bin above it.
    edges = np.arange(SIMILARITY_BINS + 1) / SIMILARITY_BINS
    bins = np.minimum(np.searchsorted(edges, similarities, "right"), SIMILARITY_BINS) - 1
    compared = np.bincount(bins[~is_copy], minlength=SIMILARITY_BINS)
    sums = np.bincount(bins, weights, SIMILARITY_BINS)
    scale = documents * (documents - 1) / (sampled * (sampled - 1))
    pairs = sums * scale * 2 / exact_groups.distinct
    # All other pairs share nothing.
    comparable = (exact_groups.distinct - 1) * _comparable_share(sources)
    pairs[0] += max(0.0, comparable - float(pairs.sum()))
    centers = (edges[:-1] + edges[1:]) / 2
    centers[0] = 0.0
    centers[-1] = 1.0
    source = f"all pairs of {sampled:,} sampled documents of {documents:,}"
    if exact_groups.distinct < documents:
        source += f", with {documents - exact_groups.distinct:,} exact duplicates folded"
    return Distribution(
        documents=documents,
        similarities=centers,
        pairs=pairs,
        source=source,
        compared=compared,
        exact_copies=1 - exact_groups.distinct / documents,
    )


def _comparable_share(sources: np.ndarray) -> float:
    """Returns the share of the pairs of documents that are of different sources, if any."""
    if not len(sources):
        return 1.0
    _, counts = np.unique(sources, return_counts=True)
    of_one_source = float((counts * (counts - 1)).sum())
    return 1 - of_one_source / (len(sources) * (len(sources) - 1))


class SampledDocuments(NamedTuple):
    """A sample of the documents of a corpus."""

    documents: pa.Array
    """The documents in the order of the corpus."""
    exact_groups: SampledExactGroups
    sources: np.ndarray = EVERY_SOURCE
    """The source of each document, uint64 (s,). It is empty if no column of sources is read."""


class _SampledBatch(NamedTuple):
    """The documents of a batch, with the fingerprints of their content, uint64 (n, 2)."""

    first: int
    documents: pa.Array
    fingerprints: np.ndarray
    sources: np.ndarray


def sample_documents(
    corpus: Corpus, columns: Columns, measure: Measure, size: int, seed: int, workers: int
) -> SampledDocuments:
    """Draws documents of a corpus at random."""
    sketchers = ObjectPool(measure.sketcher)

    def fingerprint(batch: Batch) -> _SampledBatch:
        documents = batch.documents[columns.content]
        sketched = sketchers.use(lambda sketcher: sketcher.sketch(documents))
        sources = EVERY_SOURCE
        for column in columns.carried_columns:
            sources = value_hashes(batch.documents[carried_column_name(column)])
        return _SampledBatch(batch.first, documents, sketched.fingerprints, sources)

    parts = []
    ranks = np.empty(0, np.uint64)
    numbers = np.empty(0, np.int64)
    source_parts = [EVERY_SOURCE]
    fingerprints = [np.empty((0, 2), np.uint64)]
    batches = ordered_map(fingerprint, corpus.batches(columns), workers)
    for first, documents, prints, sources in batches:
        fingerprints.append(prints)
        batch_ranks = splitmix64(seed, len(documents), first)
        limit = np.uint64(2**64 - 1)
        if len(ranks) >= size:
            limit = np.partition(ranks, size - 1)[size - 1]
        eligible = np.flatnonzero(batch_ranks <= limit)
        if len(eligible):
            parts.append(documents.take(pa.array(eligible)))
            source_parts.append(sources[eligible] if len(sources) else EVERY_SOURCE)
            ranks = np.concatenate([ranks, batch_ranks[eligible]])
            numbers = np.concatenate([numbers, first + eligible])
    chosen = np.sort(np.argsort(ranks, kind="stable")[:size])
    groups = number_groups(np.concatenate(fingerprints))
    sizes = np.bincount(groups)
    drawn_groups = groups[numbers[chosen]]
    exact_groups = SampledExactGroups(drawn_groups, sizes[drawn_groups], len(groups), len(sizes))
    if not parts:
        return SampledDocuments(pa.array([], pa.large_string()), exact_groups)
    drawn = pa.concat_arrays(parts).take(pa.array(chosen))
    sources_of_drawn = np.concatenate(source_parts)
    if len(sources_of_drawn):
        sources_of_drawn = sources_of_drawn[chosen]
    return SampledDocuments(drawn, exact_groups, sources_of_drawn)
