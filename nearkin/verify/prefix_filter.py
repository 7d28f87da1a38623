"""The search for documents that may be similar to a given one: those that share one of its rarest shingles."""

import numpy as np

from nearkin.packed_pairs import sorted_unique

ROUNDING = 1e-9


class RarestShared:
    """Finds every document whose similarity to another one may reach a floor, by the shingles that few documents have.

    Shingles are ordered from rare to frequent. If two documents reach the floor, the rarest shingle that they share is not
    among the last ones of either, whose weight together is less than the floor's part of all (prefix filter: Bayardo, Ma,
    Srikant, "Scaling up all pairs similarity search", WWW 2007). Only the others are
    posted, so what most documents have costs nothing.

    Args:
        sizes: int64 (n,): shingles of each document.
        hashes: uint64 (total,): their hashes, distinct inside a document, one document after the other.
        weights: float64 (total,): what each adds to the similarity at most; 1 for sets, squares for cosine.
        share: Part of a document's weight that a similar document must share, in (0, 1].

    Examples:
        >>> hashes = np.array([1, 2, 3, 1, 2, 4, 1, 8, 9], np.uint64)
        >>> sharing = RarestShared(np.array([3, 3, 3]), hashes, np.ones(9), 0.6)
        >>> sharing(0).tolist(), sharing(2).tolist()
        ([0, 1], [2])
    """

    def __init__(self, sizes: np.ndarray, hashes: np.ndarray, weights: np.ndarray, share: float) -> None:
        keys, numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        place = np.empty(len(keys), np.int64)
        place[np.lexsort((keys, counts))] = np.arange(len(keys))
        documents = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((place[numbers], documents))
        terms, ordered = place[numbers][order], weights[order]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        behind = np.repeat(sums[starts[1:]], sizes) - sums[:-1]
        total = np.repeat(sums[starts[1:]] - sums[starts[:-1]], sizes)
        rare = behind >= share * total - ROUNDING * sums[-1]
        self._terms, owners = terms[rare], documents[rare]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(sizes)))])
        by_term = np.argsort(self._terms, kind="stable")
        self._posted = owners[by_term]
        self._firsts = np.concatenate([[0], np.cumsum(np.bincount(self._terms, minlength=len(keys)))])

    def __call__(self, document: int) -> np.ndarray:
        """Returns every document at or above the floor with one of them, itself and maybe others included, int64, sorted."""
        terms = self._terms[self._starts[document] : self._starts[document + 1]]
        spans = zip(self._firsts[terms].tolist(), self._firsts[terms + 1].tolist(), strict=True)
        return sorted_unique(np.concatenate([np.empty(0, np.int64), *(self._posted[low:high] for low, high in spans)]))
