"""The changes that one atomic step makes to a store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, overload

import numpy as np

from nearkin.errors import RacedError
from nearkin.index.entry import Entry

TOUCHED = "touched"
"""The kind of log events that a migration follows."""


class KeyedEntry(NamedTuple):
    """An entry with the keys of the buckets that it is in, enters or leaves."""

    entry: Entry
    keys: np.ndarray | None
    """The band keys, uint64 (b,), or None if the entry is in no bucket."""


@dataclass(eq=False)
class NewDocuments(Sequence[KeyedEntry]):
    """New documents of one scope in columns, which are also a sequence of their entries.

    A store that keeps documents in columns takes them as they are. For other stores the entries are
    made when they are looked at.

    Attributes:
        scope: Scope of the n documents.
        ids: Ids of the documents.
        digests: Digests of their contents.
        leaders: Ids of the representatives that they are resolved to, or their own.
        clusters: Ids of their clusters.
        similarities: Exact similarities to the leaders.
        sizes: Numbers of rows of their payloads.
        now: Time of insertion, in seconds of the clock.
        posted: True for documents that enter buckets.
        signatures: Signatures of posted documents as they are stored; empty for others.
        texts: Texts that are kept, or None.
        payloads: Payloads that are kept.
        keys: Band keys of the posted documents, one after the other, uint64 (total,).
        key_counts: Numbers of keys of the documents.
    """

    scope: str
    ids: Sequence[str]
    digests: Sequence[bytes]
    leaders: Sequence[str]
    clusters: Sequence[str]
    similarities: Sequence[float]
    sizes: Sequence[int]
    now: float
    posted: Sequence[bool]
    signatures: Sequence[bytes]
    texts: Sequence[str | None]
    payloads: Sequence[bytes]
    keys: np.ndarray
    key_counts: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, position: int) -> KeyedEntry: ...

    @overload
    def __getitem__(self, position: slice) -> list[KeyedEntry]: ...

    def __getitem__(self, position: int | slice) -> KeyedEntry | list[KeyedEntry]:
        return self._entries[position]

    def __iter__(self) -> Iterator[KeyedEntry]:
        return iter(self._entries)

    @property
    def are_leaders(self) -> list[bool]:
        """True for documents that are representatives."""
        return [leader == id for leader, id in zip(self.leaders, self.ids, strict=True)]

    @cached_property
    def _entries(self) -> list[KeyedEntry]:
        starts = list(accumulate(self.key_counts, initial=0))
        return [
            KeyedEntry(
                Entry(
                    scope=self.scope,
                    id=id,
                    ref=0,
                    digest=self.digests[i],
                    leader=self.leaders[i],
                    cluster=self.clusters[i],
                    similarity=self.similarities[i],
                    size=self.sizes[i],
                    created=self.now,
                    seen=self.now,
                    posted=self.posted[i],
                    signature=self.signatures[i],
                    text=self.texts[i],
                    payload=self.payloads[i],
                ),
                self.keys[starts[i] : starts[i + 1]] if self.posted[i] else None,
            )
            for i, id in enumerate(self.ids)
        ]


def number_documents(new: Sequence[KeyedEntry], take: Callable[[int], list[int]]) -> list[int]:
    """Returns the numbers of new documents. Those without a number get one that `take` returns."""
    given = [0] * len(new) if isinstance(new, NewDocuments) else [entry.ref for entry, _ in new]
    fresh = iter(take(given.count(0)))
    return [ref or next(fresh) for ref in given]


def count_leaders(new: Sequence[KeyedEntry]) -> int:
    """Returns the number of representatives among new documents."""
    if isinstance(new, NewDocuments):
        return sum(new.are_leaders)
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
    deleted while the index was copied."""
    scope: str
    id: str
    into: str
    """The cluster that the cluster `id` was merged into; empty for other kinds."""
    at: float
    """The time of the event, in seconds of the clock."""


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
        may_overflow: True if a bucket may exceed its capacity. A store counts postings only then.
        invalidates_caches: True if cached resolutions of other processes may become wrong. The
            generation of the store rises then.
        epoch: Epoch of the store under which the step was made; None for steps of the migration.
        events: Lines for the change log.
    """

    dropped: list[KeyedEntry] = field(default_factory=list)
    unposted: list[KeyedEntry] = field(default_factory=list)
    changed: list[Entry] = field(default_factory=list)
    new: Sequence[KeyedEntry] = ()
    posted: list[KeyedEntry] = field(default_factory=list)
    required_leaders: list[Entry] = field(default_factory=list)
    leader_snapshots: list[LeaderSnapshot] = field(default_factory=list)
    expected: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    postings_added: list[tuple[int, np.ndarray]] = field(default_factory=list)
    postings_removed: list[tuple[int, np.ndarray]] = field(default_factory=list)
    may_overflow: bool = False
    invalidates_caches: bool = False
    epoch: int | None = None

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
