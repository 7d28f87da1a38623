"""Bottom-k sketches: the k smallest hashes of a set, for sets of very different sizes.

The cardinality is estimated from the k-th smallest hash (Bar-Yossef et al., RANDOM 2002; Beyer et
al., SIGMOD 2007), the Jaccard similarity and intersections from the k smallest hashes of a union
(Broder 1997; Cohen, Kaplan, PODC 2007).
"""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from nearkin.errors import IncompatibleError
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.runtime.number_range import SHARE, NumberRange
from nearkin.stages.hashing.families import require_hashes

FULL = 2.0**64


@dataclass(frozen=True)
class BottomK:
    """A sketch of the k smallest distinct hashes of a set.

    Attributes:
        k: Number of hashes that are kept.
        hashes: Sorted hashes, uint64: k of them, or all if the set has fewer.

    Examples:
        >>> def of(numbers):
        ...     from nearkin.stages.sketch.minhash import splitmix64
        ...     return BottomK.of(splitmix64(1, 100_000)[numbers], 1024)
        >>> small, large = of(slice(0, 2_000)), of(slice(0, 100_000))
        >>> round(small.containment_in(large), 1), abs(large.cardinality / 100_000 - 1) < 0.1
        (1.0, True)
        >>> small.merge(large) == large
        True
    """

    k: int
    hashes: np.ndarray

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    @check_arguments
    def of(cls, hashes: np.ndarray, k: int = 256) -> "BottomK":
        """Returns the sketch of a set.

        Args:
            hashes: Uniform hashes of the elements, uint64 (m,). Repeated hashes count once.
            k: Number of hashes to keep, at least 2.

        Raises:
            UsageError: If k is less than 2, or the hashes are not one row of whole numbers that are
                0 or more.
        """
        NumberRange(2).require("k", k)
        return cls(k, np.unique(require_hashes(hashes))[:k])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BottomK)
            and self.k == other.k
            and np.array_equal(self.hashes, other.hashes)
        )

    def __hash__(self) -> int:
        return hash((self.k, self.hashes.tobytes()))

    @property
    def exact(self) -> bool:
        """True if the sketch contains the whole set."""
        return len(self.hashes) < self.k

    @property
    def cardinality(self) -> float:
        """The estimated number of distinct elements.

        It is (k − 1) / (k-th smallest hash as a fraction). The estimate is unbiased, with a
        relative error of about 1/√(k − 2).
        """
        if self.exact:
            return float(len(self.hashes))
        return (self.k - 1) / ((float(self.hashes[-1]) + 1) / FULL)

    def merge(self, *others: "BottomK") -> "BottomK":
        """Returns the sketch of the union.

        Raises:
            IncompatibleError: If the sketches have different k.
        """
        return reduce(BottomK._merge, others, self)

    def _merge(self, other: "BottomK") -> "BottomK":
        self._require_same_k(other)
        return BottomK(self.k, np.union1d(self.hashes, other.hashes)[: self.k])

    def _require_same_k(self, other: "BottomK") -> None:
        if self.k != other.k:
            raise IncompatibleError(
                f"sketches of k={self.k} and k={other.k} are not comparable; use the same k"
            )

    @check_arguments
    def jaccard(self, other: "BottomK") -> float:
        """Returns the estimated Jaccard similarity |A ∩ B| / |A ∪ B|.

        It is the share of the k smallest hashes of the union that are in both sets. The similarity
        of two empty sets is 0.
        """
        union = self._merge(other).hashes
        return len(self._both(other, union)) / len(union) if len(union) else 0.0

    def _both(self, other: "BottomK", union: np.ndarray) -> np.ndarray:
        return np.intersect1d(
            np.intersect1d(self.hashes, other.hashes, assume_unique=True), union, assume_unique=True
        )

    @check_arguments
    def intersection(self, other: "BottomK") -> float:
        """Returns the estimated size of the intersection, |A ∩ B|."""
        return self.jaccard(other) * self._merge(other).cardinality

    @check_arguments
    def containment_in(self, other: "BottomK") -> float:
        """Returns the estimated containment |A ∩ B| / |A| of this set in the other one, at most 1.

        Elements of this sketch that are at most the other sketch's largest hash are in the other
        set exactly if they are in its sketch. Their share is the estimate. Unlike an estimate from
        |A ∪ B|, it does not become worse if the other set is large. The result is NaN if there are
        no such elements.
        """
        self._require_same_k(other)
        if not len(self.hashes):
            return 0.0
        known = self.hashes if other.exact else self.hashes[self.hashes <= other.hashes[-1]]
        if not len(known):
            return math.nan
        return len(np.intersect1d(known, other.hashes, assume_unique=True)) / len(known)

    @check_arguments
    def containment_error(self, other: "BottomK", containment: float) -> float:
        """Returns the standard error of `containment_in`.

        Args:
            other: Sketch of the containing set.
            containment: Estimated containment, in [0, 1].

        Returns:
            Infinity if no element of this sketch can be looked up in the other one.

        Raises:
            UsageError: If the containment is outside 0 to 1.
        """
        SHARE.require("containment", containment)
        known = len(self.hashes)
        if not other.exact:
            known = int((self.hashes <= other.hashes[-1]).sum())
        return math.sqrt(containment * (1 - containment) / known) if known else math.inf
