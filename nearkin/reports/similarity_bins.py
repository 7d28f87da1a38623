"""Bins of similarity: their edges, their names, and the numbers of pairs in them.

The threshold of a run is an edge, so that no bin with reported pairs begins below it.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np

from nearkin.errors import UsageError

BINS = 50
"""The number of bins of equal width of a histogram, to which the threshold adds one."""


def bin_edges(bins: int, threshold: float | None) -> np.ndarray:
    """Returns the edges of bins of similarity from 0 to 1, float64. A bin contains its left edge.

    Args:
        threshold: Another edge, or None. A threshold of 1 has a bin of its own.

    Examples:
        >>> bin_edges(4, 0.8).tolist(), bin_edges(2, 1.0).tolist()
        ([0.0, 0.25, 0.5, 0.75, 0.8, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    # A quotient is rounded like a similarity. The edges of np.histogram are products, some of which
    # are larger than the similarity that they stand for.
    edges = np.arange(bins + 1) / bins
    if threshold is None:
        return edges
    return np.append(edges, 1.0) if threshold == 1 else np.union1d(edges, [threshold])


def name_bin(low: float, high: float) -> str:
    """Returns the range of a bin as text, with two decimals of an edge, or more if it has more.

    Examples:
        >>> name_bin(0.8, 0.85), name_bin(0.825, 0.84), name_bin(1.0, 1.0)
        ('0.80 to 0.85', '0.825 to 0.84', '1.00')
    """
    ends = [low] if low == high else [low, high]
    return " to ".join(max(f"{end:.2f}", f"{end:g}", key=len) for end in ends)


@dataclass(frozen=True)
class Histogram:
    """A histogram of the similarities of pairs, in bins of 0.02 that are divided at a threshold.

    The histograms of two sets of pairs add up to the histogram of both.

    Attributes:
        counts: Number of pairs in each bin.
        threshold: The similarity at which a bin is divided, or None.

    Examples:
        >>> first = Histogram.from_similarities(np.array([0.58, 1.0]))
        >>> both = first + Histogram.from_similarities(np.array([0.57]))
        >>> both.counts[28], both.counts[29], both.counts[49], both.total
        (1, 1, 1, 3)
    """

    counts: tuple[int, ...] = (0,) * BINS
    threshold: float | None = None

    def __post_init__(self) -> None:
        bins = len(self.edges) - 1
        if len(self.counts) != bins:
            raise UsageError(
                f"a similarity histogram has {bins} bins, not {len(self.counts)}; the report is "
                "damaged, run nearkin dedup again"
            )

    @classmethod
    def from_similarities(
        cls,
        similarities: np.ndarray,
        threshold: float | None = None,
        counts: np.ndarray | None = None,
    ) -> Self:
        """Counts similarities.

        Args:
            similarities: Similarities in [0, 1], float64 (n,).
            threshold: The similarity at which a bin is divided, or None.
            counts: Number of pairs of each similarity, int64 (n,). One each if None.
        """
        edges = bin_edges(BINS, threshold)
        binned = np.histogram(similarities, bins=edges, weights=counts)[0]
        return cls(tuple(binned.astype(int).tolist()), threshold)

    def __add__(self, other: "Histogram") -> "Histogram":
        summed = (a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(tuple(summed), self.threshold)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The edges of the bins. A bin contains its left edge, the last one both edges."""
        return tuple(bin_edges(BINS, self.threshold).tolist())

    @property
    def bins(self) -> tuple[tuple[float, float], ...]:
        """The lower and the upper end of each bin."""
        return tuple(pairwise(self.edges))

    @property
    def total(self) -> int:
        """The number of counted pairs."""
        return sum(self.counts)
