"""Cosine by signs: weighted shingles (SimHash) and vectors (random hyperplanes); or plain Hamming distance."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.lsh import kernels as lsh
from nearkin.lsh.band_keys import BandLayout, sign_layout
from nearkin.lsh.curve import sign_collision
from nearkin.lsh.sign_bands import (
    SignBanding,
    block_banding,
    fixed_sign_banding,
    solve_sign_banding,
)
from nearkin.lsh.slot_bands import Banding
from nearkin.measures.base import (
    DocumentSketcher,
    Payload,
    PayloadBuilder,
    Request,
    Stored,
    WeightedPayloads,
)
from nearkin.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, unpack_pairs
from nearkin.sketch.hyperplanes import VectorSketcher, matrix_of
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.sketch.sketcher import BandKeyBuilder, Sketcher
from nearkin.spec import Spec
from nearkin.verify import cosine as vectors
from nearkin.verify import weighted
from nearkin.verify.weighted import MEMORY, WeightedBuilder, WeightedSets


class _VectorPayloads:
    def build(self, documents: pa.Array) -> Payload:
        return Payload(np.ones(len(documents), np.int64), (matrix_of(documents),))


@dataclass(frozen=True)
class _Signs:
    """What signatures of signs share, whatever was projected."""

    spec: Spec
    resources: SpecResources = NO_RESOURCES

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        """1 − θ/π (Charikar 2002)."""
        return np.asarray(1 - np.arccos(np.clip(similarity, -1, 1)) / np.pi)

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """cos(π·D/f), D the Hamming distance; exactly 1/2 at 60°, the one angle whose cosine can be a threshold of decimals."""
        cosine = np.cos(np.pi * (1 - agreeing / self.spec.k))
        cosine[3 * agreeing == 2 * self.spec.k] = 0.5
        return ScoredPairs(pairs, cosine, np.ones(len(pairs)))

    def expected_agreements(self, similarity: float) -> float:
        return self.spec.k * sign_collision(similarity)

    def standard_error(self, similarity: float) -> float:
        """π·sin(θ)·√(p(1 − p)/k), p the chance that a bit agrees: how far cos moves with the share of agreeing bits."""
        p = sign_collision(similarity)
        return math.pi * math.sin(math.pi * (1 - p)) * math.sqrt(p * (1 - p) / self.spec.k)

    def banding(self, request: Request) -> Banding:
        if request.tables != 1 or request.probes:
            raise UsageError("tables= and probes= are of MinHash: signs take as many tables as the recall needs")
        if request.bands is not None and request.rows is not None:
            sizes = (self.spec.k, request.documents, request.bands, request.rows)
            return fixed_sign_banding(request.threshold, request.recall, *sizes)
        return solve_sign_banding(request.threshold, request.recall, self.spec.k, request.documents)

    def band_layout(self, banding: Banding, keys: np.ndarray | None) -> BandLayout:
        assert isinstance(banding, SignBanding)
        return banding.band_layout

    def distance(self, similarity: np.ndarray) -> np.ndarray | None:
        return None


@dataclass(frozen=True)
class SimHash(_Signs):
    """Cosine of weighted shingle vectors."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None), (np.float64, None))

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        if self.spec.weights == "given":
            raise UsageError(
                "documents are weighted by tf or tfidf; signatures of features with weights given are nk.simhash's"
            )
        return Sketcher(self.spec, self.resources)

    def payload_builder(self) -> PayloadBuilder:
        frequencies = self.resources.weights(self.spec)
        weights_of = None if frequencies is None else frequencies.weights_of
        return WeightedPayloads(WeightedBuilder(self.resources.shingler(self.spec), weights_of))

    def compare(self, pairs: np.ndarray, stored: Stored) -> ScoredPairs:
        sets = WeightedSets.of(stored.columns, np.diff(stored.starts))
        return weighted.compare(pairs, stored.place, stored.starts, sets, product=True)

    def compare_all(
        self,
        payload: Payload,
        blocks: np.ndarray,
        threshold: float,
        workers: int,
        memory: int = MEMORY,
    ) -> Iterator[ScoredPairs]:
        return weighted.compare_all(
            WeightedSets.of(payload.columns, payload.sizes),
            blocks,
            threshold,
            True,
            workers,
            memory,
        )


