"""The records that an index keeps of its documents, and the answers that it gives about them."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import UsageError

RESERVED = "\x1f"
"""The first character of scopes that hold data of the system itself.

Callers cannot name such scopes.
"""
GOLDEN_SCOPE = f"{RESERVED}golden"
"""The scope of documents by which a server measures its recall. They are written as any other."""
HANDOVERS_PREFIX = f"{RESERVED}heirs:"
"""The prefix of the scopes that hold handovers. It is stored, so it does not change."""
VERSIONS_PREFIX = f"{RESERVED}versions:"
"""The prefix of the scopes that hold versions. It is stored, so it does not change."""
PROGRESS_PREFIX = f"{RESERVED}progress:"
"""The prefix of the scopes that hold the progress of consumers. It is stored, so it does not
change."""
SCOPES_PLACE = f"{RESERVED}scopes"
"""The scope that holds the settings of scopes. It is stored, so it does not change."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MAX_NAME_BYTES = 1024
"""The maximum length of a scope or an id, in bytes of UTF-8."""
REF_SHIFT = 24
"""The number of low bits of a posting that do not belong to the document's number."""
MEMBER = 1 << 23
"""The bit of a posting that is set if its document is not a representative."""
MAX_SIZE = (1 << 23) - 1
"""The mask of a posting's low bits, which hold the document's size, up to this value.

A posting is `ref << 24 | member << 23 | size`. The size decides before anything is fetched if the
document can be similar at all.
"""


def reserved_scope(prefix: str, scope: str) -> str:
    """Returns the reserved scope that belongs to a scope."""
    digest = hashlib.sha256(scope.encode()).digest()
    return f"{prefix}{base64.urlsafe_b64encode(digest).decode()}"


def require_public_name(name: str, what: str) -> str:
    """Returns a scope or an id that came from outside, if callers may use it."""
    too_long = len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
    if not name or too_long or CONTROL.search(name):
        raise UsageError(f"{what} must be 1 to {MAX_NAME_BYTES} bytes without control characters")
    return name


def require_scope(name: str) -> str:
    """Returns a scope if an index can store it."""
    return _require_name(name, "scope", 0)


def require_unreserved_scope(name: str) -> str:
    """Returns a scope if an index can store it and callers may write to it."""
    if require_scope(name).startswith(RESERVED):
        raise UsageError(
            f"the scope {name!r} is reserved for data of the index itself; choose a name that does "
            "not begin with a control character"
        )
    return name


def require_id(name: str) -> str:
    """Returns an id if an index can store it."""
    return _require_name(name, "id", 1)


def _require_name(name: str, what: str, min_bytes: int) -> str:
    try:
        size = len(name.encode())
    except (AttributeError, UnicodeEncodeError):
        size = -1
    if not min_bytes <= size <= MAX_NAME_BYTES or "\0" in name:
        raise UsageError(
            f"{what} {str(name)[:60]!r} is not valid: it must be a text of {min_bytes} to "
            f"{MAX_NAME_BYTES} bytes without NUL"
        )
    return name


class Entry(NamedTuple):
    """The record of one document of an index.

    A *representative* is its own leader and has postings. Any other document is resolved to a
    representative. The entry of a representative keeps the text of its document, or the payload of
    exact comparison if texts are not stored. That of another document keeps its text, too. Without
    texts it keeps neither, unless the setting `member_content` is true.
    """

    scope: str
    id: str
    ref: int
    """The number that the store gives the document. It is 0 until then."""
    digest: bytes
    """The first 128 bits of SHA-256 over the content."""
    leader: str
    """The id of the representative that the document is resolved to."""
    cluster: str
    """The id of the cluster. It stays when another representative is elected."""
    similarity: float
    """The exact similarity to the leader. It is a lower bound if the document was resolved to
    another leader after its content was no longer stored. In an index of texts and vectors, it is
    the larger one of those that reach their thresholds, or the smaller one if both must."""
    size: int
    """The number of rows of the payload, which are distinct shingles. It is 0 for vectors, and does
    not count the vector that a text has besides."""
    created: float
    """The time at which the document was inserted, in seconds of the clock."""
    seen: float
    """The time at which the document was last matched, in seconds of the clock."""
    posted: bool
    """True if the document is in buckets: a representative until its bucket time to live is over,
    or any document if all are posted."""
    signature: bytes
    text: str | None
    payload: bytes
    """The columns of the payload, one after the other. It is empty if the text is kept, or if the
    content is not stored. The vector that a text has besides comes last, and is always kept."""

    def __repr__(self) -> str:
        return (
            f"<Entry: {self.id!r} of scope {self.scope!r}, cluster {self.cluster!r}, similarity "
            f"{self.similarity:.4f} to {self.leader!r}>"
        )

    @property
    def is_leader(self) -> bool:
        """True if the document is a representative, to which others may be resolved."""
        return self.leader == self.id

    @property
    def has_content(self) -> bool:
        """True if the document can be compared exactly. An empty document has no content."""
        return self.text is not None or bool(self.payload)

    @property
    def posting(self) -> int:
        """The posting of the document, as buckets hold it."""
        return posting_of(self.ref, self.size, leads=self.is_leader)


