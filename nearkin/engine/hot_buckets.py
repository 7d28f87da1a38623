"""The hot-bucket loop, which both engines share.

A hot bucket is clustered internally: each of its documents is compared with a few leaders only.
The documents that stay kept are far fewer. They are banded again among themselves, in rounds, until
nothing changes. In the end a bucket of kept documents is small, or it has as many leaders as a
document may be compared with. The outcome depends on the documents alone.
"""

from abc import ABC, abstractmethod
from typing import final

MOST_ROUNDS = 12


class HotBucketLoop(ABC):
    """The rounds over the documents of hot buckets, after the first verification."""

    @abstractmethod
    def select_kept(self) -> int:
        """Selects the documents of hot buckets that are kept so far, and returns their number."""

    @abstractmethod
    def compare_selected(self) -> bool:
        """Bands and compares the selected documents again.

        Returns:
            True if new scored pairs were found.
        """

    @final
    def run(self) -> list[int]:
        """Adds the pairs of all rounds to the scored pairs.

        Returns:
            The number of kept documents before each round.
        """
        kept: list[int] = []
        while len(kept) < MOST_ROUNDS:
            kept.append(self.select_kept())
            unchanged = len(kept) > 1 and kept[-1] == kept[-2]
            if unchanged or not self.compare_selected():
                break
        return kept
