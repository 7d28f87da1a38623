"""The changes that one atomic step makes to a store."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from nearkin.errors import RacedError
from nearkin.index.entry import RESERVED, Entry, Outcome

TOUCHED = "touched"
"""The kind of log events that a migration follows."""


ERASED = "erased"
"""The kind of log events of documents that were deleted by request."""


class KeyedEntry(NamedTuple):
    """An entry with the keys of the buckets that it is in, enters or leaves."""

    entry: Entry
    keys: np.ndarray | None
    """The band keys, uint64 (b,), or None if the entry is in no bucket."""


def number_documents(new: Sequence[KeyedEntry], take: Callable[[int], list[int]]) -> list[int]:
    """Returns the numbers of new documents. Those without a number get one that `take` returns."""
    given = [entry.ref for entry, _ in new]
    fresh = iter(take(given.count(0)))
    return [ref or next(fresh) for ref in given]


def count_leaders(new: Sequence[KeyedEntry]) -> int:
    """Returns the number of representatives among new documents."""
    return sum(entry.is_leader for entry, _ in new)


class LeaderSnapshot(NamedTuple):
    """A document as it was read, for a step that deletes it or makes it a member of another one.

    Each step that resolves a document to a representative names the representative in
    `Changes.required_leaders`. Each step that removes a representative says here which documents
    were resolved to it. A store lets two such steps pass only one after the other, so that no
    document stays resolved to a missing one.
    """

    entry: Entry
    members: frozenset[int]
    """The numbers of the documents that are resolved to it."""

    def require_unchanged(self, leader: str | None, members: Iterable[int]) -> None:
        """Verifies that the store holds what was read."""
        if leader != self.entry.leader or frozenset(members) != self.members:
            raise RacedError("a document, or one that is resolved to it, was changed meanwhile")


class Event(NamedTuple):
    """A line of the change log. It contains no content of documents."""

    kind: str
    """The kind of event: `erased`, `merged`, or `touched` for a document that was written or
    deleted while the index was copied. An index with a history has more kinds."""
    scope: str
    id: str
    into: str
    """The cluster that the cluster `id` was merged into. In a history, the representative that the
    document `id` is resolved to, or the other document of a decision. Empty for other kinds."""
    at: float
    """The time of the event, in seconds of the clock."""
    cluster: str = ""
    """The cluster of the document, in a history."""
    actor: str = ""
    """The name of the token or program that made the step, in a history."""

    @property
    def row(self) -> tuple[str, str, str, str, float]:
        """The line as stores write it. They have no fields for what only a history has."""
        into = self.into
        if self.actor:
            into = RESERVED + json.dumps([self.into, self.cluster, self.actor])
        return self.kind, self.scope, self.id, into, self.at

    @classmethod
    def of_row(cls, kind: str, scope: str, id: str, into: str, at: float) -> Self:
        """Returns the line that a store has written."""
        if not into.startswith(RESERVED):
            return cls(kind, scope, id, into, at)
        into, cluster, actor = json.loads(into[1:])
        return cls(kind, scope, id, into, at, cluster, actor)


class LogPortion(NamedTuple):
    """Some lines of the change log of a store that is not divided into shards."""

    lines: list[tuple[int, Event]]
    """The lines with their numbers, ascending. No line will be written with a smaller number."""
    dropped: int
    """The number of the last line that was deleted, or 0."""
    end: int
    """The number of the last line that the log had when it was read, or a smaller one."""


@dataclass(frozen=True)
class Change:
    """A line of the history of an index.

    Attributes:
        kind: `inserted` (as a representative), `resolved` (to `into`), `replaced`, `promoted`,
            `renamed` (its cluster), `merged` (its cluster, into `into`), `erased` (by request),
            `purged`, `expired`, `withdrawn` (a step over shards failed), `decided-same`,
            `decided-different` or `key-rotated`.
        scope: The scope of the document; empty for a change of the whole index.
        id: The id of the document; of a merge, the id of the cluster that ended.
        into: The representative that the document is resolved to, the cluster that another one was
            merged into, or the other document of a decision. Otherwise empty.
        cluster: The cluster of the document after the change, or before its deletion.
        at: The time, in seconds since 1970.
        actor: The token, `library`, `command line`, or another name of the one who did it.
        cursor: The cursor with which `changes` continues after this change.
    """

    kind: str
    scope: str
    id: str
    into: str
    cluster: str
    at: float
    actor: str
    cursor: str


@dataclass(frozen=True)
class ChangePage:
    """A page of the history of an index.

    Attributes:
        changes: The changes, oldest first.
        next: The cursor of the next page, also if nothing has happened since.
        has_more: True if other changes follow already.
    """

    changes: tuple[Change, ...]
    next: str
    has_more: bool


class Promotion(NamedTuple):
    """A member that becomes a representative, because its own one is removed or changed."""

    entry: Entry
    """The member as it is after the step."""
    previous: str
    """The id of its previous representative."""


@dataclass
class Changes:
    """The changes that one atomic step makes to a store, in this order.

    Attributes:
        dropped: Documents that are deleted, with the keys of their postings.
        unposted: Documents that leave their buckets.
        changed: Existing documents, as they are after the step.
        new: Documents whose ids must not exist, except among `dropped`. The store numbers those
            that have no number.
        posted: Existing documents that enter buckets. They leave them first if they are in them
            in another role.
        required_leaders: Representatives that must exist, and be representatives, before the step.
        leader_snapshots: Documents that are deleted or stop being representatives, as they must
            still be. Each is among `present`.
        expected: Documents of `changed` as they were read. Each must still be resolved to the same
            representative.
        postings_added: Postings and their keys, of documents on other shards, and of fingerprints
            of passages.
        postings_removed: Document numbers and keys, of the same postings. They are applied before
            `postings_added`.
        promoted: Documents of `changed` that become representatives. A store does not need them.
        outcomes: The outcomes of the upserts of the step. A store does not need them.
        may_overflow: True if a bucket may exceed its capacity. A store counts postings only then.
        invalidates_caches: True if cached resolutions of other processes may become wrong. The
            generation of the store rises then.
        epoch: Epoch of the store under which the step was made; None for steps of the migration.
        events: Lines for the change log.
        keeps_log: True if the change log is a history, whose lines are deleted by their age only.
    """

    dropped: list[KeyedEntry] = field(default_factory=list)
    unposted: list[KeyedEntry] = field(default_factory=list)
    changed: list[Entry] = field(default_factory=list)
    new: list[KeyedEntry] = field(default_factory=list)
    posted: list[KeyedEntry] = field(default_factory=list)
    required_leaders: list[Entry] = field(default_factory=list)
    leader_snapshots: list[LeaderSnapshot] = field(default_factory=list)
    expected: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    postings_added: list[tuple[int, np.ndarray]] = field(default_factory=list)
    postings_removed: list[tuple[int, np.ndarray]] = field(default_factory=list)
    promoted: list[Promotion] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    may_overflow: bool = False
    invalidates_caches: bool = False
    epoch: int | None = None
    keeps_log: bool = False

    def __bool__(self) -> bool:
        return any(
            (
                self.dropped,
                self.unposted,
                self.changed,
                self.new,
                self.posted,
                self.events,
                self.postings_added,
                self.postings_removed,
            )
        )

    @property
    def present(self) -> Iterator[Entry]:
        """The documents that must exist under their numbers before the step."""
        for keyed in (*self.dropped, *self.unposted, *self.posted):
            yield keyed.entry
        yield from self.changed


@dataclass
class StepEffects:
    """The effects of steps that calls of an index do not return.

    Attributes:
        removed: The deleted documents, by scope and id.
        promoted: The members that became representatives.
    """

    removed: dict[tuple[str, str], Entry] = field(default_factory=dict)
    promoted: list[Promotion] = field(default_factory=list)

    def add(self, changes: Changes) -> None:
        """Adds a step that was applied."""
        self.removed |= {(entry.scope, entry.id): entry for entry, _ in changes.dropped}
        self.promoted += changes.promoted


class StepObservers(NamedTuple):
    """Functions that are called with each step of a thread."""

    before: tuple[Callable[[Changes], None], ...] = ()
    """These may add conditions and documents to a step before it is applied."""
    after: tuple[Callable[[Changes], None], ...] = ()
    """These are called when a step was applied."""


NO_OBSERVERS = StepObservers()
OBSERVERS: ContextVar[StepObservers] = ContextVar("OBSERVERS", default=NO_OBSERVERS)
"""The observers of the steps of this thread."""


@contextmanager
def observe_steps(
    before: Callable[[Changes], None] | None = None,
    after: Callable[[Changes], None] | None = None,
) -> Iterator[None]:
    """Calls functions with the steps that this thread applies within the context.

    Args:
        before: May add conditions and documents to a step before it is applied.
        after: Is called when a step was applied.
    """
    observers = OBSERVERS.get()
    token = OBSERVERS.set(
        StepObservers(
            before=(*observers.before, *([] if before is None else [before])),
            after=(*observers.after, *([] if after is None else [after])),
        )
    )
    try:
        yield
    finally:
        OBSERVERS.reset(token)