def internal_entry(
    scope: str, id: str, digest: bytes, now: float, text: str | None = None
) -> Entry:
    """Returns a document of the index itself, which represents itself and is in no bucket."""
    return Entry(
        scope=scope,
        id=id,
        ref=0,
        digest=digest,
        leader=id,
        cluster=id,
        similarity=1.0,
        size=0,
        created=now,
        seen=now,
        posted=False,
        signature=b"",
        text=text,
        payload=b"",
    )


def posting_of(ref: int, size: int, *, leads: bool) -> int:
    """Returns the posting of a document, as buckets hold it."""
    return ref << REF_SHIFT | (0 if leads else MEMBER) | min(size, MAX_SIZE)


def content_size(entries: "Iterable[Entry]") -> int:
    """Returns the number of bytes of signatures, texts and payloads."""
    return sum(
        len(entry.signature) + len(entry.text or "") + len(entry.payload) for entry in entries
    )


def without_content(entry: Entry) -> Entry:
    """Returns an entry without signature, text and payload, which are nearly all of its bytes."""
    return entry._replace(signature=b"", text=None, payload=b"")


class Postings(NamedTuple):
    """The contents of several buckets, one after the other."""

    words: np.ndarray
    """The postings, int64 (total,)."""
    offsets: np.ndarray
    """The offsets at which buckets begin and end in `words`, int64 (keys + 1,)."""


class PostingPortion(NamedTuple):
    """A portion of the postings of a store, each with the key of its bucket."""

    keys: np.ndarray
    """The keys of the buckets, uint64 (n,)."""
    words: np.ndarray
    """The postings, int64 (n,)."""
    place: Any
    """The place at which the next portion begins. It is None after the last portion."""


def batches_by_scope(
    entries: Iterator[Entry], size: int = 200
) -> Iterator[tuple[str, list[Entry]]]:
    """Yields entries in batches of one scope each."""
    while batch := list(islice(entries, size)):
        for scope in dict.fromkeys(entry.scope for entry in batch):
            yield scope, [entry for entry in batch if entry.scope == scope]


@dataclass(frozen=True)
class Evidence:
    """The similarities of two documents by their texts and by their vectors.

    Attributes:
        text: Exact similarity of the texts, or None if one of the documents has no text.
        vector: Exact cosine of the vectors, or None if one of the documents has no vector.
        text_reached: True if the texts reach their threshold.
        vector_reached: True if the vectors reach their threshold.
    """

    text: float | None
    vector: float | None
    text_reached: bool
    vector_reached: bool


@dataclass(frozen=True)
class Match:
    """A stored document that resembles a query.

    Attributes:
        id: Id of the document.
        cluster: Id of its cluster.
        similarity: Exact similarity to the query. In an index of texts and vectors, it is the
            larger one of those that reach their thresholds, or the smaller one if both must.
        shared: Number of bands (or probes) in common with the query. It is 0 for a member that was
            found through its representative, and None if a server answered a token without the
            right admin.
        representative: Id of the representative of the cluster. It is the document's own id if the
            document is the representative.
        evidence: Both similarities in an index of texts and vectors, otherwise None.
        exact: True if the document and the query are exact duplicates. False if only symbols,
            punctuation, order or repetitions differ, or if texts are not stored and their bytes
            differ. None if the similarity is below 1.
        scope: Scope of the document if a list of scopes was searched, otherwise None.
    """

    id: str
    cluster: str
    similarity: float
    shared: int | None
    representative: str = ""
    evidence: Evidence | None = None
    exact: bool | None = None
    scope: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Returns the match as values that JSON can hold.

        `evidence`, `exact` and `scope` are left out if they are None.
        """
        values = {**self.__dict__}
        if self.scope is None:
            del values["scope"]
        return _without_absent(values, self.evidence)


@dataclass(frozen=True)
class RelatedDocument:
    """A representative that is related to a document.

    Attributes:
        id: Id of the representative.
        cluster: Id of its cluster.
        similarity: Exact similarity to the document.
    """

    id: str
    cluster: str
    similarity: float


class OutcomeKind(StrEnum):
    """The ways in which an upsert ends."""

    NEW = "new"
    """The document forms a cluster of its own."""
    EXACT = "exact"
    """The same document is a representative already."""
    RESOLVED = "resolved"
    """The same document was resolved to a representative before."""
    MATCH = "match"
    """The document was resolved to a representative by this upsert."""
    UPDATED = "updated"
    """Another content was stored under a known id; it is resolved, or a cluster of its own."""
    RELATED = "related"
    """The document forms a cluster of its own, and is related to other representatives."""
    BLOCKED = "blocked"
    """The document is like an entry of the blocklist, and was not stored."""


class Layer(StrEnum):
    """The places that can answer an upsert."""

    RECORD = "record"
    """The document's own entry in the store."""
    MEMORY = "memory"
    """The resolution cache of the process."""
    STORE = "store"
    """A resolution in the store."""
    SEARCH = "search"
    """A search for similar representatives."""
    BLOCKLIST = "blocklist"
    """The blocklist of the process."""


