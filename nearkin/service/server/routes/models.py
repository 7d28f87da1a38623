"""The JSON bodies of requests and responses."""

import dataclasses
import inspect
import json
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    field_validator,
    model_validator,
)

from nearkin.index.documents import TextAndVector
from nearkin.index.entry import ClusterPart, Entry, Evidence, Match, Outcome, RelatedDocument
from nearkin.index.index import Index
from nearkin.index.index_facts import IndexFacts
from nearkin.index.passage_matches import MatchedPassage, PassageMatch, PassageMatches
from nearkin.index.reader import MAX_SCOPES
from nearkin.index.scope_settings import ScopeSettings, ScopeStatus
from nearkin.runtime.docstrings import read_attributes
from nearkin.runtime.version import VERSION
from nearkin.service.server.cluster_listings import ScopeCounts
from nearkin.service.server.http.tokens import Principal
from nearkin.settings.decisions import Decision, Verdict

Id = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        description="Id of the document. By default, it is derived from the content.",
    ),
]
Scope = Annotated[
    str, Field(min_length=1, max_length=1024, description="Scope: the name of a tenant or group.")
]


Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in the form of RFC 3339, in UTC."""


def format_time(seconds: float) -> str:
    """Returns a time in the form of RFC 3339, with microseconds.

    Args:
        seconds: Time in seconds since 1970.

    Examples:
        >>> format_time(1_800_000_000.25)
        '2027-01-15T08:00:00.250000Z'
    """
    time = datetime.fromtimestamp(seconds, UTC)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


MAX_JSON_MEMBERS = 64
"""Maximum number of object members in most bodies. They have at most five, and each unknown member
costs an error message."""


class Model(BaseModel):
    """A JSON object.

    Unknown members are an error, so that misspelt ones do not silently have no effect.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_json_values: ClassVar[int] = 70_000
    """Maximum number of JSON values in a body: enough for the longest vector."""
    max_json_members: ClassVar[int] = MAX_JSON_MEMBERS
    """Maximum number of object members in a body."""


class _Member(NamedTuple):
    """A member of an answer."""

    kind: Any
    """Its type."""
    default: Any
    """None if it is left out when it is None, otherwise an ellipsis."""
    description: str


_MODELS: dict[type, type[Model]] = {}
"""The models of records of the library."""


def answer_model(name: str, record: type, **changed: tuple[Any, str | None] | None) -> type[Model]:
    """Returns the model of a record as JSON. The docstring of the record describes its members.

    A member that is None by default is left out of an answer if it is None. `changed` has the type
    and the description of members that differ, or None for those that the answer does not have.
    """
    docstring = inspect.getdoc(record) or ""
    descriptions = read_attributes(docstring)
    members: dict[str, _Member] = {}
    for attribute in dataclasses.fields(record):
        default = None if attribute.default is None else ...
        kind = _json_type(get_type_hints(record)[attribute.name])
        members[attribute.name] = _Member(kind, default, descriptions[attribute.name])
    for member_name, change in changed.items():
        former = members.pop(member_name, _Member(None, ..., ""))
        if change is not None:
            kind, description = change
            description = description or former.description
            members[member_name] = _Member(kind, former.default, description)
    fields: dict[str, Any] = {
        member_name: (
            member.kind,
            Field(member.default, description=member.description.replace("None", "null")),
        )
        for member_name, member in members.items()
    }
    summary = docstring.partition("\n\nAttributes:")[0]
    model = create_model(name, __base__=Model, __doc__=summary, **fields)
    _MODELS[record] = model
    return model


def _json_type(kind: Any) -> Any:
    """Returns the type of a member of a record as JSON."""
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        return list[_json_type(parts[0])]  # type: ignore[misc]
    if get_origin(kind) is UnionType:
        return reduce(or_, map(_json_type, parts))
    return _MODELS.get(kind, kind)