@dataclass(frozen=True)
class Cosine(_Signs):
    """Cosine of float32 vectors."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.float32, self.spec.n),)

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        return VectorSketcher(self.spec, self.resources.secret)

    def payload_builder(self) -> PayloadBuilder:
        return _VectorPayloads()

    def compare(self, pairs: np.ndarray, stored: Stored) -> ScoredPairs:
        return vectors.compare(pairs, stored.place, *stored.columns)

    def compare_all(
        self,
        payload: Payload,
        blocks: np.ndarray,
        threshold: float,
        workers: int,
        memory: int = MEMORY,
    ) -> Iterator[ScoredPairs]:
        return vectors.compare_all(payload.columns[0], blocks, threshold, workers)


class _SignaturePayloads:
    def __init__(self, sketcher: DocumentSketcher) -> None:
        self._sketcher = sketcher

    def build(self, documents: pa.Array) -> Payload:
        return Payload(np.ones(len(documents), np.int64), (self._sketcher.sketch(documents).signatures,))


@dataclass(frozen=True)
class Hamming:
    """1 − D/f of the signatures themselves: nothing but them is compared, so the estimate is exact.

    Attributes:
        signs: The measure that the signatures are of.
        most: Distance up to which two documents are near-duplicates.
    """

    signs: SimHash | Cosine
    most: int

    @property
    def spec(self) -> Spec:
        return self.signs.spec

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, self.spec.signature_width),)

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        return self.signs.sketcher()

    def payload_builder(self) -> PayloadBuilder:
        return _SignaturePayloads(self.signs.sketcher())

    def standard_error(self, similarity: float) -> float:
        """None: the signatures are what is compared."""
        return 0.0

    def compare(self, pairs: np.ndarray, stored: Stored) -> ScoredPairs:
        a, b = unpack_pairs(pairs)
        signatures = stored.columns[0]
        different = np.bitwise_count(signatures[stored.place[a]] ^ signatures[stored.place[b]]).sum(axis=1, dtype=np.int64)
        return self.estimate(pairs, self.spec.k - different)

    def compare_all(
        self,
        payload: Payload,
        blocks: np.ndarray,
        threshold: float,
        workers: int,
        memory: int = MEMORY,
    ) -> Iterator[ScoredPairs]:
        words = payload.columns[0]
        band_layout = sign_layout(np.zeros((0, words.shape[1]), np.uint64))
        n = len(words)
        starts, ends = np.zeros(1, np.int64), np.full(1, n, np.int64)
        out, histogram = np.empty(n * (n - 1) // 2, np.uint64), np.zeros(self.spec.k + 1, np.int64)
        never, everyone = np.zeros(n, bool), np.arange(n, dtype=np.uint64)
        margin = self.spec.k - self.most
        count = lsh.bucket_pairs(everyone, starts, ends, words, never, 0, *band_layout, margin, histogram, out)
        pairs = np.sort(out[:count])
        place = np.arange(n, dtype=np.uint32)
        stored = Stored(place, np.arange(n + 1), payload.columns)
        for start in range(0, count, PAIRS_PER_BATCH):
            some = pairs[start : start + PAIRS_PER_BATCH]
            a, b = unpack_pairs(some)
            found = self.compare(some[blocks[a] == blocks[b]], stored)
            yield found.select(found.meets_threshold(threshold))

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        return similarity

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        return ScoredPairs(pairs, agreeing.astype(np.float64), np.full(len(pairs), float(self.spec.k)))

    def expected_agreements(self, similarity: float) -> float:
        return self.spec.k * similarity

    def banding(self, request: Request) -> Banding:
        if request.bands is not None or request.tables != 1 or request.probes:
            raise UsageError("--distance finds every pair by its own tables; leave out --bands, --rows, --tables and --probes")
        return block_banding(self.spec.k, self.most, max(request.documents, 1))

    def band_layout(self, banding: Banding, keys: np.ndarray | None) -> BandLayout:
        return self.signs.band_layout(banding, keys)

    def distance(self, similarity: np.ndarray) -> np.ndarray | None:
        return np.rint((1 - similarity) * self.spec.k).astype(np.int64)
