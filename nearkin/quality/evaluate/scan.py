"""Reads the corpus of a finished run again to compare sampled documents with all others."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus import Batch, Columns, Corpus, carried_column_name
from nearkin.engine.document_facts import block_hashes, value_hashes
from nearkin.engine.exact_groups import number_groups
from nearkin.engine.options import RunOptions
from nearkin.engine.stats import CandidateStats
from nearkin.quality.evaluate import kernels
from nearkin.runtime.compilation import COMPILATION, CompilationStoppedError
from nearkin.runtime.deadline import Deadline
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.stages.hashing.sorted_lookup import PrefixIndex
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure, measure_of
from nearkin.stages.measures.base import (
    Payload,
    as_stored,
    concatenate_payloads,
    row_starts,
    select_documents,
)
from nearkin.stages.measures.compared_sets import payload_builder_for_run
from nearkin.stages.measures.fields import FieldsMeasure
from nearkin.stages.packed_pairs import (
    PAIRS_PER_BATCH,
    ScoredPairs,
    isin_sorted,
    pack_pairs,
    sorted_unique,
    unpack_pairs,
)
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.sketch import kernels as sketch_kernels
from nearkin.stages.sketch.minhash import splitmix64
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.sketch.sketcher import iterate_streams


@dataclass(frozen=True)
class ReopenedRun:
    """A finished run and its inputs.

    Attributes:
        folder: Output folder of the run.
        corpus: Corpus of the run.
        columns: Columns of the corpus that the run read.
        settings: RunOptions of the run.
        resources: Key, document frequencies and cut shingles that the Spec refers to.
        bandings: Bands and rows of each kind of signatures that found candidate pairs. There are
            none if the run compared every pair.
        candidates: Statistics of the candidates, or None if the run compared every pair.
    """

    folder: Path
    corpus: Corpus
    columns: Columns
    settings: RunOptions
    resources: SpecResources
    bandings: tuple[Banding, ...] = ()
    candidates: CandidateStats | None = None

    @property
    def share_of_hot_pairs(self) -> float:
        """The share of hot buckets in the pairs with a common bucket, in [0, 1]."""
        if self.candidates is None:
            return 0.0
        return self.candidates.share_of_hot_pairs(self.settings.complete_bucket_size)

    @property
    def measure(self) -> Measure:
        """The measure of the run."""
        if self.settings.fields:
            return self.settings.create_measure(self.resources)
        return measure_of(self.settings.spec, self.resources, self.settings.distance)

    @property
    def candidate_measures(self) -> tuple[Measure, ...]:
        """The measures whose signatures find candidate pairs: one, or those of several fields."""
        measure = self.measure
        return measure.candidate_measures if isinstance(measure, FieldsMeasure) else (measure,)


class SimilarPairs(NamedTuple):
    """Pairs of similar documents, as their numbers in the corpus with a < b."""

    a: np.ndarray
    """The first documents, int64 (m,)."""
    b: np.ndarray
    """The second documents, int64 (m,)."""
    similarity: np.ndarray
    """The exact similarities, float64 (m,)."""

    def up_to(self, end: int) -> "SimilarPairs":
        """Returns the pairs of the first documents."""
        return SimilarPairs._make(column[self.b < end] for column in self)


NO_PAIRS = SimilarPairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
"""An empty set of pairs."""

BatchComparison: TypeAlias = Callable[[Batch], SimilarPairs]
"""A comparison of a batch with the sampled documents."""

PairCheck: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function of the numbers of the first and the second documents of m pairs, int64 (m,).

It returns whether the run verified each pair, bool (m,).
"""


def concatenate_pairs(parts: list[SimilarPairs]) -> SimilarPairs:
    """Returns the pairs of all parts, one part after the other."""
    parts = [NO_PAIRS, *parts]
    return SimilarPairs(
        a=np.concatenate([part.a for part in parts]),
        b=np.concatenate([part.b for part in parts]),
        similarity=np.concatenate([part.similarity for part in parts]),
    )


class FoundPairs(NamedTuple):
    """The pairs that a scan found, and how far it came."""

    pairs: SimilarPairs
    end: int
    """The number of documents that were scanned, from the first one on."""


