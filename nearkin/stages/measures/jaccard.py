"""The Jaccard similarity of shingle sets and of multisets, with MinHash signatures."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.curve import truncated_collision
from nearkin.stages.lsh.slot_bands import Banding, fixed_banding, solve_banding
from nearkin.stages.measures.base import (
    BandingRequest,
    Payload,
    PayloadBuilder,
    StoredPayloads,
)
from nearkin.stages.measures.weighted_shingles import WeightedPayloads, WeightedShingleComparison
from nearkin.stages.packed_pairs import ScoredPairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.shingle import Shingler
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketcher
from nearkin.stages.verify import all_pairs
from nearkin.stages.verify.jaccard import SetBuilder, compare_sets
from nearkin.stages.verify.weighted import (
    DEFAULT_MEMORY,
    WeightedBuilder,
    WeightedSetBuilder,
    WeightedSets,
)


@dataclass(frozen=True)
class SlotEstimator:
    """The estimator of MinHash slots, whole or truncated to b bits.

    Attributes:
        spec: Spec of the signatures.
    """

    spec: Spec

    @property
    def chance_agreement(self) -> float:
        """The probability 2^−b that the kept bits of different slots agree; 0 for whole slots."""
        return 2.0**-self.spec.slot_bits if self.spec.truncated else 0.0

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        """Returns the similarity, with which whole slots agree."""
        return similarity

    def expected_agreements(self, similarity: float) -> float:
        """Returns the expected number of agreeing slots."""
        return self.spec.k * self._agreement_probability(similarity)

    def _agreement_probability(self, similarity: float) -> float:
        if not self.spec.truncated:
            return similarity
        return truncated_collision(similarity, self.spec.slot_bits)

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """Estimates Ĵ = (Ê − 2^−b) / (1 − 2^−b), where Ê is the share of agreeing slots.

        The estimate is unbiased (Li, König 2010).

        Args:
            pairs: Packed pairs, uint64 (m,).
            agreeing: Number of agreeing slots of each pair, int64 (m,).
        """
        k = self.spec.k
        chance = self.chance_agreement
        # Both numbers are exact in binary, so that only their quotient is rounded.
        union = np.full(len(pairs), (1 - chance) * k)
        return ScoredPairs(pairs, np.maximum(agreeing - chance * k, 0.0), union)

    def standard_error(self, similarity: float) -> float:
        """Returns √(E(1 − E)/k) / (1 − 2^−b), where E = J + (1 − J)·2^−b.

        Examples:
            >>> errors = [SlotEstimator(Spec(slot_bits=b)).standard_error(0.8) for b in (32, 4, 1)]
            >>> [round(error, 4) for error in errors]
            [0.0354, 0.0368, 0.053]
        """
        chance = self.chance_agreement
        agreement = self._agreement_probability(similarity)
        return math.sqrt(agreement * (1 - agreement) / self.spec.k) / (1 - chance)

    def hamming_distances(self, similarity: np.ndarray) -> None:
        """Returns None: slots do not have a Hamming distance."""
        return


@dataclass(frozen=True)
class _MinHashMeasure:
    """The common part of the measures with MinHash signatures."""

    spec: Spec
    resources: SpecResources = NO_RESOURCES

    @cached_property
    def estimator(self) -> SlotEstimator:
        return SlotEstimator(self.spec)

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> Sketcher:
        return Sketcher(self.spec, self.resources, key_builder)

    def banding(self, request: BandingRequest) -> Banding:
        k = self.spec.k
        threshold = request.threshold
        recall = request.recall
        probes = request.probes
        slot_bits = self.spec.slot_bits if self.spec.truncated else None
        if probes and self.spec.truncated:
            raise UsageError(
                f"b-bit signatures cannot be probed "
                f"({name_setting('slot_bits', self.spec.slot_bits)}, "
                f"{name_setting('probes', probes)}); omit {name_setting('probes')} or use "
                f"{name_setting('slot_bits', 32)}"
            )
        if request.bands is not None and request.rows is not None:
            bands = request.bands * request.tables
            return fixed_banding(threshold, recall, k, bands, request.rows, probes, slot_bits)
        return solve_banding(threshold, recall, k, request.tables, probes, slot_bits)


class _SetPayloads:
    def __init__(self, shingler: Shingler) -> None:
        self._builder = SetBuilder(shingler)

    def build(self, documents: pa.Array) -> Payload:
        sets = self._builder.build(documents)
        return Payload(sets.sizes, (sets.hashes,))


@dataclass(frozen=True)
class Jaccard(_MinHashMeasure):
    """The similarity |A ∩ B| / |A ∪ B| of shingle sets (Broder 1997)."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None),)

    def payload_builder(self) -> PayloadBuilder:
        return _SetPayloads(self.resources.shingler(self.spec))

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Computes |A ∩ B| and |A ∪ B| of pairs, as described in `Measure`."""
        return compare_sets(pairs, stored.place, stored.starts, stored.columns[0])

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair that reaches the threshold, as described in `Measure`."""
        sets = WeightedSets(payload.columns[0], np.empty(0), payload.sizes)
        return all_pairs.compare_all(
            sets, scope, threshold, product=False, workers=workers, memory=memory
        )


@dataclass(frozen=True)
class WeightedJaccard(WeightedShingleComparison, _MinHashMeasure):
    """The similarity Σ min(aᵢ, bᵢ) / Σ max(aᵢ, bᵢ) of multisets of shingles.

    The i-th occurrence of a shingle is a separate element, so slots agree with exactly this
    probability: consistent sampling of integer weights (Haveliwala, Gionis, Indyk, WebDB 2000).
    """

    by_product = False

    def payload_builder(self) -> PayloadBuilder:
        return WeightedPayloads(WeightedBuilder(self.resources.shingler(self.spec)))


@dataclass(frozen=True)
class IdfJaccard(WeightedShingleComparison, _MinHashMeasure):
    """The similarity Σ w(A ∩ B) / Σ w(A ∪ B) of shingle sets.

    The weight w of a shingle is its inverse document frequency. Slots agree with exactly this
    probability, see `nearkin.stages.sketch.darts`.
    """

    by_product = False

    def payload_builder(self) -> PayloadBuilder:
        frequencies = self.resources.weights(self.spec)
        assert frequencies is not None
        builder = WeightedSetBuilder(self.resources.shingler(self.spec), frequencies.weights_of)
        return WeightedPayloads(builder)
