"""The groups of a split, and its numbers."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from nearkin.engine.options import RunOptions, split_column_names
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import require_seed
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean

SUM_TOLERANCE = 1e-6
"""The largest difference of the sum of all shares from 1."""
GROUP_NAME = re.compile(r"\w[\w-]{0,59}")
"""The form of the name of a group, which is the name of a folder too. Names of folders have at most
255 bytes, and a character has at most four."""
NAMES = {2: ("train", "test"), 3: ("train", "validation", "test")}
"""The names of two and of three groups."""


@dataclass(frozen=True)
class SplitGroups:
    """The groups into which a corpus is split.

    Attributes:
        shares: Share of each group, which add up to 1.
        names: Names of the groups. The default is `train` and `test` for two groups, `validation`
            between them for three, and `group-1`, `group-2` and so on for more.
        seed: Seed of the hashes that select groups.

    Examples:
        >>> SplitGroups((0.9, 0.1)).names
        ('train', 'test')
    """

    shares: tuple[float, ...]
    names: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        shown = name_setting("groups", ",".join(f"{share:g}" for share in self.shares))
        if len(self.shares) < 2:
            raise UsageError(f"{shown} is not valid; give the shares of two or more groups")
        if not all(0 < share < 1 for share in self.shares):
            raise UsageError(f"{shown} is not valid; each share must be above 0 and below 1")
        total = math.fsum(self.shares)
        if abs(total - 1) > SUM_TOLERANCE:
            raise UsageError(f"{shown} adds up to {total:g}; the shares must add up to 1")
        if not self.names:
            numbered = tuple(f"group-{number + 1}" for number in range(len(self.shares)))
            object.__setattr__(self, "names", NAMES.get(len(self.shares), numbered))
        self._check_names()
        require_seed("group_seed", self.seed)

    def _check_names(self) -> None:
        shown = name_setting("names", ",".join(self.names))
        if len(self.names) != len(self.shares):
            raise UsageError(
                f"{shown} names {len(self.names)} groups, but there are {len(self.shares)}; give "
                "a name for each"
            )
        if len({name.casefold() for name in self.names}) < len(self.names):
            raise UsageError(f"{shown} is not valid; the names must differ, not only by case")
        for name in self.names:
            if not GROUP_NAME.fullmatch(name):
                raise UsageError(
                    f"{name_setting('names', name)} is not valid; a name consists of up to 60 "
                    "letters, digits, _ and -"
                )

    @classmethod
    def parse(cls, shares: str, names: str | None, seed: int) -> "SplitGroups":
        """Returns the groups that texts describe.

        Examples:
            >>> SplitGroups.parse("0.8,0.1,0.1", None, 0).shares
            (0.8, 0.1, 0.1)
        """
        try:
            numbers = tuple(float(part) for part in shares.split(","))
        except ValueError as error:
            raise UsageError(
                f"{name_setting('groups', shares)} is not of the form 0.8,0.1,0.1"
            ) from error
        return cls(numbers, split_column_names(names), seed)


class GroupFacts(TypedDict):
    """A group of a split."""

    name: str
    share: float
    """The share that was asked for."""
    documents: int
    clusters: int


class ClusterFacts(TypedDict):
    """A cluster of a split."""

    id: str
    """The id of its first document in keep order."""
    documents: int
    group: str


class SplitFacts(TypedDict):
    """The numbers of a split."""

    documents: int
    clusters: int
    groups: list[GroupFacts]
    pairs: int
    """The number of pairs of near-duplicates, exact duplicates included."""
    pairs_of_random_split: int
    """The number of these pairs that a random assignment of single documents is expected to
    separate."""
    largest_cluster: ClusterFacts | None


def require_splittable(options: RunOptions) -> RunOptions:
    """Returns the options of a run, after requiring that it compares all documents."""
    separated = "it leaves pairs out, which a split would separate; leave it out"
    options.require_defaults(
        "a split",
        {
            "block_by": separated,
            "across": separated,
            "fields": "documents are compared by one column; leave them out, and name one column",
        },
    )
    if options.acceptance is not None:
        raise UsageError(
            f"a condition ({options.acceptance}) cannot be combined with a split, which keeps all "
            f"near-duplicates together; leave out {name_setting('accept')} and "
            f"{name_setting('max_lost')}"
        )
    if options.related is not None:
        raise UsageError(
            f"{name_setting('related', options.related)} cannot be combined with a split, which "
            "keeps documents together from the threshold on; give "
            f"{name_setting('threshold', options.related)} instead"
        )
    return options


def describe_group_sizes(facts: SplitFacts) -> str:
    """Returns the names of the groups with their numbers of documents."""
    return ", ".join(f"{group['name']} {group['documents']:,}" for group in facts["groups"])


def require_group(name: str, names: Sequence[str]) -> None:
    """Requires that a split has a group."""
    if name not in names:
        raise UsageError(
            f"there is no group {name!r}; the groups are {', '.join(names)}"
            f"{did_you_mean(name, names)}"
        )
