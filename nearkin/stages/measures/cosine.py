"""The cosine of weighted shingles (SimHash) and of vectors, with signatures of signs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.curve import sign_collision
from nearkin.stages.lsh.sign_bands import fixed_sign_banding, solve_sign_banding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.base import (
    BandingRequest,
    DocumentSketcher,
    Payload,
    PayloadBuilder,
    StoredPayloads,
)
from nearkin.stages.measures.weighted_shingles import WeightedPayloads, WeightedShingleComparison
from nearkin.stages.packed_pairs import ScoredPairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.sketch.hyperplanes import VectorSketcher, matrix_of
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketcher
from nearkin.stages.verify import cosine as vectors
from nearkin.stages.verify.weighted import DEFAULT_MEMORY, WeightedBuilder


@dataclass(frozen=True)
class SignEstimator:
    """The estimator of signs: two vectors at angle θ agree in a sign with probability 1 − θ/π.

    Attributes:
        spec: Spec of the signatures.
    """

    spec: Spec

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        """Returns 1 − θ/π (Charikar 2002)."""
        return np.asarray(1 - np.arccos(np.clip(similarity, -1, 1)) / np.pi)

    def expected_agreements(self, similarity: float) -> float:
        """Returns the expected number of agreeing bits."""
        return self.spec.k * sign_collision(similarity)

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """Estimates cos(π·D/f), where D is the Hamming distance of f bits.

        The estimate at 60° is exactly 1/2. This is the only angle whose cosine can be a decimal
        threshold.

        Args:
            pairs: Packed pairs, uint64 (m,).
            agreeing: Number of agreeing bits of each pair, int64 (m,).
        """
        cosine = np.cos(np.pi * (1 - agreeing / self.spec.k))
        cosine[3 * agreeing == 2 * self.spec.k] = 0.5
        return ScoredPairs(pairs, cosine, np.ones(len(pairs)))

    def standard_error(self, similarity: float) -> float:
        """Returns π·sin(θ)·√(p(1 − p)/k), where p is the probability that a bit agrees."""
        p = sign_collision(similarity)
        return math.pi * math.sin(math.pi * (1 - p)) * math.sqrt(p * (1 - p) / self.spec.k)

    def hamming_distances(self, similarity: np.ndarray) -> None:
        """Returns None: the similarity is a cosine."""
        return


@dataclass(frozen=True)
class _SignMeasure:
    """The common part of the measures with signatures of signs."""

    spec: Spec
    resources: SpecResources = NO_RESOURCES

    @cached_property
    def estimator(self) -> SignEstimator:
        return SignEstimator(self.spec)

    def banding(self, request: BandingRequest) -> Banding:
        if request.tables != 1 or request.probes:
            raise UsageError(
                f"{name_setting('tables', request.tables)} and "
                f"{name_setting('probes', request.probes)} are only for MinHash; omit "
                f"them for measure {self.spec.measure}, which has as many tables as it needs"
            )
        threshold = request.threshold
        recall = request.recall
        if request.bands is None or request.rows is None:
            return solve_sign_banding(threshold, recall, self.spec.k, request.documents)
        return fixed_sign_banding(
            threshold, recall, self.spec.k, request.documents, request.bands, request.rows
        )


@dataclass(frozen=True)
class SimHash(WeightedShingleComparison, _SignMeasure):
    """The cosine of weighted shingle vectors."""

    by_product = True

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        if self.spec.weights == "given":
            raise UsageError(
                f"documents cannot be sketched with {name_setting('weights', 'given')}; use 'tf' "
                f"or 'tfidf', or "
                "nk.simhash for features with weights"
            )
        return Sketcher(self.spec, self.resources)

    def payload_builder(self) -> PayloadBuilder:
        frequencies = self.resources.weights(self.spec)
        weights_of = None if frequencies is None else frequencies.weights_of
        return WeightedPayloads(WeightedBuilder(self.resources.shingler(self.spec), weights_of))


class _VectorPayloads:
    def build(self, documents: pa.Array) -> Payload:
        return Payload(np.ones(len(documents), np.int64), (matrix_of(documents),))


@dataclass(frozen=True)
class Cosine(_SignMeasure):
    """The cosine of float32 vectors."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.float32, self.spec.n),)

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        return VectorSketcher(self.spec, self.resources.secret)

    def payload_builder(self) -> PayloadBuilder:
        return _VectorPayloads()

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Computes the cosine of the vectors of pairs, as described in `Measure`."""
        return vectors.compare_vectors(pairs, stored.place, stored.columns[0])

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair that reaches the threshold, as described in `Measure`."""
        return vectors.compare_all(payload.columns[0], scope, threshold, workers)
