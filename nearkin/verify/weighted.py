"""The exact cosine (SimHash) and weighted Jaccard similarity of weighted shingles.

Sums are taken in the order of the hashes, so a similarity depends only on the two documents. The
weights of document frequencies are whole numbers, whose sums are exact in any order.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.packed_pairs import ScoredPairs, sorted_unique, unpack_pairs
from nearkin.pair_scope import PairScope
from nearkin.runtime.threads import ordered_map
from nearkin.shingle import Shingler
from nearkin.sketch.sketcher import iterate_shingles
from nearkin.verify import kernels
from nearkin.verify.jaccard import SetBuilder, document_ranges
from nearkin.verify.kernels import Inverted

DEFAULT_MEMORY = 256 << 20
"""The default number of bytes for the postings of brute force."""
BYTES_PER_POSTING = 80
"""The bytes of memory that one posting needs while its range is sorted and searched."""
MIN_ROWS = 1 << 12
"""The smallest number of payload rows that a range is allowed to have."""


class WeightedSets(NamedTuple):
    """The sorted distinct shingle hashes of documents, with their weights."""

    hashes: np.ndarray
    """uint64 (total,): The hashes, one document after the other."""
    weights: np.ndarray
    """float64 (total,): The weights. In `compare_all`, it is empty if every weight is 1."""
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
        shingler: Shingler of the Spec.
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
        shingler: Shingler of the Spec.
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
    """Returns the squared length or the sum of the weights of each document, float64 (n,).

    Args:
        starts: First hash of each document, and the end, int64 (n + 1,).
        weights: Weights of the hashes, float64 (starts[-1],).
        product: True for squared lengths (cosine), False for sums (weighted Jaccard).
    """
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
        place: Position of the set of each document among the stored ones, integers (documents,).
        starts: First hash of each stored set, and the end, int64 (stored + 1,).
        stored: The stored sets.
        product: True for cosine, False for weighted Jaccard.

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


def invert(hashes: np.ndarray, weights: np.ndarray, starts: np.ndarray) -> Inverted:
    """Returns the postings of consecutive documents.

    Args:
        hashes: Hashes, one document after the other, uint64 (total,).
        weights: Weights of the hashes, float64 (total,), or empty if every weight is 1.
        starts: First hash of each document, and the end, int64 (documents + 1,). All numbers are
            relative to starts[0].
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    keys = ordered[is_first]
    prefixes, shift = PrefixIndex.of(keys)
    documents = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))
    return Inverted(
        keys=keys,
        prefixes=prefixes,
        shift=shift,
        firsts=np.append(np.flatnonzero(is_first), len(ordered)).astype(np.int64),
        postings=documents[order],
        weights=weights[order] if len(weights) else weights,
    )


def compare_all(
    stored: WeightedSets,
    scope: PairScope,
    threshold: float,
    *,
    product: bool,
    workers: int,
    memory: int = DEFAULT_MEMORY,
) -> Iterator[ScoredPairs]:
    """Yields every pair of a scope that reaches the threshold, in order (brute force).

    The documents of one range at a time are inverted, and all later documents are looked up in
    the postings. So the memory does not grow with the corpus.

    Args:
        stored: The documents, mapped or in memory. Empty weights mean that every weight is 1.
        scope: Pairs that are compared.
        threshold: Minimum similarity of a pair.
        product: True for cosine, False for weighted Jaccard.
        workers: Number of threads.
        memory: Number of bytes for the postings of all threads. The result does not depend on it.
    """
    starts = np.concatenate([[0], np.cumsum(stored.sizes)]).astype(np.int64)
    hashes = np.asarray(stored.hashes)
    weights = np.asarray(stored.weights, np.float64)
    if len(weights):
        totals = total_weights(starts, weights, product=product)
    else:
        totals = stored.sizes.astype(np.float64)
    compared = kernels.Compared(starts, hashes, weights, totals, scope)
    n = len(starts) - 1

    def compare_range(bounds: tuple[int, int]) -> ScoredPairs:
        first, last = bounds
        rows = slice(starts[first], starts[last])
        range_weights = weights[rows] if len(weights) else weights
        index = invert(hashes[rows], range_weights, starts[first : last + 1])
        room = sum(n - 1 - e for e in range(first, last))
        scored = ScoredPairs(np.empty(room, np.uint64), np.empty(room), np.empty(room))
        count = kernels.pairs_of_range(
            first,
            last,
            index,
            compared,
            threshold,
            product,
            scored.pairs,
            scored.intersection,
            scored.union,
        )
        return scored.select(np.argsort(scored.pairs[:count]))

    rows_per_range = max(MIN_ROWS, memory // BYTES_PER_POSTING // workers)
    yield from ordered_map(compare_range, document_ranges(starts, rows_per_range), workers, 0)
