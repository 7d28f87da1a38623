"""Jaccard similarity of shingle sets, and of multisets, by MinHash; whole slots or their lowest bits."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.lsh.band_keys import BandLayout, slot_layout, truncated_layout
from nearkin.lsh.slot_bands import Banding, fixed_banding, solve_banding
from nearkin.lsh.solve import prefilter_margin
from nearkin.measures.base import Payload, PayloadBuilder, Request, Stored, WeightedPayloads
from nearkin.packed_pairs import ScoredPairs
from nearkin.shingle import Shingler
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.sketch.sketcher import BandKeyBuilder, Sketcher
from nearkin.spec import Spec
from nearkin.verify import weighted
from nearkin.verify.jaccard import SetBuilder, overlaps
from nearkin.verify.weighted import MEMORY, WeightedBuilder, WeightedSets


class _SetPayloads:
    def __init__(self, shingler: Shingler) -> None:
        self._builder = SetBuilder(shingler)

    def build(self, documents: pa.Array) -> Payload:
        sets = self._builder.sets(documents)
        return Payload(sets.sizes, (sets.hashes,))


@dataclass(frozen=True)
class _MinHash:
    """What signatures of slots share, whatever fell into them."""

    spec: Spec
    resources: SpecResources = NO_RESOURCES

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> Sketcher:
        return Sketcher(self.spec, self.resources, key_builder)

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        return similarity

    @property
    def chance(self) -> float:
        """That the lowest bits of slots which differ are the same: 2^−b; 0 for whole slots."""
        return 2.0**-self.spec.slot_bits if self.spec.truncated else 0.0

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """Ĵ = (Ê − 2^−b) / (1 − 2^−b), Ê the share of agreeing slots; unbiased (Li, König 2010)."""
        # both are exact in binary, so that their quotient is rounded once
        joint = np.full(len(pairs), (1 - self.chance) * self.spec.k)
        return ScoredPairs(pairs, np.maximum(agreeing - self.chance * self.spec.k, 0.0), joint)

    def expected_agreements(self, similarity: float) -> float:
        return self.spec.k * (similarity * (1 - self.chance) + self.chance)

    def banding(self, request: Request) -> Banding:
        k = self.spec.k
        if request.probes and self.spec.truncated:
            raise UsageError("b-bit signatures are not probed: leave out --probes, or keep whole slots")
        if request.bands is not None and request.rows is not None:
            bands = request.bands * request.tables
            found = fixed_banding(request.threshold, request.recall, k, bands, request.rows, request.probes)
        else:
            found = solve_banding(request.threshold, request.recall, k, request.tables, request.probes)
        return found if self.chance == 0 else self._with_margin(found, request)

    def _with_margin(self, banding: Banding, request: Request) -> Banding:
        """The margin of cut slots: they agree with probability J + (1 − J)·2^−b."""
        agreeing = self.expected_agreements(request.threshold) / self.spec.k
        margin = prefilter_margin(self.spec.k, agreeing, request.recall, banding.candidate_recall)
        return replace(banding, margin=margin)

    def band_layout(self, banding: Banding, keys: np.ndarray | None) -> BandLayout:
        if not self.spec.truncated:
            return slot_layout(banding.rows)
        assert keys is not None
        return truncated_layout(self.spec.k, self.spec.slot_bits, keys)

    def distance(self, similarity: np.ndarray) -> None:
        return None

    def standard_error(self, similarity: float) -> float:
        """Of the estimate: √(E(1 − E)/k) / (1 − 2^−b) with E = J + (1 − J)·2^−b.

        Examples:
            >>> [round(Jaccard(Spec(slot_bits=b)).standard_error(0.8), 4) for b in (32, 8, 4, 2, 1)]
            [0.0354, 0.0354, 0.0368, 0.0421, 0.053]
        """
        agreeing = similarity + (1 - similarity) * self.chance
        return math.sqrt(agreeing * (1 - agreeing) / self.spec.k) / (1 - self.chance)


@dataclass(frozen=True)
class Jaccard(_MinHash):
    """|A ∩ B| / |A ∪ B| of shingle sets (Broder 1997)."""

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None),)

    def payload_builder(self) -> PayloadBuilder:
        return _SetPayloads(self.resources.shingler(self.spec))

    def compare(self, pairs: np.ndarray, stored: Stored) -> ScoredPairs:
        return overlaps(pairs, stored.place, stored.starts, *stored.columns)

    def compare_all(
        self,
        payload: Payload,
        blocks: np.ndarray,
        threshold: float,
        workers: int,
        memory: int = MEMORY,
    ) -> Iterator[ScoredPairs]:
        hashes = payload.columns[0]
        sets = WeightedSets(hashes, np.empty(0), payload.sizes)
        return weighted.compare_all(sets, blocks, threshold, False, workers, memory)


@dataclass(frozen=True)
class WeightedJaccard(_MinHash):
    """Σ min(aᵢ, bᵢ) / Σ max(aᵢ, bᵢ) over how often each shingle occurs.

    The i-th occurrence of a shingle is an element of its own, so slots agree with exactly that probability: consistent sampling
    of whole-numbered weights (Haveliwala, Gionis, Indyk, WebDB 2000).
    """

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None), (np.float64, None))

    def payload_builder(self) -> PayloadBuilder:
        return WeightedPayloads(WeightedBuilder(self.resources.shingler(self.spec)))

    def compare(self, pairs: np.ndarray, stored: Stored) -> ScoredPairs:
        sets = WeightedSets.of(stored.columns, np.diff(stored.starts))
        return weighted.compare(pairs, stored.place, stored.starts, sets, product=False)

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
            False,
            workers,
            memory,
        )
