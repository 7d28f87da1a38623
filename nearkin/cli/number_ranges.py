"""The ranges of options that are numbers. They are checked before anything is read or written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nearkin.cli.given_options import GivenOptions, flag_of


@dataclass(frozen=True)
class NumberRange:
    """The values that an option may have.

    Attributes:
        least: The minimum.
        most: The maximum, or infinity. Infinity itself is never a value.
        excludes_least: Whether the minimum is not a value.
        excludes_most: Whether the maximum is not a value.

    Examples:
        >>> share = NumberRange(0, 1, excludes_least=True)
        >>> [share.contains(value) for value in (0.0, 0.8, 1.0, float("nan"))]
        [False, True, True, False]
        >>> str(share), str(NumberRange(1)), str(NumberRange(0, 63))
        ('above 0 and at most 1', 'at least 1', 'from 0 to 63')
    """

    least: float
    most: float = math.inf
    excludes_least: bool = False
    excludes_most: bool = False

    def contains(self, value: float) -> bool:
        """Returns whether a number is in the range."""
        is_above = value > self.least if self.excludes_least else value >= self.least
        is_below = value < self.most if self.excludes_most else value <= self.most
        return is_above and is_below and value != math.inf

    def __str__(self) -> str:
        if not (self.excludes_least or self.excludes_most) and self.most < math.inf:
            return f"from {self.least:,} to {self.most:,}"
        least = f"above {self.least:,}" if self.excludes_least else f"at least {self.least:,}"
        if self.most == math.inf:
            return least
        most = f"below {self.most:,}" if self.excludes_most else f"at most {self.most:,}"
        return f"{least} and {most}"


SHARE = NumberRange(0, 1)
OPEN_SHARE = NumberRange(0, 1, excludes_least=True, excludes_most=True)
COUNT = NumberRange(1)
COUNT_OR_NONE = NumberRange(0)
ABOVE_ZERO = NumberRange(0, excludes_least=True)
MOST_DOCUMENTS = 10**12
"""The largest number of documents that is planned for or generated."""
MOST_THREADS = 4096
DAYS_OF_1000_YEARS = 365_000
RANGES = {
    "threshold": NumberRange(0, 1, excludes_least=True),
    "vector_threshold": NumberRange(0, 1, excludes_least=True),
    "recall": OPEN_SHARE,
    "precision": NumberRange(0, 1, excludes_least=True),
    "max_df": OPEN_SHARE,
    "fail_above": SHARE,
    "floor": SHARE,
    "max_lost": SHARE,
    "related": OPEN_SHARE,
    "keep_up_to": COUNT,
    "group_seed": NumberRange(0, 2**64 - 1),
    "most_pairs": COUNT_OR_NONE,
    "limit": COUNT,
    "min_tokens": NumberRange(2, 1 << 20),
    "passages": NumberRange(2, 1 << 20),
    "min_left": COUNT_OR_NONE,
    "duplicates": NumberRange(0, 1, excludes_most=True),
    "error": NumberRange(0, 1, excludes_least=True),
    "distance": COUNT_OR_NONE,
    "k": COUNT,
    "bits": COUNT,
    "slot_bits": NumberRange(1, 32),
    "spec_version": NumberRange(1, 2),
    "seed": NumberRange(0, 2**64 - 1),
    "bands": COUNT,
    "rows": COUNT,
    "tables": COUNT,
    "probes": COUNT_OR_NONE,
    "hot_bucket_size": NumberRange(2),
    "pair_budget": NumberRange(0),
    "fanout": COUNT,
    "workers": NumberRange(1, MOST_THREADS),
    "cores": NumberRange(1),
    "budget": COUNT,
    "documents": NumberRange(1, MOST_DOCUMENTS),
    "largest": NumberRange(100, MOST_DOCUMENTS),
    "words": COUNT,
    "similar_pairs": COUNT_OR_NONE,
    "shingles": COUNT,
    "dimensions": NumberRange(1, 65_536),
    "vector_dimensions": NumberRange(1, 65_536),
    "text_bytes": ABOVE_ZERO,
    "latency": ABOVE_ZERO,
    "core_hour_price": COUNT_OR_NONE,
    "gb_month_price": COUNT_OR_NONE,
    "sample": COUNT,
    "ask": COUNT,
    "removed": COUNT_OR_NONE,
    "http": NumberRange(1, 65_535),
    "top": COUNT,
    "show": COUNT,
    "batch": COUNT,
    "max_event": COUNT,
    "days": NumberRange(0, DAYS_OF_1000_YEARS, excludes_least=True),
    "contaminated": COUNT,
    "clustered": SHARE,
    "exact": SHARE,
    "boilerplate": SHARE,
    "copies": NumberRange(1, 1000),
    "hot_clusters": COUNT_OR_NONE,
    "hot_size": NumberRange(1, MOST_DOCUMENTS),
    "hostile": COUNT_OR_NONE,
    "files": NumberRange(1, 100_000),
}
"""The ranges of all options that are numbers, by the names of the parameters.

A limit that depends on another option, for example on the measure, is checked where both are known.
"""


def require_in_range(given: GivenOptions, values: Mapping[str, object]) -> None:
    """Requires that the given options which are numbers are in their ranges."""
    from nearkin.errors import UsageError

    for name, range_of_option in RANGES.items():
        value = values.get(name)
        if name not in given or not isinstance(value, int | float):
            continue
        if not range_of_option.contains(value):
            raise UsageError(
                f"{flag_of(name)} {value} is out of range; it must be {range_of_option}"
            )
