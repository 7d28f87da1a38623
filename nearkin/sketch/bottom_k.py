"""Bottom-k sketches: the k smallest of a set's hashes, for sets of very different size.

Cardinality from the k-th smallest (Bar-Yossef et al., RANDOM 2002; Beyer et al., SIGMOD 2007), Jaccard similarity and
intersections from the k smallest of a union (Broder 1997; Cohen, Kaplan, PODC 2007).
"""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from nearkin.errors import IncompatibleError, UsageError

FULL = 2.0**64


@dataclass(frozen=True)
class BottomK:
    """The k smallest distinct hashes of a set.

    Attributes:
        k: How many are kept.
        hashes: uint64, sorted: k of them, or all if there are fewer.

    Examples:
        >>> def of(numbers):
        ...     from nearkin.sketch.minhash import splitmix64
        ...     return BottomK.of(splitmix64(1, 100_000)[numbers], 1024)
        >>> small, large = of(slice(0, 2_000)), of(slice(0, 100_000))
        >>> round(small.containment_in(large), 1), abs(large.cardinality / 100_000 - 1) < 0.1
        (1.0, True)
        >>> small.merge(large) == large
        True
    """

    k: int
    hashes: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray, k: int = 256) -> "BottomK":
        """Of uniform hashes, uint64 (m,), with or without repeats."""
        if k < 2:
            raise UsageError(f"k={k} is not at least 2")
        return cls(k, np.unique(np.asarray(hashes, np.uint64))[:k])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BottomK) and self.k == other.k and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash((self.k, self.hashes.tobytes()))

    @property
    def exact(self) -> bool:
        """Whether the whole set is here."""
        return len(self.hashes) < self.k

    @property
    def cardinality(self) -> float:
        """Distinct elements: (k − 1) / (k-th smallest as a fraction); unbiased, relative error about 1/√(k − 2)."""
        if self.exact:
            return float(len(self.hashes))
        return (self.k - 1) / ((float(self.hashes[-1]) + 1) / FULL)

    def merge(self, *others: "BottomK") -> "BottomK":
        """Of the union."""
        return reduce(BottomK._merge, others, self)

    def _merge(self, other: "BottomK") -> "BottomK":
        self._require(other)
        return BottomK(self.k, np.union1d(self.hashes, other.hashes)[: self.k])

    def _require(self, other: "BottomK") -> None:
        if self.k != other.k:
            raise IncompatibleError(f"sketches of k={self.k} and k={other.k} are not comparable; make both of one size")

    def jaccard(self, other: "BottomK") -> float:
        """|A ∩ B| / |A ∪ B|: the share of the union's k smallest that are in both; 0 for two empty sets."""
        union = self._merge(other).hashes
        return len(self._both(other, union)) / len(union) if len(union) else 0.0

    def _both(self, other: "BottomK", union: np.ndarray) -> np.ndarray:
        return np.intersect1d(np.intersect1d(self.hashes, other.hashes, assume_unique=True), union, assume_unique=True)

    def intersection(self, other: "BottomK") -> float:
        """|A ∩ B|."""
        return self.jaccard(other) * self._merge(other).cardinality

    def containment_in(self, other: "BottomK") -> float:
        """|A ∩ B| / |A|, at most 1: how much of this set is in the other.

        Elements of this sketch that lie below the other's largest are in the other set exactly if they are in its sketch, so
        their share is the estimate; it does not suffer from the other set being large, as one by way of |A ∪ B| would.
        """
        self._require(other)
        if not len(self.hashes):
            return 0.0
        known = self.hashes if other.exact else self.hashes[self.hashes <= other.hashes[-1]]
        if not len(known):
            return math.nan
        return len(np.intersect1d(known, other.hashes, assume_unique=True)) / len(known)

    def containment_error(self, other: "BottomK", containment: float) -> float:
        """Standard error of `containment_in` at that containment; infinite where nothing is known."""
        known = len(self.hashes) if other.exact else int((self.hashes <= other.hashes[-1]).sum()) if len(other.hashes) else 0
        return math.sqrt(containment * (1 - containment) / known) if known else math.inf
