"""What an index keeps of a document, and what it says about one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import RacedError, UsageError

RESERVED = "\x1f"
"""Scopes that begin so hold what the system itself keeps; services let nobody name them."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MOST_NAME = 1024
"""The longest scope or id, in bytes."""
REF_SHIFT, MEMBER, MOST_SIZE = 24, 1 << 23, (1 << 23) - 1
"""A posting is ref << 24 | member << 23 | size: who it is of, whether that is no representative, and the size, which decides
before anything is fetched whether it can be similar at all."""


def require_public_name(name: str, what: str) -> str:
    """Returns a scope or an id that came from outside, if clients may use it.

    Args:
        name: The scope or the id.
        what: The kind of name, for the message.

    Raises:
        UsageError: If the name is empty, too long or has control characters, with which reserved scopes begin.
    """
    if not name or CONTROL.search(name) or len(name.encode("utf-8", "surrogatepass")) > MOST_NAME:
        raise UsageError(f"{what} must be 1 to {MOST_NAME} bytes without control characters")
    return name


class Entry(NamedTuple):
    """A document of an index.

    A *representative* is its own leader and has postings; any other document is resolved to one. The text (or, where texts
    are not kept, the payload of exact comparison) stays with every document, so that a cluster can be made anew when its
    representative goes.
    """

    scope: str
    id: str
    ref: int
    """Number given by the store; 0 before."""
    digest: bytes
    """128 bits of SHA-256 over the content."""
    leader: str
    """Id of the representative that it is resolved to."""
    cluster: str
    """Id of its cluster: it stays when another representative is elected."""
    similarity: float
    """To the leader, exact."""
    size: int
    """Rows of its payload: distinct shingles; 0 for vectors, whose size says nothing."""
    created: float
    seen: float
    """Seconds of the clock: when it came, and when it was last matched."""
    posted: bool
    """Whether it stands in buckets: a representative, until its bucket's time is over; any document where all are posted."""
    signature: bytes
    text: str | None
    payload: bytes
    """Columns of the payload, one after the other; empty where there is text."""

    @property
    def is_leader(self) -> bool:
        """Whether others may be resolved to it."""
        return self.leader == self.id

    @property
    def word(self) -> int:
        """What stands in buckets for it."""
        return self.ref << REF_SHIFT | (0 if self.is_leader else MEMBER) | min(self.size, MOST_SIZE)


def content_size(entries: "Iterable[Entry]") -> int:
    """Returns the bytes of signatures, texts and payloads."""
    return sum(len(entry.signature) + len(entry.text or "") + len(entry.payload) for entry in entries)


def without_content(entry: Entry) -> Entry:
    """Returns an entry as listings have it: without signature, text and payload, which are nearly all of its bytes."""
    return entry._replace(signature=b"", text=None, payload=b"")


class Postings(NamedTuple):
    """Buckets, one after the other."""

    words: np.ndarray
    """int64 (total,)"""
    offsets: np.ndarray
    """int64 (keys + 1,)"""


class PostingPortion(NamedTuple):
    """Some postings of a store, each with the bucket that holds it."""

    keys: np.ndarray
    """uint64 (n,): the buckets."""
    words: np.ndarray
    """int64 (n,): the postings."""
    place: Any
    """The place where the next portion begins; None after the last one."""


class Written(NamedTuple):
    """A document, and `keys`, uint64 (b,), of the buckets that it stands in, goes to, or leaves."""

    entry: Entry
    keys: np.ndarray | None


class Standing(NamedTuple):
    """How a document stood when it was read, for a step by which it goes, or is no representative any more.

    Each step that resolves a document to a representative, or writes again that it is, `needs` the representative; each step
    that takes one out says here who was resolved to it. A store lets the two pass only one after the other, so that nobody is
    left resolved to what is not there.
    """

    entry: Entry
    members: frozenset[int]
    """Numbers of the documents resolved to it."""

    def hold(self, leader: str | None, members: Iterable[int]) -> None:
        """What is found in the store is what was read.

        Args:
            leader: Of the document; None if that is not there.
            members: Numbers of the documents resolved to it.

        Raises:
            RacedError: It is not.
        """
        if leader != self.entry.leader or frozenset(members) != self.members:
            raise RacedError("a document, or what is resolved to it, has changed meanwhile")


TOUCHED = "touched"


class Event(NamedTuple):
    """A line of the log: what was erased, or which cluster went into which. It holds no content."""

    kind: str
    """`erased` or `merged`; `touched`: written or gone while the index was copied, for the copy to follow."""
    scope: str
    id: str
    into: str
    at: float


