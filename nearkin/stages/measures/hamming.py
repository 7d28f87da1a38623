"""The Hamming similarity of signatures of signs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import (
    EVERY_LATER,
    NEVER_HOT,
    SourceBuckets,
    sign_layout,
    split_buckets,
)
from nearkin.stages.lsh.sign_bands import block_banding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.base import (
    BandingRequest,
    DocumentSketcher,
    Payload,
    PayloadBuilder,
    StoredPayloads,
)
from nearkin.stages.measures.cosine import Cosine, SimHash
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, ScoredPairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.sketch.given_fingerprints import FingerprintSketcher
from nearkin.stages.sketch.sketcher import BandKeyBuilder
from nearkin.stages.verify.weighted import DEFAULT_MEMORY


@dataclass(frozen=True)
class HammingEstimator:
    """The estimator of the Hamming similarity. It is exact, because signatures are compared.

    Attributes:
        spec: Spec of the signatures.
    """

    spec: Spec

    def slot_collision_probability(self, similarity: np.ndarray) -> np.ndarray:
        """Returns the similarity, which is the share of agreeing bits."""
        return similarity

    def expected_agreements(self, similarity: float) -> float:
        """Returns the number of agreeing bits."""
        return self.spec.k * similarity

    def estimate(self, pairs: np.ndarray, agreeing: np.ndarray) -> ScoredPairs:
        """Computes the share of agreeing bits.

        Args:
            pairs: Packed pairs, uint64 (m,).
            agreeing: Number of agreeing bits of each pair, int64 (m,).

        Returns:
            The pairs with the number of agreeing bits and the number of bits.
        """
        bits = np.full(len(pairs), float(self.spec.k))
        return ScoredPairs(pairs, agreeing.astype(np.float64), bits)

    def standard_error(self, similarity: float) -> float:
        """Returns 0, because the similarity is exact."""
        return 0.0

    def hamming_distances(self, similarity: np.ndarray) -> np.ndarray:
        """Returns the Hamming distances, int64."""
        return np.rint((1 - similarity) * self.spec.k).astype(np.int64)


class _SignaturePayloads:
    def __init__(self, sketcher: DocumentSketcher) -> None:
        self._sketcher = sketcher

    def build(self, documents: pa.Array) -> Payload:
        signatures = self._sketcher.sketch(documents).signatures
        return Payload(np.ones(len(documents), np.int64), (signatures,))


@dataclass(frozen=True)
class GivenFingerprints:
    """Signatures that are given, and not made.

    Attributes:
        spec: Spec of the signatures.
    """

    spec: Spec

    def sketcher(self) -> DocumentSketcher:
        """Returns a new sketcher, which reads fingerprints."""
        return FingerprintSketcher(self.spec)


@dataclass(frozen=True)
class Hamming:
    """The similarity 1 − D/f of signatures, where D is the Hamming distance of f bits.

    Attributes:
        signs: Measure that defines the signatures.
        max_distance: Maximum Hamming distance of near-duplicates.
    """

    signs: SimHash | Cosine | GivenFingerprints
    max_distance: int

    @property
    def spec(self) -> Spec:
        return self.signs.spec

    @cached_property
    def estimator(self) -> HammingEstimator:
        return HammingEstimator(self.spec)

    @property
    def column_types(self) -> tuple[tuple[type[np.generic], int | None], ...]:
        return ((np.uint64, self.spec.signature_width),)

    def sketcher(self, key_builder: BandKeyBuilder | None = None) -> DocumentSketcher:
        return self.signs.sketcher()

    def payload_builder(self) -> PayloadBuilder:
        return _SignaturePayloads(self.signs.sketcher())

    def compare(self, pairs: np.ndarray, stored: StoredPayloads) -> ScoredPairs:
        """Computes the share of agreeing bits of pairs, as described in `Measure`."""
        a, b = unpack_pairs(pairs)
        signatures = stored.columns[0]
        differing = signatures[stored.place[a]] ^ signatures[stored.place[b]]
        distances = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
        return self.estimator.estimate(pairs, self.spec.k - distances)

    def compare_all(
        self,
        payload: Payload,
        scope: PairScope,
        threshold: float,
        workers: int,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[ScoredPairs]:
        """Yields every pair that reaches the threshold, as described in `Measure`."""
        words = payload.columns[0]
        n = len(words)
        # All documents are one bucket of one band without bits.
        band_layout = sign_layout(np.zeros((0, words.shape[1]), np.uint64))
        ordinals = np.arange(n, dtype=np.uint64)
        starts = np.zeros(1, np.int64)
        ends = np.full(1, n)
        partners = EVERY_LATER
        portions = split_buckets(starts, ends, PAIRS_PER_BATCH)
        if len(scope.sources):
            buckets = SourceBuckets.order(ordinals, starts, ends, scope.sources)
            partners = buckets.partners
            portions = buckets.split(starts, ends, PAIRS_PER_BATCH)
        histogram = np.zeros(self.spec.k + 1, np.int64)
        stored = StoredPayloads(np.arange(n, dtype=np.uint32), np.arange(n + 1), payload.columns)
        for rows in portions:
            out = np.empty(rows.pairs, np.uint64)
            count = kernels.bucket_pairs(
                ordinals,
                rows.starts,
                rows.stops,
                rows.ends,
                partners,
                words,
                NEVER_HOT,
                0,
                band_layout.layout,
                band_layout.masks_or_keys,
                self.spec.k - self.max_distance,
                histogram,
                out,
            )
            pairs = np.sort(out[:count])
            scored = self.compare(pairs[scope.allows_packed(pairs)], stored)
            yield scored.select(scored.meets_threshold(threshold))

    def banding(self, request: BandingRequest) -> Banding:
        if request.bands is not None or request.tables != 1 or request.probes:
            raise UsageError(
                f"{name_setting('distance', self.max_distance)} chooses its own tables, so that it "
                f"finds every pair; omit {name_setting('bands')}, {name_setting('rows')}, "
                f"{name_setting('tables')} and {name_setting('probes')}"
            )
        return block_banding(self.spec.k, self.max_distance, max(request.documents, 1))
