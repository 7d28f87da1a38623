"""The exact comparison of multisets of shingles, which two measures share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from nearkin.stages.measures.base import Payload, StoredPayloads
from nearkin.stages.packed_pairs import ScoredPairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.verify import all_pairs, weighted
from nearkin.stages.verify.weighted import (
    DEFAULT_MEMORY,
    WeightedBuilder,
    WeightedSetBuilder,
    WeightedSets,
)


class WeightedPayloads:
    """A builder of payloads of weighted shingles: hashes and weights."""

    def __init__(self, builder: WeightedBuilder | WeightedSetBuilder) -> None:
        self._builder = builder

    def build(self, documents: pa.Array) -> Payload:
        """Returns the shingle hashes and weights of a batch of documents."""
        sets = self._builder.build(documents)
        return Payload(sets.sizes, (sets.hashes, sets.weights))


@dataclass(frozen=True)
class WeightedShingleComparison:
    """The comparison of multisets: by products, or by minima and maxima, of the weights.

    Attributes:
        by_product: Whether pairs get the dot product and √(|a|²·|b|²), as the cosine needs.
            Otherwise they get Σ min(aᵢ, bᵢ) and Σ max(aᵢ, bᵢ).
    """

    by_product: ClassVar[bool]

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, None), (np.float64, None))

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Computes the numerator and the denominator of pairs, as described in `Measure`."""
        sets = WeightedSets.of(stored.columns, np.diff(stored.starts))
        return weighted.compare_weighted(
            pairs, stored.place, stored.starts, sets, product=self.by_product
        )

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair that reaches the threshold, as described in `Measure`."""
        sets = WeightedSets.of(payload.columns, payload.sizes)
        return all_pairs.compare_all(
            sets, scope, threshold, product=self.by_product, workers=workers, memory=memory
        )