@dataclass
class Changes:
    """The changes that one atomic step makes to a store, in this order.

    Attributes:
        dropped: Documents that go, with the keys of their postings if they have any.
        unposted: Documents that leave their buckets.
        changed: Documents that are there, as they are to be.
        new: Documents whose ids must not be there, but for dropped ones; numbered by the store unless they have a number.
        posted: Documents that are there and go into buckets (out of them first, if they stand there as something else).
        needs: Representatives that must be there before, and be that.
        stood: Documents that go, or are representatives no more, as they must still stand; each among the present ones.
        resolved: Documents among `changed` as they were read: each must still be resolved to the same representative.
        entering: (posting, keys) of documents that are on other shards.
        leaving: (number, keys) of such documents; before `entering`.
        crowded: Whether a bucket may get more postings than it takes: only then a store has to count them.
        resolves: Whether what other processes remember of a document may become untrue: the store's generation rises.
        epoch: Epoch of the store under which the step was made; None for steps that belong to the move itself.
        events: Lines for the log.
    """

    dropped: list[Written] = field(default_factory=list)
    unposted: list[Written] = field(default_factory=list)
    changed: list[Entry] = field(default_factory=list)
    new: list[Written] = field(default_factory=list)
    posted: list[Written] = field(default_factory=list)
    needs: list[Entry] = field(default_factory=list)
    stood: list[Standing] = field(default_factory=list)
    resolved: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    entering: list[tuple[int, np.ndarray]] = field(default_factory=list)
    leaving: list[tuple[int, np.ndarray]] = field(default_factory=list)
    crowded: bool = False
    resolves: bool = False
    epoch: int | None = None

    def __bool__(self) -> bool:
        some = (self.dropped, self.unposted, self.changed, self.new, self.posted, self.events, self.entering, self.leaving)
        return any(some)

    @property
    def present(self) -> Iterator[Entry]:
        """Documents that must be there before, unchanged in number."""
        yield from (some.entry for some in (*self.dropped, *self.unposted, *self.posted))
        yield from self.changed


def batches(entries: Iterator[Entry], size: int = 200) -> Iterator[tuple[str, list[Entry]]]:
    """(scope, documents): so many at a time."""
    while some := list(islice(entries, size)):
        for scope in dict.fromkeys(entry.scope for entry in some):
            yield scope, [entry for entry in some if entry.scope == scope]


@dataclass(frozen=True)
class Match:
    """A stored document that resembles a queried one.

    Attributes:
        id: Of the document.
        cluster: Its cluster.
        similarity: Exact.
        shared: Bands (or probes) in common.
    """

    id: str
    cluster: str
    similarity: float
    shared: int


@dataclass(frozen=True)
class Outcome:
    """What became of an upserted document.

    Attributes:
        kind: `new` (a cluster of its own), `exact` (this very record is a representative already), `resolved` (known, to its
            representative), `match` (resolved now), `updated` (another text under a known id; resolved or new).
        layer: Which layer answered: `record`, `memory`, `store` or `search`.
        id: Of the document.
        cluster: Of its cluster.
        representative: Id of the document that stands for the cluster; its own for a new one.
        similarity: To the representative, exact.
        candidates: Documents that were compared.
        seconds: Of each phase; of a batch, divided by its documents.
    """

    kind: str
    layer: str
    id: str
    cluster: str
    representative: str
    similarity: float
    candidates: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def duplicate(self) -> bool:
        """Whether something else in the index stands for it."""
        return self.representative != self.id

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**self.__dict__, "seconds": dict(self.seconds), "duplicate": self.duplicate}


class MemberPosition(NamedTuple):
    """The place of a document in the listing of its cluster.

    Attributes:
        representative: Id of the document that stood for the cluster.
        number: Number of the document in the store; 0 for the representative itself.
    """

    representative: str
    number: int


@dataclass(frozen=True)
class ClusterPart:
    """Some of the documents of a cluster.

    Attributes:
        id: Id of the cluster.
        representative: Id of the document that stands for it.
        size: The number of its documents, the representative included.
        members: (id, similarity to the representative), the representative first, then in the order in which they came.
        created: When the representative came, in seconds.
        end: The place of the last of these documents, from which `Index.cluster_part_behind` goes on; None if no more follow.
    """

    id: str
    representative: str
    size: int
    members: tuple[tuple[str, float], ...]
    created: float
    end: MemberPosition | None = None


@dataclass(frozen=True)
class Cluster:
    """Documents that one stands for.

    Attributes:
        id: Id of the cluster.
        representative: Id of the document.
        members: (id, similarity to the representative), the representative first, then as they came.
    """

    id: str
    representative: str
    members: tuple[tuple[str, float], ...]
