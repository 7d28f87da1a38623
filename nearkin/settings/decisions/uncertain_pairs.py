"""Pairs of documents that a person should decide about, the most uncertain ones first."""

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class UncertainPair(NamedTuple):
    """Two documents. Pairs are compared by their uncertainty, then by their ids."""

    uncertainty: float
    """The distance of the similarity from the threshold."""
    id_a: str
    id_b: str
    similarity: float

    @classmethod
    def of(cls, id: str, other: str, similarity: float, threshold: float) -> "UncertainPair":
        """Returns a pair with the smaller id first."""
        first, second = sorted((id, other))
        return cls(round(abs(similarity - threshold), 12), first, second, similarity)


def most_uncertain(pairs: Iterable[UncertainPair], limit: int) -> list[UncertainPair]:
    """Returns the most uncertain pairs in order, each once. A pair may come twice."""
    return list(dict.fromkeys(heapq.nsmallest(2 * limit, pairs)))[:limit]
