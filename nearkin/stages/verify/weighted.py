"""The exact cosine (SimHash) and weighted Jaccard similarity of weighted shingles.

Sums are taken in the order of the hashes, so a similarity depends only on the two documents. The
weights of document frequencies are whole numbers, whose sums are exact in any order.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.stages.packed_pairs import ScoredPairs, sorted_unique, unpack_pairs
from nearkin.stages.shingle import Shingler
from nearkin.stages.sketch.sketcher import iterate_shingles
from nearkin.stages.verify import kernels
from nearkin.stages.verify.jaccard import SetBuilder

DEFAULT_MEMORY = 256 << 20
"""The default number of bytes for the postings of brute force."""


class WeightedSets(NamedTuple):
    """The sorted distinct shingle hashes of documents, with their weights."""

    hashes: np.ndarray
    """uint64 (total,): The hashes, one document after the other."""
    weights: np.ndarray
    """float64 (total,): The weights. In `all_pairs`, it is empty if every weight is 1."""
    sizes: np.ndarray
    """int64 (n,): The number of hashes of each document."""

    @classmethod
    def of(cls, columns: tuple[np.ndarray, ...], sizes: np.ndarray) -> "WeightedSets":
        """Returns the sets of a payload.

        Args:
            columns: Hashes, uint64 (total,), and weights, float64 (total,).
            sizes: Number of hashes of each document, int64 (n,).
        """
        hashes, weights = columns
        return cls(hashes, weights, sizes)


class WeightedBuilder:
    """A builder of weighted sets. A weight is the number of occurrences times a shingle's weight.

    Each thread needs its own builder.

    Args:
        weights_of: Function from hashes, uint64 (m,), to weights, int64 (m,). By default, each
            shingle has weight 1.
    """

    def __init__(
        self, shingler: Shingler, weights_of: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        self.shingler = shingler
        self.weights_of = weights_of

    def build(self, documents: pa.Array) -> WeightedSets:
        """Returns the weighted sets of texts (large_string) or token lists (large_list)."""
        hashes = [np.empty(0, np.uint64)]
        weights = [np.empty(0, np.float64)]
        sizes = np.empty(len(documents), np.int64)
        for start, shingles in iterate_shingles(self.shingler, documents):
            out = np.empty(len(shingles.hashes), np.uint64)
            counts = np.empty(len(shingles.hashes), np.float64)
            sizes_of_slice = sizes[start : start + len(shingles.offsets) - 1]
            total = kernels.count_each(
                shingles.hashes, shingles.offsets, sizes_of_slice, out, counts
            )
            hashes.append(out[:total])
            if self.weights_of is None:
                weights.append(counts[:total])
            else:
                weights.append(counts[:total] * self.weights_of(out[:total]))
        return WeightedSets(np.concatenate(hashes), np.concatenate(weights), sizes)


class WeightedSetBuilder:
    """A builder of sets whose shingles have weights. How often a shingle occurs does not matter.

    Each thread needs its own builder.

    Args:
        weights_of: Function from hashes, uint64 (m,), to weights, int64 (m,).
    """

    def __init__(self, shingler: Shingler, weights_of: Callable[[np.ndarray], np.ndarray]) -> None:
        self.weights_of = weights_of
        self._sets = SetBuilder(shingler)

    def build(self, documents: pa.Array) -> WeightedSets:
        """Returns the weighted sets of texts (large_string) or token lists (large_list)."""
        sets = self._sets.build(documents)
        weights = self.weights_of(sets.hashes).astype(np.float64)
        return WeightedSets(sets.hashes, weights, sets.sizes)


def total_weights(starts: np.ndarray, weights: np.ndarray, *, product: bool) -> np.ndarray:
    """Returns the squared length or the sum of the weights of each document, float64 (n,)."""
    out = np.empty(len(starts) - 1, np.float64)
    kernels.total_weights_of(np.arange(len(out)), starts, weights, product, out)
    return out


def compare_weighted(
    pairs: np.ndarray,
    place: np.ndarray,
    starts: np.ndarray,
    stored: WeightedSets,
    *,
    product: bool,
) -> ScoredPairs:
    """Computes the weights of the intersection and of the union of each pair.

    Args:
        pairs: Packed pairs of document numbers, uint64 (m,).
        starts: First hash of each stored set, and the end, int64 (stored + 1,).

    Returns:
        The pairs with the two weights, float64 (m,).
    """
    scored = ScoredPairs(pairs, np.empty(len(pairs)), np.empty(len(pairs)))
    totals = np.empty(len(starts) - 1)
    compared = sorted_unique(place[np.concatenate(unpack_pairs(pairs))])
    kernels.total_weights_of(compared.astype(np.int64), starts, stored.weights, product, totals)
    kernels.weighted_overlaps(
        pairs,
        place,
        starts,
        stored.hashes,
        stored.weights,
        totals,
        product,
        scored.intersection,
        scored.union,
    )
    return scored
