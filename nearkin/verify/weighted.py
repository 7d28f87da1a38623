"""Exact comparison of weighted shingles: cosine (SimHash) and weighted Jaccard, on recomputed payloads.

Sums run in the order of the hashes, so a similarity depends on the two documents alone.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.packed_pairs import ScoredPairs, sorted_unique, unpack_pairs
from nearkin.runtime.threads import ordered_map
from nearkin.shingle import Shingler
from nearkin.sketch.sketcher import iterate_shingles
from nearkin.verify import kernels
from nearkin.verify.jaccard import slabs
from nearkin.verify.kernels import Inverted

MEMORY = 256 << 20
BYTES_PER_POSTING = 80
"""Anonymous bytes that one costs while its slab is sorted and searched."""
LEAST_ROWS = 1 << 12


class WeightedSets(NamedTuple):
    """Sorted distinct shingle hashes of documents with their weights, one after the other."""

    hashes: np.ndarray
    """uint64 (total,)"""
    weights: np.ndarray
    """float64 (total,); empty in `compare_all` if every weight is 1."""
    sizes: np.ndarray
    """int64 (n,)"""

    @classmethod
    def of(cls, columns: tuple[np.ndarray, ...], sizes: np.ndarray) -> "WeightedSets":
        """From a payload's columns (hashes, weights)."""
        hashes, weights = columns
        return cls(hashes, weights, sizes)


class WeightedBuilder:
    """Documents to weighted sets: how often each shingle occurs, times what it weighs; one for each thread.

    Args:
        shingler: Of the Spec.
        weights_of: Hashes to weights, int64; 1 for each by default.
    """

    def __init__(self, shingler: Shingler, weights_of: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self.shingler = shingler
        self.weights_of = weights_of

    def sets(self, documents: pa.Array) -> WeightedSets:
        """The payloads of text (large_string) or token lists (large_list)."""
        hashes, weights = [np.empty(0, np.uint64)], [np.empty(0, np.float64)]
        sizes = np.empty(len(documents), np.int64)
        for start, shingles in iterate_shingles(self.shingler, documents):
            out, counts = np.empty(len(shingles.hashes), np.uint64), np.empty(len(shingles.hashes), np.float64)
            into = sizes[start : start + len(shingles.offsets) - 1]
            total = kernels.count_each(shingles.hashes, shingles.offsets, into, out, counts)
            hashes.append(out[:total])
            weights.append(counts[:total] * (1 if self.weights_of is None else self.weights_of(out[:total])))
        return WeightedSets(np.concatenate(hashes), np.concatenate(weights), sizes)


def totals_of(starts: np.ndarray, weights: np.ndarray, product: bool) -> np.ndarray:
    """float64 (stored,): squared length, or sum of weights, of each stored document."""
    out = np.empty(len(starts) - 1, np.float64)
    kernels.total_weights_of(np.arange(len(out)), starts, weights, product, out)
    return out


def compare(pairs: np.ndarray, place: np.ndarray, starts: np.ndarray, stored: WeightedSets, product: bool) -> ScoredPairs:
    """Shared and joint weight of each packed pair; `place` and `starts` as in `exact.overlaps`, `product` for cosine."""
    out = ScoredPairs(pairs, np.empty(len(pairs)), np.empty(len(pairs)))
    totals = np.empty(len(starts) - 1)
    wanted = sorted_unique(place[np.concatenate(unpack_pairs(pairs))])
    kernels.total_weights_of(wanted.astype(np.int64), starts, stored.weights, product, totals)
    kernels.weighted_overlaps(pairs, place, starts, stored.hashes, stored.weights, totals, product, out.intersection, out.union)
    return out


def invert(hashes: np.ndarray, weights: np.ndarray, starts: np.ndarray) -> Inverted:
    """Returns the postings of some documents.

    Args:
        hashes: uint64 (total,): their hashes, one document after the other.
        weights: float64 (total,), or empty if every weight is 1.
        starts: int64 (documents + 1,): where the hashes of each begin.
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    keys = ordered[new]
    firsts = np.append(np.flatnonzero(new), len(ordered)).astype(np.int64)
    documents = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))[order]
    return Inverted(keys, *PrefixIndex.of(keys), firsts, documents, weights[order] if len(weights) else weights)


def compare_all(
    stored: WeightedSets, blocks: np.ndarray, threshold: float, product: bool, workers: int, memory: int = MEMORY
) -> Iterator[ScoredPairs]:
    """Yields every pair of one block that reaches the threshold, in order: brute force, recall 1.

    Documents are posted in slabs, and all later documents are looked up in each, so memory does not grow with the corpus.

    Args:
        stored: The documents, mapped or in memory. Empty weights mean a weight of 1 for each hash.
        blocks: uint64 (n,): only documents of one block are compared.
        threshold: Minimum similarity of a pair.
        product: True for cosine, False for weighted Jaccard.
        workers: Threads.
        memory: Bytes for the postings of all threads. The result does not depend on it.
    """
    starts = np.concatenate([[0], np.cumsum(stored.sizes)]).astype(np.int64)
    hashes, weights = np.asarray(stored.hashes), np.asarray(stored.weights, np.float64)
    totals = totals_of(starts, weights, product) if len(weights) else stored.sizes.astype(np.float64)
    compared = kernels.Compared(starts, hashes, weights, totals, blocks)

    def slab(bounds: tuple[int, int]) -> ScoredPairs:
        first, last = bounds
        own = slice(starts[first], starts[last])
        index = invert(hashes[own], weights[own] if len(weights) else weights, starts[first : last + 1])
        room = sum(len(starts) - 2 - e for e in range(first, last))
        out = ScoredPairs(np.empty(room, np.uint64), np.empty(room), np.empty(room))
        found = kernels.pairs_of_slab(first, last, index, compared, threshold, product, *out)
        return out.select(np.argsort(out.pairs[:found]))

    rows = max(LEAST_ROWS, memory // BYTES_PER_POSTING // workers)
    yield from ordered_map(slab, slabs(starts, rows), workers, 0)
