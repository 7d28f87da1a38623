"""The hot-bucket loop, which both engines share.

A hot bucket is clustered internally: each of its documents is compared with a few leaders only.
Documents that join no leader, when there is no place for further leaders, are divided into groups
by the leader that they agree with most, and each group is clustered in the same way. So a document
is compared with those that agree with it most.

The documents that stay kept are far fewer. They are banded again among themselves, in rounds, until
no pairs are added. In these rounds all that is left are documents that no leader removed, so none
joins a leader by an estimate, and leaders are chosen at random, so that each round forms other
groups. The outcome depends on the documents alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np

from nearkin.engine.stats import MissingPairsStats
from nearkin.engine.wilson import total_interval

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


class HotBucketRound(NamedTuple):
    """The outcome of a round of the hot-bucket loop."""

    has_new_pairs: bool
    """Whether it added scored pairs."""
    incomplete: int
    """The number of buckets whose documents were not all compared with each other."""


class HotBucketRounds(NamedTuple):
    """The outcome of the hot-bucket loop."""

    kept: list[int]
    """The number of kept documents before each round."""
    incomplete: int
    """The number of buckets that the last round did not compare completely."""


class MissingCounts(NamedTuple):
    """The near-duplicates of some kept documents of hot buckets that were not found."""

    counts: np.ndarray
    """The number of such pairs of each document of a random sample, int64 (s,)."""
    documents: int
    """The number of documents from which the sample was drawn."""

    def estimate(self, *, truncated: int, listed: int) -> MissingPairsStats:
        """Returns the estimate of all missing pairs that follows from the sample."""
        # A pair is counted for each of its documents.
        halves = self.counts / 2
        low, high = total_interval(halves, self.documents)
        return MissingPairsStats.from_estimate(
            truncated=truncated,
            sampled=len(halves),
            pairs=float(halves.mean()) * self.documents,
            low=low,
            high=high,
            listed=listed,
        )


class HotBucketLoop(ABC):
    """The rounds over the documents of hot buckets, after the first verification."""

    @abstractmethod
    def select_kept(self) -> int:
        """Selects the documents of hot buckets that are kept so far, and returns their number."""

    @abstractmethod
    def compare_selected(self, round_number: int) -> HotBucketRound:
        """Bands and compares the selected documents again."""

    @abstractmethod
    def count_missing(self) -> MissingCounts:
        """Counts the pairs of a sample of the kept documents that no round found.

        The sampled documents are compared with all others of their hot buckets.
        """

    @final
    def run(self) -> HotBucketRounds:
        """Adds the pairs of all rounds to the scored pairs."""
        kept: list[int] = []
        outcome = HotBucketRound(has_new_pairs=True, incomplete=0)
        while outcome.has_new_pairs and len(kept) < MOST_ROUNDS:
            kept.append(self.select_kept())
            outcome = self.compare_selected(len(kept))
        return HotBucketRounds(kept, outcome.incomplete)


def shuffle_keys(signatures: np.ndarray, round_number: int) -> np.ndarray:
    """Returns numbers whose order is another random order of documents for each round, int64 (n,).

    They are hashes of the signatures, so that they are the same in both engines, and not negative.

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