class ReadDocuments(NamedTuple):
    """The payloads of chosen documents, as far as they were read in time."""

    ordinals: np.ndarray
    """The numbers of the documents in ascending order, int64 (m,)."""
    payload: Payload
    end: int
    """The number of documents up to which the corpus was read."""

    def select(self, ordinals: np.ndarray) -> Payload:
        """Returns the payload of some documents that were read, int64 (n,), in the given order."""
        return select_documents(self.payload, np.searchsorted(self.ordinals, ordinals))


class Removals(NamedTuple):
    """Removed documents, and the kept document of the cluster of each of them."""

    removed: np.ndarray
    """int64 (m,), in ascending order."""
    kept: np.ndarray
    """int64 (m,)"""

    @classmethod
    def draw(cls, clusters: pa.Table, limit: int, seed: int) -> "Removals":
        """Draws removed documents at random."""
        kinds = clusters["kind"].to_numpy(zero_copy_only=False)
        removed = np.flatnonzero((kinds == "near") | (kinds == "exact"))
        ranks = splitmix64((seed + 1) % 2**64, len(kinds))
        removed = np.sort(removed[np.argsort(ranks[removed])[:limit]])
        kept_ids = clusters["cluster"].take(pa.array(removed))
        kept = pc.index_in(kept_ids, clusters["id"]).to_numpy().astype(np.int64)
        return cls(removed, kept)


class _BatchScan(NamedTuple):
    """The result of comparing one batch, with its fingerprints and scope in the first scan."""

    pairs: SimilarPairs
    fingerprints: np.ndarray | None
    scope: PairScope | None
    documents: int


class PrecisionCounts(NamedTuple):
    """The number of correctly removed documents, and the number of compared ones."""

    correct: int
    compared: int


def create_scan(run: ReopenedRun, documents: int, progress: Progress) -> "CorpusScan":
    """Returns the scan that fits the measure of a run."""
    if run.settings.spec.measure == "jaccard" and not run.settings.fields:
        return PrefixScan(run, documents, progress)
    return AllPairsScan(run, documents, progress)


