"""A sample of the similar pairs of many documents, found by locality-sensitive hashing.

Duplicates that are rare in a corpus are not in a sample of its documents: of 40 pairs of duplicates
among 20,000 documents, 3,000 documents have one. So pairs are sought among all documents that are
read. Bands of a few slots find pairs of low similarity, by several definitions. Of the pairs of
each similarity, as many are drawn, with known probabilities. The weight of a drawn pair is the
inverse of its probability, so that sums over the sample estimate sums over all found pairs
(Horvitz, Thompson, *A generalization of sampling without replacement from a finite universe*,
JASA 1952).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.stages.lsh.band_keys import slot_band_keys
from nearkin.stages.packed_pairs import pack_pairs, sorted_unique, unpack_pairs
from nearkin.stages.sketch.sketcher import Sketches

BANDS = 32
ROWS = 3
"""The bands of the search. They find 58 % of the pairs at a similarity of 0.3, and 99 % at 0.5."""
NEIGHBOURS = 2
"""The number of documents of a bucket with which a document is compared. A bucket of n documents
has at most 2n pairs, so that the work does not grow with its square."""
LEAST_ESTIMATE = 0.3
"""The estimated similarity from which a pair is listed."""
STRATA = 20
"""The number of ranges of equal width into which similarities are divided."""
PAIRS_PER_STRATUM = 60
"""The number of pairs that are drawn from each range by each definition, on average."""
PAIRS_AT_ONCE = 1 << 16
"""The number of pairs whose similarity is estimated at a time."""


class SimilarPairs(NamedTuple):
    """Pairs that were found by locality-sensitive hashing, of which some were drawn."""

    listed: np.ndarray
    """uint64 (m,): All found pairs, packed, in ascending order."""
    drawn: np.ndarray
    """uint64 (s,): The drawn pairs, packed, in ascending order."""
    weights: np.ndarray
    """float64 (s,): The number of found pairs for which each drawn pair stands."""

    @classmethod
    def empty(cls) -> "SimilarPairs":
        """Returns no pairs."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0))


def find_similar_pairs(
    scorer: DocumentScorer, definitions: Sequence[Definition], rng: np.random.Generator
) -> SimilarPairs:
    """Finds pairs of documents that are probably similar by one of several definitions."""
    sketches = [scorer.sketch(definition, BANDS * ROWS) for definition in definitions]
    parts = [np.empty(0, np.uint64)]
    for sketch in sketches:
        pairs = _find_candidates(sketch)
        parts.append(pairs[_estimate_similarity(sketch, pairs) >= LEAST_ESTIMATE])
    listed = sorted_unique(np.concatenate(parts))
    missed = np.ones(len(listed))
    for sketch in sketches:
        missed *= 1 - _chances_of_strata(_estimate_similarity(sketch, listed))
    chances = 1 - missed
    is_drawn = rng.random(len(listed)) < chances
    return SimilarPairs(listed, listed[is_drawn], 1 / chances[is_drawn])


def _chances_of_strata(estimates: np.ndarray) -> np.ndarray:
    """Returns the probability with which one definition draws each pair, float64 (m,).

    It is 0 for a pair that only other definitions list.
    """
    strata = np.minimum(estimates * STRATA, STRATA - 1).astype(np.int64)
    sizes = np.bincount(strata, minlength=STRATA)
    chances = np.minimum(1.0, PAIRS_PER_STRATUM / np.maximum(sizes, 1))
    return np.where(estimates >= LEAST_ESTIMATE, chances[strata], 0.0)


def _find_candidates(sketch: Sketches) -> np.ndarray:
    """Returns the pairs of neighbours in the buckets of each band, packed, uint64 (m,)."""
    parts = [np.empty(0, np.uint64)]
    rows = np.flatnonzero(sketch.shingles)
    keys = slot_band_keys(sketch.signatures[rows], BANDS, ROWS)
    for band in range(BANDS):
        order = np.argsort(keys[:, band], kind="stable")
        ordered_keys = keys[order, band]
        for distance in range(1, NEIGHBOURS + 1):
            firsts = np.flatnonzero(ordered_keys[distance:] == ordered_keys[:-distance])
            parts.append(pack_pairs(rows[order[firsts]], rows[order[firsts + distance]]))
    return sorted_unique(np.concatenate(parts))


def _estimate_similarity(sketch: Sketches, pairs: np.ndarray) -> np.ndarray:
    """Returns the share of slots in which the documents of packed pairs agree, float64 (m,).

    Documents without shingles agree with none.
    """
    slots = sketch.signatures
    estimates = np.empty(len(pairs))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        first, second = unpack_pairs(pairs[start : start + PAIRS_AT_ONCE])
        agreement = (slots[first] == slots[second]).mean(axis=1)
        is_filled = (sketch.shingles[first] > 0) & (sketch.shingles[second] > 0)
        estimates[start : start + PAIRS_AT_ONCE] = np.where(is_filled, agreement, 0.0)
    return estimates
