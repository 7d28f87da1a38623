"""Exact comparison of weighted shingles: cosine (SimHash) and weighted Jaccard, on recomputed payloads.

Sums run in the order of the hashes, so a similarity depends on the two documents alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.shingle import Shingler
from nearkin.sketch.sketcher import iterate_shingles
from nearkin.threads import ordered_map
from nearkin.verify import kernels
from nearkin.verify.exact import Overlaps, slabs
from nearkin.verify.kernels import Inverted


class WeightedSets(NamedTuple):
    """Sorted distinct shingle hashes of documents with their weights, one after the other."""

    hashes: np.ndarray
    """uint64 (total,)"""
    weights: np.ndarray
    """float64 (total,)"""
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
    kernels.total_weights(starts, weights, product, out)
    return out


def compare(pairs: np.ndarray, place: np.ndarray, starts: np.ndarray, stored: WeightedSets, product: bool) -> Overlaps:
    """Shared and joint weight of each packed pair; `place` and `starts` as in `exact.overlaps`, `product` for cosine."""
    out = Overlaps(pairs, np.empty(len(pairs)), np.empty(len(pairs)))
    totals = totals_of(starts, stored.weights, product)
    kernels.weighted_overlaps(pairs, place, starts, stored.hashes, stored.weights, totals, product, out.shared, out.joint)
    return out


def invert(stored: WeightedSets, product: bool) -> Inverted:
    """Postings of all documents."""
    _, terms = np.unique(stored.hashes, return_inverse=True)
    documents = np.repeat(np.arange(len(stored.sizes), dtype=np.int64), stored.sizes)
    order = np.argsort(terms, kind="stable")
    firsts = np.concatenate([[0], np.cumsum(np.bincount(terms))]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(stored.sizes)]).astype(np.int64)
    weights = np.ascontiguousarray(stored.weights, np.float64)
    totals = totals_of(starts, weights, product)
    return Inverted(starts, terms.astype(np.int64), firsts, documents[order], weights, weights[order], totals)


def compare_all(stored: WeightedSets, blocks: np.ndarray, threshold: float, product: bool, workers: int) -> Overlaps:
    """Every pair of one block that reaches the threshold: brute force, recall 1. Sets are weighted ones of weight 1."""
    index = invert(stored, product)

    def slab(bounds: tuple[int, int]) -> Overlaps:
        room = sum(range(*bounds))
        out = Overlaps(np.empty(room, np.uint64), np.empty(room), np.empty(room))
        found = kernels.all_pairs(*bounds, index, blocks, threshold, product, *out)
        return Overlaps(*(column[:found].copy() for column in out))

    return Overlaps.concatenate(list(ordered_map(slab, slabs(len(stored.sizes)), workers)))