class TextOrVector(Model):
    """A document: a text, a vector, or both in an index of texts and vectors."""

    text: str | None = Field(None, description="Text of the document.")
    vector: list[float] | None = Field(
        None,
        min_length=1,
        max_length=65_536,
        fail_fast=True,
        description="Vector of the document. Only an index of texts and vectors takes both.",
        examples=[[0.5, 1.0, -2.25]],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.text is None and self.vector is None:
            raise ValueError("give text or vector, or both if the index has texts and vectors")
        return self

    @property
    def document(self) -> "str | list[float] | TextAndVector":
        """The text, the vector, or both, whatever was given."""
        if self.text is None:
            return self.vector or []
        return self.text if self.vector is None else TextAndVector(self.text, self.vector)


class UpsertRequest(TextOrVector):
    """A document to upsert."""

    id: Id | None = None


class NearMissRequest(TextOrVector):
    """A document for which near misses are searched."""

    top: int = Field(10, ge=1, description="Maximum number of documents that are returned.")


class ScopesQueryRequest(TextOrVector):
    """A document to search for in several scopes."""

    scopes: list[Scope] = Field(
        min_length=1, max_length=MAX_SCOPES, fail_fast=True, description="Scopes to search in."
    )
    top: int = Field(10, ge=1, description="Maximum number of matches.")
    members: bool = Field(
        False,
        description="True to compare the stored members of matching representatives, too.",
    )


class QueryRequest(TextOrVector):
    """A document to search for."""

    top: int = Field(10, ge=1, description="Maximum number of matches.")
    members: bool = Field(
        False,
        description="True to compare the stored members of matching representatives, too.",
    )
    related: bool = Field(
        False,
        description="True to return the related representatives, too. The index must have the "
        "setting `related`.",
    )


class PassagesRequest(Model):
    """A text whose passages are searched for."""

    text: str = Field(description="The text.")
    top: int = Field(10, ge=1, description="Maximum number of documents that are returned.")


class DocumentPart(Model):
    """A part of an unfinished document: either text or tokens."""

    max_json_values: ClassVar[int] = 1_100_000

    text: str | None = Field(
        None, description="Text of the part. It is split into shingles on its own."
    )
    tokens: list[str] | None = Field(
        None, max_length=1_000_000, fail_fast=True, description="Tokens of the part, in order."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.text is None) == (self.tokens is None):
            raise ValueError("give either text or tokens")
        return self


class PartAnswer(Model):
    """The state of an unfinished document."""

    id: str
    shingles: int = Field(
        description="Number of shingles so far. Those of several parts may count more than once."
    )


class StreamLine(Model):
    """The answer to a line of a stream.

    It also has the members of UpsertResult, unless there is a problem.
    """

    line: int = Field(description="Number of the line, counted from 1.")
    problem: dict[str, object] | None = Field(None, description="Problem with the line.")


class DocumentAnswer(Model):
    """A stored document."""

    id: str = Field(description="Id of the document.")
    cluster: str = Field(description="Id of the cluster.")
    representative: str = Field(description="Id of the representative.")
    similarity: float = Field(description="Exact similarity to the representative.")
    shingles: int = Field(description="Number of distinct shingles; 0 for vectors.")
    created: Time = Field(description="Time at which the document was stored.")
    seen: Time = Field(description="Time of the last match, if documents have a time to live.")
    text: str | None = Field(description="Text of the document, if texts are stored.")
    signature: str | None = Field(
        None,
        description="Signature in hexadecimal. Only administrators can request it, with "
        "?include=signature.",
    )

    @classmethod
    def from_entry(cls, entry: Entry, *, include_signature: bool = False) -> Self:
        """Converts an entry of the index."""
        return cls(
            id=entry.id,
            cluster=entry.cluster,
            representative=entry.leader,
            similarity=entry.similarity,
            shingles=entry.size,
            created=format_time(entry.created),
            seen=format_time(entry.seen),
            text=entry.text,
            signature=entry.signature.hex() if include_signature else None,
        )


EvidenceAnswer = answer_model("EvidenceAnswer", Evidence)
RelatedAnswer = answer_model("RelatedAnswer", RelatedDocument)
UpsertResult = answer_model(
    "UpsertResult",
    Outcome,
    duplicate=(bool, "True if another document is the representative, or the document is blocked."),
)
QueryMatch = answer_model(
    "QueryMatch",
    Match,
    shared=None,
    shared_bands=(
        int | None,
        "Number of bands that the document shares with the query. It is 0 for a member that was "
        "found through its representative, and null without the right admin: it tells how to "
        "change a text so that it is not found.",
    ),
)
answer_model("PassageAnswer", MatchedPassage)
answer_model("PassageMatchAnswer", PassageMatch)
PassagesAnswer = answer_model("PassagesAnswer", PassageMatches)


ScopeRequest = answer_model("ScopeRequest", ScopeSettings)
ScopeStatusAnswer = answer_model("ScopeStatusAnswer", ScopeStatus)


class Matches(Model):
    """The matches of a query."""

    matches: list[QueryMatch] = Field(description="Matches, most similar first.")  # type: ignore[valid-type]
    related: list[QueryMatch] | None = Field(  # type: ignore[valid-type]
        None,
        description="The related representatives that an upsert would name, if they were "
        "requested, most similar first.",
    )


class NearMisses(Model):
    """The stored documents that are almost similar enough to a document."""

    near_misses: list[QueryMatch] = Field(  # type: ignore[valid-type]
        description="Documents that share a bucket with the document but are below the threshold, "
        "most similar first."
    )


def describe_match(match: Match, who: Principal) -> dict[str, object]:
    """Returns what a token may see of a match, in the form of `QueryMatch`."""
    members = match.to_dict()
    shared = members.pop("shared")
    return {**members, "shared_bands": shared if who.has_right("admin") else None}


MAX_REMOVALS = 200
"""The maximum number of documents that a request deletes."""
MAX_DECISIONS = 200
"""Maximum number of decisions of a request, and of a page of them."""
EARLIEST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK_TOLERANCE = timedelta(days=1)
"""The largest time by which a decision may be later than the clock of the server."""


class NewDecision(Model):
    """A decision of a person about two documents."""

    id_a: Id = Field(description="Id of a document. It need not be stored yet.")
    id_b: Id = Field(description="Id of another document.")
    decision: Verdict = Field(description="Whether the two documents are the same.")
    by: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="Name of who decided. The name of the token is added to it, and stands for "
        "it by default.",
    )
    at: AwareDatetime | None = Field(
        None,
        description="Time of the decision, with its zone. The current time by default. Of two "
        "decisions about a pair, the later one counts.",
    )

    @field_validator("at")
    @classmethod
    def _check_time(cls, at: datetime | None) -> datetime | None:
        if at is None:
            return None
        if not EARLIEST_TIME <= at <= datetime.now(UTC) + CLOCK_TOLERANCE:
            raise ValueError("give a time from 1970 to now")
        return at.astimezone(UTC)