class CorpusScan(ABC):
    """A scan that compares sampled documents with the whole corpus.

    Attributes:
        groups: Number of the exact group of each document, int64 (n,). It is set by the first call
            of `find_similar`.
        scope: Pairs that the run compared. It is set by the first call of `find_similar`.
    """

    sample_per_scan: int
    """The number of sampled documents that are compared in one scan of the corpus."""

    def __init__(self, run: ReopenedRun, documents: int, progress: Progress) -> None:
        """Creates a scan."""
        self.run = run
        self.documents = documents
        self.progress = progress
        self.groups = np.empty(0, np.int64)
        self.scope = PairScope.of_all_pairs(0)
        self.measure = run.measure
        self._builders = ObjectPool(lambda: payload_builder_for_run(self.measure))

    def build_payload(self, documents: pa.Array) -> Payload:
        """Returns what the exact comparison of some documents needs."""
        return self._builders.use(lambda builder: builder.build(documents))

    def read_documents(self, ordinals: np.ndarray, deadline: Deadline) -> ReadDocuments:
        """Reads what the exact comparison of some documents, int64 (m,) ascending, needs."""
        no_rows = tuple(
            np.empty((0,) if width is None else (0, width), kind)
            for kind, width in self.measure.column_types
        )
        parts = [Payload(np.empty(0, np.int64), no_rows)]
        end = 0
        self.progress.stage("read samples", self.documents)
        with suppress(CompilationStoppedError), COMPILATION.ends_at(deadline):
            for batch in self.run.corpus.batches(self.run.columns):
                if deadline.has_passed:
                    break
                next_end = batch.first + len(batch.rows)
                low, high = np.searchsorted(ordinals, [batch.first, next_end])
                if high > low:
                    positions = pa.array(ordinals[low:high] - batch.first)
                    documents = batch.documents[self.run.columns.content].take(positions)
                    parts.append(self.build_payload(documents))
                end = next_end
                self.progress.advance(len(batch.rows))
        return ReadDocuments(ordinals[ordinals < end], concatenate_payloads(parts), end)

    def measure_precision(self, removals: Removals, read: ReadDocuments) -> PrecisionCounts:
        """Compares removed documents with the kept document of their cluster."""
        is_read = np.maximum(removals.removed, removals.kept) < read.end
        removed = np.searchsorted(read.ordinals, removals.removed[is_read])
        kept = np.searchsorted(read.ordinals, removals.kept[is_read])
        settings = self.run.settings
        threshold = settings.threshold
        if settings.cluster != "leaders":
            threshold = settings.lowest_similarity
        scored = self.measure.compare(pack_pairs(removed, kept), as_stored(read.payload))
        return PrecisionCounts(int(scored.meets_threshold(threshold).sum()), len(removed))

    def find_similar(self, sample: np.ndarray, payload: Payload, deadline: Deadline) -> FoundPairs:
        """Finds all pairs of a sampled document, int64 (m,) ascending, that reach the threshold."""
        compare = self.create_comparison(sample, payload)
        is_first_scan = not len(self.groups)
        self.progress.stage("compare", self.documents)

        def scan_batch(batch: Batch) -> _BatchScan:
            fingerprints = None
            scope = None
            if is_first_scan:
                fingerprints = self.fingerprint(batch.documents[self.run.columns.content])
                scope = self._read_scope(batch)
            return _BatchScan(compare(batch), fingerprints, scope, len(batch.rows))

        pairs = []
        fingerprints = [np.empty((0, 2), np.uint64)]
        scopes = [PairScope.of_all_pairs(0)]
        end = 0
        batches = self.run.corpus.batches(self.run.columns)
        scans = ordered_map(scan_batch, batches, self.run.settings.workers)
        with suppress(CompilationStoppedError), COMPILATION.ends_at(deadline), closing(scans):
            for scanned in scans:
                pairs.append(scanned.pairs)
                if scanned.fingerprints is not None and scanned.scope is not None:
                    fingerprints.append(scanned.fingerprints)
                    scopes.append(scanned.scope)
                end += scanned.documents
                self.progress.advance(scanned.documents)
                if deadline.has_passed:
                    break
        if is_first_scan:
            self.scope = PairScope(
                np.concatenate([scope.blocks for scope in scopes]),
                np.concatenate([scope.sources for scope in scopes]),
            )
            if self.run.settings.across is None:
                self.groups = number_groups(np.concatenate(fingerprints))
            else:
                # Copies of different sources were compared like other documents.
                self.groups = np.arange(len(self.scope.blocks))
        return FoundPairs(concatenate_pairs(pairs), end)

    @abstractmethod
    def create_comparison(self, sample: np.ndarray, payload: Payload) -> BatchComparison:
        """Returns a function that compares a batch with the sampled documents, which ascend."""

    @abstractmethod
    def fingerprint(self, documents: pa.Array) -> np.ndarray:
        """Returns fingerprints that are equal for exact duplicates, uint64 (n, 2)."""

    def _read_scope(self, batch: Batch) -> PairScope:
        scope = PairScope.of_all_pairs(len(batch.rows))
        settings = self.run.settings
        if settings.block_by is not None:
            values = batch.documents[carried_column_name(settings.block_by)]
            blocks = block_hashes(values, settings.block_of_missing)
            scope = scope._replace(blocks=blocks)
        if settings.across is not None:
            sources = value_hashes(batch.documents[carried_column_name(settings.across)])
            scope = scope._replace(sources=sources)
        return scope

    def verified_pairs(self, ids: pa.ChunkedArray) -> PairCheck:
        """Returns a function that says whether the run verified pairs of documents.

        A pair counts as verified if the run verified any pair of documents of the two exact groups.
        """
        pairs = pq.read_table(self.run.folder / "pairs.parquet", columns=["id_a", "id_b"])
        first = pc.index_in(pairs["id_a"], ids).to_numpy().astype(np.int64)
        second = pc.index_in(pairs["id_b"], ids).to_numpy().astype(np.int64)
        # A run verifies the first documents of exact groups, which are scanned before the others.
        is_scanned = np.maximum(first, second) < len(self.groups)
        verified = np.empty(0, np.uint64)
        if is_scanned.any():
            a = self.groups[first[is_scanned]]
            b = self.groups[second[is_scanned]]
            verified = sorted_unique(pack_pairs(a, b))

        def is_verified(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return isin_sorted(pack_pairs(self.groups[a], self.groups[b]), verified)

        return is_verified


class PrefixScan(CorpusScan):
    """A scan for the Jaccard similarity.

    It compares only documents with a shingle of the prefix of a sampled document. A document that
    reaches the threshold contains at least one of these shingles, so no pair is missed.
    """

    sample_per_scan = 200

    def create_comparison(self, sample: np.ndarray, payload: Payload) -> BatchComparison:
        """Returns a function that compares a batch with the sampled documents."""
        threshold = self.run.settings.threshold
        content = self.run.columns.content
        sets = payload.columns[0]
        starts = row_starts(payload)
        prefixes = [
            sets[start : end - min_shared_shingles(end - start, threshold) + 1]
            for start, end in itertools.pairwise(starts.tolist())
        ]
        hashes = np.concatenate([np.empty(0, np.uint64), *prefixes])
        rows = np.repeat(np.arange(len(prefixes)), [len(prefix) for prefix in prefixes])
        order = np.argsort(hashes, kind="stable")
        keys = sorted_unique(hashes)
        lookup = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)
        posted = rows[order]

        def compare(batch: Batch) -> SimilarPairs:
            own = self.build_payload(batch.documents[content])
            x, y, shared, union = kernels.find_similar_pairs(
                batch.first,
                own.columns[0],
                row_starts(own),
                keys,
                *lookup,
                firsts,
                posted,
                sample,
                sets,
                starts,
                threshold,
            )
            return SimilarPairs(np.minimum(x, y), np.maximum(x, y), shared / np.maximum(union, 1))

        return compare

    def fingerprint(self, documents: pa.Array) -> np.ndarray:
        """Returns content hashes, uint64 (n, 2)."""
        out = np.empty((len(documents), 2), np.uint64)
        shingler = self.run.resources.shingler(self.run.settings.spec)
        for start, stream in iterate_streams(shingler, documents):
            end = start + len(stream.offsets) - 1
            sketch_kernels.stream_fingerprints(
                stream.hashes, stream.offsets, stream.content_symbols, out[start:end]
            )
        return out


