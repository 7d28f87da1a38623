"""The candidates that documents are expected to have, from which all costs of a plan follow.

A candidate of a document is another one that shares a band key with it. Estimates drop most of
those that are far below the threshold, and the others are verified. Near-duplicates are counted as
the share of duplicates says, and other pairs as their similarities say: those of unrelated texts,
or those of a corpus.
"""

from math import ceil, exp
from typing import NamedTuple

import numpy as np

from nearkin.engine.banding import ROUNDING
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.tune import candidate_probabilities
from nearkin.settings.choices import Verify
from nearkin.stages.lsh.curve import pass_probability
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure


class ExpectedPairs(NamedTuple):
    """The expected pairs of a document. A pair counts at both of its documents."""

    by_chance: float
    """The number of pairs below the threshold."""
    near: float
    """The number of pairs of near-duplicates."""

    @property
    def total(self) -> float:
        """The number of all pairs of a document."""
        return self.by_chance + self.near

    @property
    def precision(self) -> float:
        """The share of the pairs that are near-duplicates. 1 without pairs."""
        return self.near / self.total if self.total else 1.0

    def of_documents(self, documents: float) -> float:
        """Returns the number of pairs of so many documents, each counted once."""
        return documents * self.total / 2


class ExpectedCandidates(NamedTuple):
    """The candidates that a document is expected to have."""

    candidates: ExpectedPairs
    """The pairs that share a band key, whose signatures are compared."""
    verified: ExpectedPairs
    """Those whose estimate passes the prefilter, which are compared exactly."""
    reported: ExpectedPairs
    """Those that are reported."""
    source: str
    """Origin of the similarities, in words."""

    @property
    def verified_share(self) -> float:
        """The share of the documents that are in a verified pair."""
        return 1 - (1 - min(self.verified.near, 1.0)) * exp(-self.verified.by_chance)


class CandidateModel(NamedTuple):
    """A model of the pairs of a corpus, from which expected candidates follow."""

    distribution: Distribution
    """The similarities of the pairs of the corpus, or of unrelated documents."""
    threshold: float
    """The smallest similarity of near-duplicates."""
    near: float
    """The number of near-duplicates of a document."""
    verify: str = Verify.EXACT
    """The verification of candidates."""

    @classmethod
    def create(
        cls, distribution: Distribution, threshold: float, duplicates: float | None, verify: str
    ) -> "CandidateModel":
        """Returns a model."""
        near = distribution.count_pairs(threshold)
        # Each duplicate is in a pair at least.
        return cls(distribution, threshold, near if duplicates is None else 2 * duplicates, verify)

    def expect(
        self, measure: Measure, banding: Banding, others: float, near: float | None = None
    ) -> ExpectedCandidates:
        """Returns the expected candidates of a document."""
        distribution = self.distribution
        is_below = distribution.similarities < self.threshold
        similarities = np.append(distribution.similarities[is_below], self.threshold)
        factor = others / max(distribution.documents - 1, 1)
        near = self.near if near is None else near
        pairs = np.append(distribution.pairs[is_below] * factor, near)
        candidates = pairs * candidate_probabilities(measure, banding, similarities)
        passing = _pass_probabilities(measure, banding, similarities, candidates, banding.margin)
        verified = candidates * passing
        reported = verified.copy()
        if self.verify == Verify.EXACT:
            reported[:-1] = 0.0
        if self.verify == Verify.ESTIMATE:
            least = ceil(measure.estimator.expected_agreements(self.threshold) - ROUNDING)
            reported = candidates * _pass_probabilities(
                measure, banding, similarities, candidates, max(least, banding.margin)
            )
        if self.verify == Verify.NONE:
            verified = candidates
            reported = candidates
        return ExpectedCandidates(
            candidates=_split_pairs(candidates),
            verified=_split_pairs(verified),
            reported=_split_pairs(reported),
            source=distribution.source,
        )


def _split_pairs(pairs: np.ndarray) -> ExpectedPairs:
    """Returns the pairs below the threshold, and those at it, which are the last."""
    return ExpectedPairs(float(pairs[:-1].sum()), float(pairs[-1]))


def _pass_probabilities(
    measure: Measure,
    banding: Banding,
    similarities: np.ndarray,
    candidates: np.ndarray,
    agreements: int,
) -> np.ndarray:
    """Returns the probability that an estimate passes, at each similarity with candidates."""
    collisions = np.asarray(measure.estimator.slot_collision_probability(similarities))
    return np.array(
        [
            pass_probability(banding.k, agreements, banding.agreement_probability(float(collision)))
            if count > 0 and collision > 0
            else 0.0
            for collision, count in zip(collisions.reshape(-1), candidates, strict=True)
        ]
    )