class RemovalsRequest(Model):
    """Documents to delete."""

    max_json_members: ClassVar[int] = MAX_REMOVALS + 1

    ids: list[Id] = Field(
        min_length=1, max_length=MAX_REMOVALS, fail_fast=True, description="Ids of the documents."
    )


class RemovalsAnswer(Model):
    """The result of a request that deletes documents."""

    removed: int = Field(description="Number of documents that existed.")


class ScopeRemoval(RemovalsAnswer):
    """The result of a request that deletes a scope."""

    complete: bool = Field(description="False if documents may be left: repeat the request.")


class DecisionsRequest(Model):
    """Decisions about documents of a scope."""

    max_json_members: ClassVar[int] = 5 * MAX_DECISIONS + 1

    decisions: list[NewDecision] = Field(
        min_length=1, max_length=MAX_DECISIONS, fail_fast=True, description="The decisions."
    )


class DecisionsStored(Model):
    """The result of a request that stores decisions."""

    stored: int = Field(
        description="Number of decisions that were not stored before. A repeated request with "
        "the same times stores none."
    )


class StoredDecision(Model):
    """A decision that the index stores."""

    id_a: str = Field(description="Id of the document whose id is smaller.")
    id_b: str = Field(description="Id of the other document.")
    decision: Verdict = Field(description="Whether the two documents are the same.")
    by: str | None = Field(description="Name of who decided, or null if it is not known.")
    at: Time = Field(description="Time of the decision.")

    @classmethod
    def from_decision(cls, decision: Decision) -> Self:
        """Converts a decision that an index stores."""
        assert decision.at is not None
        first, second = decision.pair
        at = decision.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
        return cls(id_a=first, id_b=second, decision=decision.verdict, by=decision.by, at=at)


class DecisionsAnswer(Model):
    """A page of the decisions about documents of a scope."""

    decisions: list[StoredDecision] = Field(description="Decisions in the order of their ids.")
    next: str | None = Field(description="Cursor of the next page, or null on the last page.")


class ListedChange(Model):
    """A change of a document, or of the whole index."""

    kind: str = Field(description="Kind of the change, for example `inserted` or `erased`.")
    scope: str = Field(description="Scope of the document.")
    id: str = Field(description="Id of the document.")
    into: str = Field(description="Representative or other document of the change, or empty.")
    cluster: str = Field(description="Cluster of the document, or empty.")
    at: Time = Field(description="Time of the change.")
    actor: str = Field(description="Token or program that made the change.")
    cursor: str = Field(description="Cursor of the changes after this one.")


class ChangesAnswer(Model):
    """A page of the history of the index."""

    changes: list[ListedChange] = Field(description="Changes, oldest first.")
    next: str = Field(description="Cursor of the next page, which may have no changes yet.")
    has_more: bool = Field(description="Whether other changes follow already.")


class Member(Model):
    """A document of a cluster."""

    id: str = Field(description="Id of the document.")
    similarity: float = Field(description="Exact similarity to the representative.")


