"""The search for documents that can be similar to a given one, by its rarest shingles.

The clustering of long chains uses it, so that a kept document is not compared with all members.
"""

import numpy as np

from nearkin.stages.packed_pairs import sorted_unique

ROUNDING = 1e-9
"""The share of the total weight by which a sum of weights may be wrong because of rounding."""


class PrefixFilterIndex:
    """An index that finds every document whose similarity to a given one can reach a floor.

    Shingles are ordered from rare to frequent. If two documents reach the floor, the rarest
    shingle that they share is not among the last shingles of either document whose total weight
    is less than the floor's share (prefix filter: Bayardo, Ma, Srikant, "Scaling up all pairs
    similarity search", WWW 2007). Only the other shingles are posted, so shingles that most
    documents contain cost nothing.

    Args:
        sizes: Number of shingles of each document, int64 (n,).
        hashes: Shingle hashes, distinct in each document, one document after the other,
            uint64 (total,).
        weights: Largest contribution of each shingle to the similarity, float64 (total,): 1 for
            sets, squares for cosine.

    Examples:
        >>> hashes = np.array([1, 2, 3, 1, 2, 4, 1, 8, 9], np.uint64)
        >>> sharing = PrefixFilterIndex(np.array([3, 3, 3]), hashes, np.ones(9), 0.6)
        >>> sharing(0).tolist(), sharing(2).tolist()
        ([0, 1], [2])
    """

    def __init__(
        self, sizes: np.ndarray, hashes: np.ndarray, weights: np.ndarray, share: float
    ) -> None:
        keys, key_numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        rank_of_key = np.empty(len(keys), np.int64)
        rank_of_key[np.lexsort((keys, counts))] = np.arange(len(keys))
        ranks = rank_of_key[key_numbers]
        documents = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((ranks, documents))
        terms = ranks[order]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        sums = np.concatenate([[0.0], np.cumsum(weights[order])])
        weight_from_here = np.repeat(sums[starts[1:]], sizes) - sums[:-1]
        total = np.repeat(sums[starts[1:]] - sums[starts[:-1]], sizes)
        is_posted = weight_from_here >= share * total - ROUNDING * sums[-1]
        self._terms = terms[is_posted]
        owners = documents[is_posted]
        self._starts = _starts_of(owners, len(sizes))
        self._posted = owners[np.argsort(self._terms, kind="stable")]
        self._firsts = _starts_of(self._terms, len(keys))

    def __call__(self, document: int) -> np.ndarray:
        """Returns the documents that can reach the floor with a document, sorted, int64.

        They include the document itself, and some may not reach the floor.
        """
        terms = self._terms[self._starts[document] : self._starts[document + 1]]
        spans = zip(self._firsts[terms].tolist(), self._firsts[terms + 1].tolist(), strict=True)
        postings = [np.empty(0, np.int64), *(self._posted[low:high] for low, high in spans)]
        return sorted_unique(np.concatenate(postings))


def _starts_of(groups: np.ndarray, count: int) -> np.ndarray:
    """Returns where each of `count` groups starts if members are sorted by group, and the end."""
    return np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=count))])