class AllPairsScan(CorpusScan):
    """A scan for any measure, which compares each sampled document with each document."""

    sample_per_scan = 50

    def create_comparison(self, sample: np.ndarray, payload: Payload) -> BatchComparison:
        """Returns a function that compares a batch with the sampled documents."""
        threshold = self.run.settings.threshold
        content = self.run.columns.content
        sampled = len(payload.sizes)

        def compare(batch: Batch) -> SimilarPairs:
            own = self.build_payload(batch.documents[content])
            stored = as_stored(concatenate_payloads([payload, own]))
            ordinals = np.concatenate([sample, batch.first + np.arange(len(own.sizes))])
            total = sampled + len(own.sizes)
            step = max(1, PAIRS_PER_BATCH // max(sampled, 1))
            parts = []
            for start in range(sampled, total, step):
                positions = np.arange(start, min(start + step, total))
                a, b = np.meshgrid(np.arange(sampled), positions, indexing="ij")
                scored = self.measure.compare(pack_pairs(a.ravel(), b.ravel()), stored)
                near = scored.select(scored.meets_threshold(threshold))
                parts.append(_to_ordinals(near, ordinals))
            return concatenate_pairs(parts)

        return compare

    def fingerprint(self, documents: pa.Array) -> np.ndarray:
        """Returns the fingerprints of the sketcher, uint64 (n, 2)."""
        return self.measure.sketcher().sketch(documents).fingerprints


def _to_ordinals(pairs: ScoredPairs, ordinals: np.ndarray) -> SimilarPairs:
    """Returns pairs of positions as pairs of ordinals, without pairs of a document with itself."""
    a, b = unpack_pairs(pairs.pairs)
    x = ordinals[a]
    y = ordinals[b]
    differ = x != y
    return SimilarPairs(
        a=np.minimum(x, y)[differ], b=np.maximum(x, y)[differ], similarity=pairs.similarity[differ]
    )


def min_shared_shingles(size: int, threshold: float) -> int:
    """Returns ⌈t·|A|⌉, the number of shingles of A that a similar document contains at least.

    It is not increased by a rounding error of the product.

    Examples:
        >>> min_shared_shingles(5, 0.8), min_shared_shingles(100, 0.29)
        (4, 29)
    """
    return math.ceil(threshold * size - 1e-9)