class ClusterAnswer(Model):
    """A cluster and a page of its members."""

    id: str = Field(description="Id of the cluster.")
    representative: str = Field(description="Id of the representative.")
    size: int = Field(description="Number of documents.")
    members: list[Member] = Field(
        description="A page of the members. The representative is the first member."
    )
    next: str | None = Field(description="Cursor of the next page, or null on the last page.")

    @classmethod
    def from_part(cls, part: ClusterPart, cursor: str | None) -> Self:
        """Converts a part of a cluster."""
        members = [Member(id=id, similarity=similarity) for id, similarity in part.members]
        return cls(
            id=part.id,
            representative=part.representative,
            size=part.size,
            members=members,
            next=cursor,
        )


class ListedCluster(Model):
    """A cluster in a listing."""

    id: str = Field(description="Id of the cluster.")
    representative: str = Field(description="Id of the representative.")
    size: int = Field(description="Number of documents.")
    created: Time = Field(description="Time at which the representative was stored.")


class ClustersAnswer(Model):
    """A page of the clusters of a scope."""

    clusters: list[ListedCluster] = Field(description="Clusters in the requested order.")
    next: str | None = Field(description="Cursor of the next page, or null on the last page.")
    as_of: Time = Field(description="Time at which the clusters were counted.")


class ListedScope(Model):
    """A scope that has documents."""

    name: str = Field(description="Name of the scope.")
    documents: int | None = Field(
        description="Number of documents, or null if they were not counted in time. The next "
        "request continues to count."
    )
    clusters: int | None = Field(description="Number of clusters, or null like `documents`.")
    as_of: Time | None = Field(description="Time of the counts, or null without counts.")

    @classmethod
    def from_counts(cls, name: str, counts: ScopeCounts | None) -> Self:
        """Converts the counts of a scope."""
        if counts is None:
            return cls(name=name, documents=None, clusters=None, as_of=None)
        return cls(
            name=name,
            documents=counts.documents,
            clusters=counts.clusters,
            as_of=format_time(counts.as_of),
        )


class ScopesAnswer(Model):
    """A page of the scopes that a token may read."""

    scopes: list[ListedScope] = Field(description="Scopes in the order of their names.")
    next: str | None = Field(description="Cursor of the next page, or null on the last page.")
    complete: bool = Field(
        description="False if the store has so many scopes that not all were found in time."
    )


class ExplainRequest(Model):
    """Two stored documents of a scope."""

    scope: Scope
    a: Id
    b: Id


class TuneRequest(Model):
    """Requirements for bands and rows."""

    threshold: float = Field(
        0.8, gt=0, le=1, description="Similarity at which the recall is required."
    )
    recall: float = Field(0.95, gt=0, lt=1, description="Required recall at the threshold.")
    k: int | None = Field(
        None,
        ge=8,
        le=1024,
        multiple_of=8,
        description="Length of the signatures. By default, that of the index.",
    )
    documents: int = Field(
        1_000_000, ge=1, le=10**12, description="Number of documents for which costs are computed."
    )
    points: int = Field(10, ge=1, le=50, description="Maximum number of operating points.")


class VectorInfo(Model):
    """The vectors of an index of texts and vectors."""

    spec: dict[str, object] = Field(description="Spec of the signatures.")
    fingerprint: str = Field(description="Fingerprint of the Spec.")
    threshold: float = Field(description="Smallest cosine of near-duplicates.")
    recall: float = Field(description="Required recall at the threshold.")
    bands: int = Field(description="Number of bands.")
    rows: int = Field(description="Number of rows per band.")


IndexInfo = answer_model("IndexInfo", IndexFacts, vector=(VectorInfo | None, None))


def describe_index(index: Index) -> dict[str, object]:
    """Returns the Spec and the banding of an index, in the form of `IndexInfo`."""
    settings = index.settings
    vector = settings.vector
    banding = index.vector_banding
    described = None
    if vector is not None and banding is not None:
        assert vector.threshold is not None
        described = VectorInfo(
            spec=json.loads(vector.spec.to_json()),
            fingerprint=vector.spec.fingerprint,
            threshold=vector.threshold,
            recall=vector.recall,
            bands=banding.bands,
            rows=banding.rows,
        )
    facts = IndexFacts(
        spec=json.loads(index.spec.to_json()),
        fingerprint=index.spec.fingerprint,
        threshold=index.threshold,
        recall=settings.recall,
        bands=index.banding.bands,
        rows=index.banding.rows,
        probes=index.banding.probes,
        postings=settings.postings,
        version=VERSION,
        vector=None if described is None else described.model_dump(),
        combine=None if described is None else settings.combine,
        related=settings.related,
        passages=settings.passages,
    )
    return {name: value for name, value in vars(facts).items() if value is not None}


class ShadowSwitch(Model):
    """A choice of the index that answers requests."""

    live: Literal["primary", "shadow"] = Field(
        description="The index that answers: the primary or the shadow index."
    )
