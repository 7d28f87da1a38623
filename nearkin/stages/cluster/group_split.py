"""The assignment of whole clusters to groups of given shares, such as training and test sets."""

from collections.abc import Sequence

import numpy as np

from nearkin.stages.cluster import kernels
from nearkin.stages.sketch.minhash import mix_splitmix64, splitmix64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The increment of SplitMix64."""


def apportion(total: int, shares: Sequence[float]) -> np.ndarray:
    """Returns whole numbers of the given shares that add up to a total, int64 (groups,).

    The remainders decide which numbers are rounded up (the method of Hamilton). Of equal
    remainders, that of the first group counts as larger.

    Examples:
        >>> apportion(11, [0.8, 0.1, 0.1]).tolist()
        [9, 1, 1]
    """
    exact = np.array(shares) * total
    numbers = np.floor(exact + 1e-9).astype(np.int64)
    by_remainder = np.argsort(numbers - exact, kind="stable")
    numbers[by_remainder[: total - int(numbers.sum())]] += 1
    return numbers


def hash_clusters(cluster: np.ndarray, content: np.ndarray, seed: int) -> np.ndarray:
    """Returns two words of hash of each cluster, uint64 (clusters, 2).

    The hash depends on the content hash, uint64 (n, 2), of the one of its documents with the
    smallest hash alone. So a further document changes the hash of a cluster of n documents with a
    probability of 1 / (n + 1).
    """
    smallest = np.full(int(cluster.max(initial=-1)) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, cluster, hash_documents(content, seed))
    return expand_smallest_hashes(smallest)


def hash_documents(content: np.ndarray, seed: int) -> np.ndarray:
    """Returns the hash of each document, of which the smallest represents a cluster."""
    salt = splitmix64(seed, 1)[0]
    return mix_splitmix64(mix_splitmix64(content[:, 0] ^ salt) ^ content[:, 1])


def expand_smallest_hashes(smallest: np.ndarray) -> np.ndarray:
    """Returns the hashes of clusters, uint64 (clusters, 2), from the smallest of documents."""
    return np.stack(
        [mix_splitmix64(smallest + GOLDEN), mix_splitmix64(smallest + GOLDEN + GOLDEN)], axis=1
    )


def assign_clusters(hashes: np.ndarray, sizes: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Returns the group of each cluster, int64 (clusters,).

    The first word of its hash selects a group for each cluster, with the shares as probabilities.
    Clusters are assigned from the largest to the smallest, and those of one size in the order of
    the second words. A cluster is assigned to its selected group if the documents that this group
    still lacks are as many as those of the cluster, and otherwise to the group that lacks most. So
    single documents make up for clusters that did not fit, and of n documents, only about √n are
    in another group than the selected one.

    Args:
        hashes: Hash of each cluster, uint64 (clusters, 2).
        sizes: Number of documents of each cluster, int64 (clusters,).

    Examples:
        >>> hashes = np.array([[1, 5], [2, 6], [3, 7]], np.uint64)
        >>> assign_clusters(hashes, np.array([1, 1, 2]), [0.5, 0.5]).tolist()
        [1, 1, 0]
    """
    bounds = np.cumsum(shares)[:-1]
    selected = np.searchsorted(bounds, hashes[:, 0] / 2.0**64, side="right")
    order = np.lexsort((hashes[:, 1], -sizes))
    lacking = apportion(int(sizes.sum()), shares)
    groups = np.empty(len(sizes), np.int64)
    kernels.fill_groups(order, sizes, selected, lacking, groups)
    return groups
