"""What requests and answers hold."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nearkin.index.entry import ClusterPart, Entry, Match

Id = Annotated[str, Field(min_length=1, max_length=1024, description="Of the document; of its content by default.")]
Scope = Annotated[str, Field(min_length=1, max_length=1024, description="Tenant or group.")]


class Model(BaseModel):
    """Members that are not named here are an error, so that a misspelt one is no silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_json_values: ClassVar[int] = 70_000
    """Maximum number of values in the JSON of a form: the numbers of the longest vector, and some more."""


class TextOrVector(Model):
    """A text or a vector."""

    text: str | None = Field(None, description="A text.")
    vector: list[float] | None = Field(None, min_length=1, max_length=65_536, fail_fast=True, description="A vector.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.text is None) == (self.vector is None):
            raise ValueError("give either text or vector")
        return self

    @property
    def document(self) -> "str | list[float]":
        """The one that was given."""
        return self.text if self.text is not None else self.vector or []


class NewDocument(TextOrVector):
    """A document to upsert."""

    id: Id | None = None


class QueryRequest(TextOrVector):
    """A document to look for."""

    top: int = Field(10, ge=1, le=1000, description="Matches, at most.")


class DocumentPart(Model):
    """More of a document that arrives in pieces."""

    max_json_values: ClassVar[int] = 1_100_000

    text: str | None = Field(None, description="More text; shingled by itself.")
    tokens: list[str] | None = Field(None, max_length=1_000_000, fail_fast=True, description="More tokens, in order.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.text is None) == (self.tokens is None):
            raise ValueError("give either text or tokens")
        return self


class PartAnswer(Model):
    """A document that is open."""

    id: str
    shingles: int = Field(description="Distinct ones so far.")


class UpsertResult(Model):
    """What became of a document."""

    kind: Literal["new", "exact", "resolved", "match", "updated"]
    layer: Literal["record", "memory", "store", "search"]
    id: str
    cluster: str
    representative: str
    similarity: float = Field(description="To the representative, exact.")
    duplicate: bool = Field(description="Whether another document stands for it.")
    candidates: int = Field(description="Stored documents that it was compared with.")
    seconds: dict[str, float] = Field(description="Of each phase; of a batch, divided by its documents.")


class StreamLine(Model):
    """Of a stream's answer: what became of a line, or why nothing did."""

    line: int = Field(description="Counted from 1.")
    problem: dict[str, Any] | None = None


class StoredDocument(Model):
    """A document as it is kept."""

    id: str
    cluster: str
    representative: str
    similarity: float
    shingles: int = Field(description="Distinct ones; 0 for vectors.")
    created: float = Field(description="Seconds since 1970.")
    seen: float = Field(description="When it was last matched, where documents have a time to live.")
    text: str | None = Field(description="If texts are kept.")
    signature: str | None = Field(None, description="Hexadecimal, for admins who ask with ?include=signature.")

    @classmethod
    def of(cls, entry: Entry, signature: bool = False) -> Self:
        """From an entry."""
        return cls(
            id=entry.id,
            cluster=entry.cluster,
            representative=entry.leader,
            similarity=entry.similarity,
            shingles=entry.size,
            created=entry.created,
            seen=entry.seen,
            text=entry.text,
            signature=entry.signature.hex() if signature else None,
        )


class QueryMatch(Model):
    """A stored document that resembles a queried one."""

    id: str
    cluster: str
    similarity: float
    shared_bands: int

    @classmethod
    def of(cls, match: Match) -> Self:
        """From a match."""
        return cls(id=match.id, cluster=match.cluster, similarity=match.similarity, shared_bands=match.shared)


class Matches(Model):
    """Most similar first."""

    matches: list[QueryMatch]


class Member(Model):
    """Of a cluster."""

    id: str
    similarity: float = Field(description="To the representative.")


class ClusterAnswer(Model):
    """A cluster."""

    id: str
    representative: str
    size: int
    members: list[Member] = Field(description="The representative first; a page of them.")
    next: str | None = Field(description="Cursor of the next page; null at the end.")

    @classmethod
    def of(cls, part: ClusterPart, cursor: str | None) -> Self:
        """Returns the answer for some documents of a cluster, and the cursor of the next page."""
        members = [Member(id=name, similarity=similarity) for name, similarity in part.members]
        return cls(id=part.id, representative=part.representative, size=part.size, members=members, next=cursor)


class ClusterHead(Model):
    """A cluster in a list."""

    id: str
    representative: str
    size: int
    created: float


class ClusterPage(Model):
    """Some clusters of a scope."""

    clusters: list[ClusterHead]
    next: str | None = Field(description="Cursor of the next page; null at the end.")
    as_of: float = Field(description="Seconds since 1970: when they were counted.")


class ExplainRequest(Model):
    """Two stored documents of a scope."""

    scope: Scope
    a: Id
    b: Id


class TuneRequest(Model):
    """What is asked of bands and rows."""

    threshold: float = Field(0.8, gt=0, le=1)
    recall: float = Field(0.95, gt=0, lt=1)
    k: int | None = Field(None, ge=8, le=1024, multiple_of=8)
    documents: int = Field(1_000_000, ge=1, le=10**12)
    points: int = Field(10, ge=1, le=50)


class IndexInfo(Model):
    """What signatures of this index are, and how they are banded."""

    spec: dict[str, Any]
    fingerprint: str
    threshold: float
    recall: float
    bands: int
    rows: int
    probes: int
    postings: str
    version: str


class ShadowSwitch(Model):
    """Which of the two bandings answers."""

    live: Literal["primary", "shadow"]