@dataclass(frozen=True)
class Outcome:
    """The result of an upsert of one document.

    Attributes:
        kind: What the upsert did.
        layer: The place that answered.
        id: Id of the document.
        cluster: Id of its cluster.
        representative: Id of the representative of the cluster. It is the document's own id if the
            document is the representative.
        similarity: Exact similarity to the representative. In an index of texts and vectors, it is
            the larger one of those that reach their thresholds, or the smaller one if both must.
        candidates: Number of documents that were compared, at most 20 times `max_candidates`.
        seconds: Duration of each phase in seconds, divided by the number of documents of a batch.
        evidence: Both similarities to the representative, if a search in an index of texts and
            vectors found it, otherwise None.
        related: Other representatives whose similarity reaches the setting `related`, the most
            similar ones first, at most 10. Empty if no search was made, because the document was
            known. None in an index without the setting.
        blocked_by: Name of the entry of the blocklist that a document of the kind `blocked` is
            like, otherwise None. Such a document has no cluster and no representative (both are
            empty), and the similarity is that to the entry.
        exact: True if a search found that the document is an exact duplicate of the representative.
            False if only symbols, punctuation, order or repetitions differ, or if texts are not
            stored and their bytes differ. None if the similarity is below 1, or no search was made.
    """

    kind: OutcomeKind
    layer: Layer
    id: str
    cluster: str
    representative: str
    similarity: float
    candidates: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    evidence: Evidence | None = None
    related: tuple[RelatedDocument, ...] | None = None
    blocked_by: str | None = None
    exact: bool | None = None

    @property
    def duplicate(self) -> bool:
        """True if another document is the representative, or the document is blocked."""
        return self.representative != self.id

    def to_dict(self) -> dict[str, object]:
        """Returns the outcome as values that JSON can hold.

        `related`, `blocked_by`, `evidence` and `exact` are left out if they are None.
        """
        values: dict[str, object] = {
            **self.__dict__,
            "kind": str(self.kind),
            "layer": str(self.layer),
            "seconds": dict(self.seconds),
            "duplicate": self.duplicate,
        }
        del values["related"]
        if self.related is not None:
            values["related"] = [asdict(document) for document in self.related]
        if self.blocked_by is None:
            del values["blocked_by"]
        return _without_absent(values, self.evidence)


def _without_absent(values: dict[str, object], evidence: Evidence | None) -> dict[str, object]:
    """Returns values with the evidence as a dictionary, without it and `exact` if they are None."""
    del values["evidence"]
    if values["exact"] is None:
        del values["exact"]
    return values if evidence is None else {**values, "evidence": asdict(evidence)}


class MemberPosition(NamedTuple):
    """The position of a document in the listing of its cluster."""

    representative: str
    """The id of the representative at the time of the listing."""
    number: int
    """The number of the document in the store, or 0 for the representative."""


@dataclass(frozen=True)
class ClusterPart:
    """A part of the documents of a cluster.

    Attributes:
        id: Id of the cluster.
        representative: Id of the representative.
        size: Number of documents of the cluster, the representative included.
        members: Ids and similarities to the representative. The representative comes first, the
            others in the order in which they were inserted.
        created: Time at which the representative was inserted, in seconds of the clock.
        end: Position of the last of these documents, from which `Index.cluster_part_after`
            continues. None if no more documents follow.
    """

    id: str
    representative: str
    size: int
    members: tuple[tuple[str, float], ...]
    created: float
    end: MemberPosition | None = None


@dataclass(frozen=True)
class Cluster:
    """A representative and the documents that are resolved to it.

    Attributes:
        id: Id of the cluster.
        representative: Id of the representative.
        members: Ids and similarities to the representative. The representative comes first, the
            others in the order in which they were inserted.
    """

    id: str
    representative: str
    members: tuple[tuple[str, float], ...]

    def _repr_html_(self) -> str:
        # Notebooks alone show clusters, and every process with an index imports this module.
        from nearkin.runtime.notebook_view import TableView, render_view

        numbers = {"representative": self.representative, "documents": len(self.members)}
        shown = TableView("members", ("id", "similarity"), self.members)
        return render_view(f"Cluster {self.id}", numbers, [], [shown])
