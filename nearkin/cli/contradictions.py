"""Options that contradict each other. They are refused before anything is read or written."""

from collections.abc import Mapping
from dataclasses import dataclass

from nearkin.cli.option_groups import GivenOptions, flag_of


@dataclass(frozen=True)
class Contradiction:
    """Two options of which one command takes at most one.

    Attributes:
        first: The name of a parameter.
        second: The name of another parameter.
        reason: The part of the message that says why.
    """

    first: str
    second: str
    reason: str


CONTRADICTIONS = (
    Contradiction("distance", "threshold", "the distance replaces the threshold"),
    Contradiction("resume", "overwrite", "a resumed run keeps what an interrupted one left"),
    Contradiction("cut_list", "max_df", "the list replaces the share"),
    Contradiction("key_file", "base_hash", "keyed hashing is siphash"),
    Contradiction("budget", "k", "k follows from the budget"),
    Contradiction("run", "index", "two documents are looked up in one place"),
    *(
        Contradiction("vector", name, "vectors have no shingles")
        for name in ("shingle", "normalise", "stem", "weights", "max_df", "cut_list", "base_hash")
    ),
)
"""The pairs of options that exclude each other in every command that has both."""
LEAST = {
    "workers": 1,
    "tables": 1,
    "probes": 0,
    "fanout": 1,
    "hot_bucket_size": 2,
    "top": 1,
    "show": 1,
    "sample": 1,
    "batch": 1,
    "max_event": 1,
}
"""The minimum values of options that are whole numbers."""


def require_consistent(given: GivenOptions, values: Mapping[str, object]) -> None:
    """Requires that options do not contradict each other, and that numbers are large enough.

    Args:
        given: The options that were given.
        values: The values of all options, by the names of the parameters.

    Raises:
        UsageError: If two options exclude each other, or a number is too small.
    """
    from nearkin.errors import UsageError

    for pair in CONTRADICTIONS:
        if pair.first in given and pair.second in given:
            names = f"{flag_of(pair.first)} and {flag_of(pair.second)}"
            raise UsageError(f"{names} exclude each other: {pair.reason}; give one of them")
    for name, least in LEAST.items():
        value = values.get(name)
        if name in given and isinstance(value, int) and value < least:
            raise UsageError(f"{flag_of(name)} {value} is too small; it must be at least {least}")
