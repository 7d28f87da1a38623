"""Draws the documents that an audit compares with the whole corpus.

Most draws are uniform, so that documents of which the run found nothing are seen as well. An eighth
follows the sizes of the clusters, and an eighth the numbers of the found pairs: few documents
of large clusters and of hot buckets hold most of the pairs, and a uniform sample meets them too
rarely to say anything about them. Documents are drawn without replacement by sequential Poisson
sampling (Ohlsson, *Sequential Poisson Sampling*, Journal of Official Statistics 14, 1998). Any
beginning of the sample is itself such a sample.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.stages.sketch.minhash import splitmix64

SAMPLED_KINDS = ("unique", "kept", "exact", "near", "further")
"""The kinds of documents that are sampled. Empty documents have no pairs."""
CLUSTER_SHARE = 0.125
"""The share of the draws that follows the sizes of clusters."""
PAIRS_SHARE = 0.125
"""The share of the draws that follows the numbers of found pairs."""


@dataclass(frozen=True)
class SamplingFrame:
    """The documents that can be drawn.

    Attributes:
        ordinals: Numbers of the documents in ascending order, int64 (n,).
        chances: Chance of each document to be the first one that is drawn, float64 (n,).
        documents: Number of documents of the corpus.
    """

    ordinals: np.ndarray
    chances: np.ndarray
    documents: int

    @classmethod
    def create(cls, clusters: pa.Table, pairs: pa.Table) -> "SamplingFrame":
        """Returns the documents of a run."""
        kinds = clusters["kind"]
        is_sampled = pc.is_in(kinds, value_set=pa.array(SAMPLED_KINDS, kinds.type)).to_numpy()
        ordinals = np.flatnonzero(is_sampled)
        relatives = _count_relatives(clusters)[ordinals]
        found_pairs = _count_pairs(clusters["id"], pairs)[ordinals]
        uniform_share = 1 - CLUSTER_SHARE - PAIRS_SHARE
        chances = (
            uniform_share * _to_shares(np.ones(len(ordinals)))
            + CLUSTER_SHARE * _to_shares(relatives)
            + PAIRS_SHARE * _to_shares(found_pairs)
        )
        return cls(ordinals.astype(np.int64), chances, len(clusters))

    def draw(self, size: int, seed: int) -> np.ndarray:
        """Returns the positions of drawn documents in the frame, in random order, int64 (m,)."""
        # (x + 1) / 2^64 is uniform in (0, 1]
        uniform = (splitmix64(seed, self.documents)[self.ordinals] + 1.0) / 2.0**64
        return np.argsort(uniform / self.chances, kind="stable")[:size]

    def inclusion(self, drawn: np.ndarray) -> np.ndarray:
        """Returns the probabilities with which the documents of a sample were drawn, float64 (m,).

        Examples:
            >>> frame = SamplingFrame(np.arange(4), np.array([0.7, 0.1, 0.1, 0.1]), 4)
            >>> frame.inclusion(np.array([0, 2])).round(3).tolist()
            [1.0, 0.333]
        """
        return np.minimum(1.0, self._scale_for(len(drawn)) * self.chances[drawn])

    def _scale_for(self, size: int) -> float:
        """Returns the factor c for which the probabilities min(1, c·chance) add up to a size."""
        ordered = np.sort(self.chances)[::-1]
        if size >= len(ordered):
            return np.inf
        # the sum without the i largest, which are drawn for certain
        remainders = np.cumsum(ordered[::-1])[::-1]
        scales = (size - np.arange(len(ordered))) / remainders
        return float(scales[np.argmax(scales * ordered < 1)])


def _to_shares(weights: np.ndarray) -> np.ndarray:
    total = weights.sum()
    if not total:
        return np.full(len(weights), 1 / max(len(weights), 1))
    return weights / total


def _count_relatives(clusters: pa.Table) -> np.ndarray:
    """Returns the number of other documents in the cluster of each document, float64 (n,)."""
    names = clusters["cluster"].combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False)
    return (np.bincount(codes)[codes] - 1).astype(np.float64)


def _count_pairs(ids: pa.ChunkedArray, pairs: pa.Table) -> np.ndarray:
    """Returns the number of found pairs of each document, float64 (n,)."""
    counts = np.zeros(len(ids))
    for name in ("id_a", "id_b"):
        places = pc.index_in(pairs[name], ids).to_numpy()
        counts += np.bincount(places.astype(np.int64), minlength=len(ids))
    return counts
