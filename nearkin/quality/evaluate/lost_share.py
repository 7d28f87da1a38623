"""The information that the removed documents of one source lost, as records and reports hold it."""

from typing import NamedTuple


class LostShare(NamedTuple):
    """The information that the removed documents of one source lost."""

    source: str
    """The value of the column of sources; empty for all removed documents."""
    removed: int
    """The number of removed documents that were measured."""
    mean: float
    """The mean share of a removed document's shingles that the kept one lacks."""
    worst: float
    """The largest share."""
    shingles: int
    """The number of shingles that the kept documents lack, summed over the removed documents."""
