"""Hot buckets: how their documents are ordered and divided.

A hot bucket is clustered internally: each of its documents is compared with a few leaders only.
Documents that join no leader, when there is no place for further leaders, are divided into groups
by the leader that they agree with most, and each group is clustered in the same way. So a document
is compared with those that agree with it most.

The documents that stay kept are far fewer. They are banded again among themselves, in rounds, until
no pairs are added. In these rounds all that is left are documents that no leader removed, so none
joins a leader by an estimate, and leaders are chosen at random, so that each round forms other
groups. The outcome depends on the documents alone.
"""

from collections.abc import Iterator

import numpy as np

MOST_ROUNDS = 12
GROUPING_LEVELS = 3
"""Number of times that the documents of a bucket are divided. With 100 leaders, a million documents
are divided into groups that are compared completely."""
JOINS_NO_LEADER = 1 << 40
"""A number of agreeing slots that no two documents reach."""
SAMPLED_DOCUMENTS = 1024
"""Number of documents whose missing pairs are counted."""
SAMPLE_ROUND = MOST_ROUNDS + 1
"""The round whose order of documents the sample begins."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def shuffle_keys(signatures: np.ndarray, round_number: int) -> np.ndarray:
    """Returns numbers whose order is another random order of documents for each round, int64 (n,).

    They are hashes of the signatures, so that they depend on nothing else, and not negative.

    Args:
        signatures: Signatures, (n, width).
    """
    data = np.ascontiguousarray(signatures).view(np.uint8).reshape(len(signatures), -1)
    words = np.zeros((len(data), -(-data.shape[1] // 8)), np.uint64)
    words.view(np.uint8)[:, : data.shape[1]] = data
    keys = np.full(len(data), round_number, np.uint64)
    for word in words.T:
        keys = (keys ^ word ^ (keys >> _SHIFT)) * _MULTIPLIER
    keys = (keys ^ (keys >> _SHIFT)) * _MULTIPLIER
    return (keys >> np.uint64(1)).view(np.int64)


def split_left_over(members: np.ndarray, nearest: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the left-over documents of a hot bucket, in groups by the leader nearest to them.

    Args:
        members: Documents of the bucket in keep order, uint64 (n,).
        nearest: Position of the leader that each left-over document agrees with most, or −1 for
            the other documents, int64 (n,).
    """
    rows = np.flatnonzero(nearest >= 0)
    rows = rows[np.argsort(nearest[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(nearest[rows])) + 1
    for group in np.split(rows, cuts):
        # A single document was compared with the leaders, and has no others to be compared with.
        if len(group) > 1:
            yield members[group]
