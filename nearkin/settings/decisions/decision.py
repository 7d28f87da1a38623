"""Decisions about pairs of documents, and the ones that count where they contradict each other."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from nearkin.errors import UsageError

LISTED_IDS = 10
"""The number of ids of a chain of decisions that a message lists."""
EARLIEST_TIME = datetime(1, 1, 2, tzinfo=UTC)
LATEST_TIME = datetime(9999, 12, 30, tzinfo=UTC)
"""The range of times of decisions. All of them exist in every time zone."""


class Verdict(StrEnum):
    """The verdicts about the two documents of a pair."""

    SAME = "same"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Decision:
    """A decision of a person about a pair of documents.

    Attributes:
        id_a: Id of one document.
        id_b: Id of the other document.
        verdict: Whether the two are the same document for the purpose of deduplication.
        by: Name of who decided, or None if it is not known.
        at: Time of the decision with its zone, or None if it is not known.

    Examples:
        >>> Decision("b", "a", Verdict.SAME).pair
        ('a', 'b')
    """

    id_a: str
    id_b: str
    verdict: Verdict
    by: str | None = None
    at: datetime | None = None

    def __post_init__(self) -> None:
        if self.id_a == self.id_b:
            raise UsageError(
                f"the decision about {self.id_a!r} and {self.id_b!r} is about a document and "
                "itself; give the ids of two documents"
            )
        if self.at is not None and self.at.tzinfo is None:
            raise UsageError(
                f"the time {self.at.isoformat()} of the decision about {self.id_a!r} and "
                f"{self.id_b!r} has no time zone; add Z or an offset, for example "
                "2026-05-01T10:30:00Z"
            )
        if self.at is not None and not EARLIEST_TIME <= self.at <= LATEST_TIME:
            raise UsageError(
                f"the time {self.at.isoformat()} of the decision about {self.id_a!r} and "
                f"{self.id_b!r} is out of range; give the time of the decision, or none"
            )

    @property
    def pair(self) -> tuple[str, str]:
        """The two ids, the smaller one first."""
        return (self.id_a, self.id_b) if self.id_a < self.id_b else (self.id_b, self.id_a)


@dataclass(frozen=True)
class Decisions:
    """Decisions that do not contradict each other, at most one for each pair.

    Attributes:
        of_pairs: The decision that counts for each pair of ids, the smaller id first.
    """

    of_pairs: Mapping[tuple[str, str], Decision] = field(default_factory=dict)

    @classmethod
    def resolve(cls, decisions: Iterable[Decision], source: str = "decisions") -> "Decisions":
        """Returns the decisions that count: of two about one pair, the later one.

        Args:
            decisions: Decisions in any order.
            source: Name of their origin, for messages.

        Raises:
            UsageError: If two verdicts about a pair contradict each other and neither is later, or
                decisions `same` join two documents that are decided to be different.

        Examples:
            >>> from datetime import UTC, datetime
            >>> earlier = Decision("a", "b", Verdict.SAME, at=datetime(2026, 5, 1, tzinfo=UTC))
            >>> later = Decision("b", "a", Verdict.DIFFERENT, at=datetime(2026, 5, 2, tzinfo=UTC))
            >>> Decisions.resolve([later, earlier]).different
            [('a', 'b')]
        """
        about_pairs: dict[tuple[str, str], list[Decision]] = {}
        for decision in decisions:
            about_pairs.setdefault(decision.pair, []).append(decision)
        resolved = cls({pair: _find_valid(about, source) for pair, about in about_pairs.items()})
        resolved.require_consistent(source)
        return resolved

    def with_decision(self, decision: Decision, source: str = "decisions") -> "Decisions":
        """Returns these decisions and a later one, which replaces an earlier one about its pair.

        Args:
            decision: The later decision.
            source: Name of their origin, for messages.

        Raises:
            UsageError: If decisions `same` then join two documents that are decided to be
                different.
        """
        extended = Decisions({**self.of_pairs, decision.pair: decision})
        extended.require_consistent(source)
        return extended

    def with_time(self, decision: Decision) -> Decision:
        """Returns a decision with a time. Without one, it is later than the one about its pair.

        Args:
            decision: A decision that is made now.

        Raises:
            UsageError: If no time is later.
        """
        if decision.at is not None:
            return decision
        at = datetime.now(UTC)
        previous = self.of_pairs.get(decision.pair)
        if previous is not None and previous.at is not None:
            # the clock of the machine that wrote it may be ahead
            at = max(at, previous.at + timedelta(microseconds=1))
        return replace(decision, at=at)

    def updated(self, others: "Decisions") -> "Decisions":
        """Returns these decisions and others, without requiring that they agree.

        Of two about one pair, the later one counts, and `different` if neither is later. A decision
        without a time is earlier than one with a time.

        Args:
            others: Other decisions.

        Examples:
            >>> given = Decisions({("a", "b"): Decision("a", "b", Verdict.SAME)})
            >>> other = Decisions({("a", "b"): Decision("a", "b", Verdict.DIFFERENT)})
            >>> given.updated(other).different
            [('a', 'b')]
        """
        of_pairs = dict(self.of_pairs)
        for pair, other in others.of_pairs.items():
            known = of_pairs.get(pair)
            if known is None or _counts_more(other, known):
                of_pairs[pair] = other
        return Decisions(of_pairs)

    def require_consistent(self, source: str) -> None:
        """Requires that decisions `same` join no two documents that are decided to be different.

        Args:
            source: Name of their origin, for messages.

        Raises:
            UsageError: If they do. The message names the chain.
        """
        neighbours: dict[str, list[str]] = {}
        for first, second in self.same:
            neighbours.setdefault(first, []).append(second)
            neighbours.setdefault(second, []).append(first)
        groups = _number_groups(neighbours)
        for first, second in self.different:
            if first in groups and groups[first] == groups.get(second):
                chain = [repr(id) for id in _find_chain(neighbours, first, second)]
                if len(chain) > LISTED_IDS:
                    chain = [*chain[: LISTED_IDS - 1], "...", chain[-1]]
                raise UsageError(
                    f"{source} has the pair {first!r}, {second!r} as different, but decisions "
                    f"`same` join the two: {' = '.join(chain)}; correct one of these decisions"
                )

    def __len__(self) -> int:
        return len(self.of_pairs)

    def __contains__(self, pair: object) -> bool:
        return pair in self.of_pairs

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.of_pairs.values())

    @property
    def same(self) -> list[tuple[str, str]]:
        """The pairs that are decided to be the same document, in ascending order."""
        return self._pairs_of(Verdict.SAME)

    @property
    def different(self) -> list[tuple[str, str]]:
        """The pairs that are decided to be different documents, in ascending order."""
        return self._pairs_of(Verdict.DIFFERENT)

    def _pairs_of(self, verdict: Verdict) -> list[tuple[str, str]]:
        return sorted(pair for pair, known in self.of_pairs.items() if known.verdict == verdict)

    @property
    def fingerprint(self) -> str:
        """A hash of the pairs and their verdicts, 32 hexadecimal digits."""
        content = json.dumps([self.same, self.different]).encode()
        return hashlib.sha256(content).hexdigest()[:32]


def describe_time(at: datetime | None) -> str:
    """Returns the time of a decision for a message."""
    return "no time" if at is None else at.isoformat()


def _find_valid(about: Sequence[Decision], source: str) -> Decision:
    """Returns the decision about a pair that counts."""
    latest = about[0]
    for decision in about:
        if latest.at is None or _is_later(decision, latest):
            latest = decision
    for decision in about:
        if decision.verdict != latest.verdict and not _is_later(latest, decision):
            first, second = latest.pair
            raise UsageError(
                f"{source} has the pair {first!r}, {second!r} as same and as different, and "
                f"neither is later ({describe_time(latest.at)} and {describe_time(decision.at)}); "
                "delete one of them"
            )
    return latest


def _is_later(decision: Decision, other: Decision) -> bool:
    """Returns whether a decision is later. Without a time, it is not known which one is."""
    return decision.at is not None and other.at is not None and decision.at > other.at


def _counts_more(decision: Decision, other: Decision) -> bool:
    """Returns whether a decision is later, or says `different` if neither is later."""
    if decision.at is None or other.at is None:
        if (decision.at is None) != (other.at is None):
            return other.at is None
    elif decision.at != other.at:
        return decision.at > other.at
    return decision.verdict == Verdict.DIFFERENT


def _number_groups(neighbours: Mapping[str, list[str]]) -> dict[str, int]:
    """Returns the number of each document's connected group, by its id."""
    numbers: dict[str, int] = {}
    for number, start in enumerate(neighbours):
        open_ids = [start] if start not in numbers else []
        numbers.setdefault(start, number)
        while open_ids:
            for id in neighbours[open_ids.pop()]:
                if id not in numbers:
                    numbers[id] = number
                    open_ids.append(id)
    return numbers


def _find_chain(neighbours: Mapping[str, list[str]], first: str, last: str) -> list[str]:
    """Returns the ids of a shortest chain between two documents of one group."""
    previous = {last: last}
    open_ids = deque([last])
    while first not in previous:
        id = open_ids.popleft()
        for neighbour in neighbours[id]:
            if neighbour not in previous:
                previous[neighbour] = id
                open_ids.append(neighbour)
    chain = [first]
    while chain[-1] != last:
        chain.append(previous[chain[-1]])
    return chain
