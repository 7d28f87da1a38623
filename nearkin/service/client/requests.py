"""The requests to `nearkin serve` for single documents, clusters and facts about the index."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import orjson

from nearkin.errors import UsageError
from nearkin.index.documents import Document
from nearkin.index.entry import Cluster, Match, Outcome
from nearkin.index.passage_matches import MatchedPassage, PassageMatch, PassageMatches
from nearkin.runtime.argument_types import check_arguments
from nearkin.service.client.call import (
    Call,
    build_match,
    build_outcome,
    build_result,
    or_none,
    parse_time,
    path_in_scope,
    read_json,
    require_success,
    to_json_line,
)
from nearkin.service.client.models import (
    ClusterHead,
    ClusterPage,
    IndexFacts,
    NewDocument,
    StoredDocument,
    TuningResult,
)
from nearkin.settings.decisions import Decision, Decisions, Verdict

if TYPE_CHECKING:
    from nearkin.index.description import IndexStats
    from nearkin.quality.plan.tune import OperatingPoint, OperatingPointRecord
    from nearkin.stages.measures.explanation import Explanation

DECISIONS_AT_ONCE = 200
"""The maximum number of decisions of a request."""
CLUSTER_PART = 1000
"""The maximum number of members of a cluster in a response."""


@check_arguments
def upsert_request(scope: str, document: Document, id: str | None = None) -> Call[Outcome]:
    """Returns the request that upserts a document."""
    return Call(
        "POST",
        path_in_scope(scope, "documents"),
        lambda answer: build_outcome(read_json(answer)),
        to_json_line(NewDocument(document, id)),
    )


@check_arguments
def query_request(
    scope: str, document: Document, top: int = 10, *, members: bool = False
) -> Call[list[Match]]:
    """Returns the request for the representatives that resemble a document."""
    body = to_json_line(document)[:-1] + b',"top":%d' % top
    # older servers do not know the member
    body += b',"members":true}' if members else b"}"
    return Call(
        "POST",
        path_in_scope(scope, "query"),
        lambda answer: _to_matches(read_json(answer)["matches"]),
        body,
    )


@check_arguments
def related_request(scope: str, document: Document, top: int = 10) -> Call[list[Match]]:
    """Returns the request for the representatives that are related to a document."""
    return Call(
        "POST",
        path_in_scope(scope, "query"),
        lambda answer: _to_matches(read_json(answer)["related"]),
        to_json_line(document)[:-1] + b',"top":%d,"related":true}' % top,
    )


@check_arguments
def near_misses_request(scope: str, document: Document, top: int = 10) -> Call[list[Match]]:
    """Returns the request for documents that are almost similar enough to a document."""
    return Call(
        "POST",
        path_in_scope(scope, "near-misses"),
        lambda answer: _to_matches(read_json(answer)["near_misses"]),
        to_json_line(document)[:-1] + b',"top":%d}' % top,
    )


@check_arguments
def passages_request(scope: str, text: str, top: int = 10) -> Call[PassageMatches]:
    """Returns the request for documents that share a passage with a text."""

    def read(answer: httpx2.Response) -> PassageMatches:
        response = read_json(answer)
        documents = tuple(map(_to_passage_match, response["documents"]))
        return build_result(PassageMatches, {**response, "documents": documents})

    body = to_json_line(text)[:-1] + b',"top":%d}' % top
    return Call("POST", path_in_scope(scope, "passages"), read, body)


def _to_passage_match(found: Mapping[str, Any]) -> PassageMatch:
    passages = tuple(build_result(MatchedPassage, passage) for passage in found["passages"])
    return build_result(PassageMatch, {**found, "passages": passages})


def _to_matches(found: Sequence[Mapping[str, Any]]) -> list[Match]:
    """Returns the matches of a response."""
    return [build_match(match) for match in found]


@check_arguments
def get_request(scope: str, id: str) -> Call[StoredDocument | None]:
    """Returns the request for a stored document. Its result is None if it does not exist."""

    def read(answer: httpx2.Response) -> StoredDocument:
        response = read_json(answer)
        times = {name: parse_time(response[name]) for name in ("created", "seen")}
        return build_result(StoredDocument, {**response, **times})

    return Call("GET", path_in_scope(scope, "documents", id), or_none(read))


@check_arguments
def remove_request(scope: str, id: str) -> Call[bool]:
    """Returns the request that deletes a document. Its result is False if it did not exist."""

    def read(answer: httpx2.Response) -> bool:
        require_success(answer)
        return True

    return Call(
        "DELETE",
        path_in_scope(scope, "documents", id),
        lambda answer: bool(or_none(read)(answer)),
    )


@check_arguments
def add_part_request(scope: str, id: str, part: "str | Sequence[str]") -> Call[int]:
    """Returns the request that adds a part to a document."""
    try:
        body = orjson.dumps({"text": part} if isinstance(part, str) else {"tokens": list(part)})
    except TypeError as error:
        raise UsageError(
            f"a part of a document must be a valid Unicode text or a list of them: {error}"
        ) from error
    return Call(
        "PATCH",
        path_in_scope(scope, "documents", id),
        lambda answer: int(read_json(answer)["shingles"]),
        body,
    )


@check_arguments
def finish_request(scope: str, id: str) -> Call[Outcome | None]:
    """Returns the request that finishes a document which was sent in parts."""
    path = path_in_scope(scope, "documents", id) + ":close"
    return Call("POST", path, or_none(lambda answer: build_outcome(read_json(answer))))


class ClusterReader:
    """A reader of a cluster, whose members are sent in parts.

    Attributes:
        cluster: The cluster with the members that were received, or None if it does not exist.
        call: The next request, or None if the cluster is complete.
    """

    @check_arguments
    def __init__(self, scope: str, id: str) -> None:
        self._path = path_in_scope(scope, "clusters", id)
        self.cluster: Cluster | None = None
        self.call: Call[ReceivedPart | None] | None = self._request_part(0)

    def take(self, part: "ReceivedPart | None") -> None:
        """Adds a part.

        Reading begins again if the representative has changed since the first part.
        """
        before = self.cluster
        self.call = None
        if part is None:
            self.cluster = None
            return
        if before is not None and before.representative != part.cluster.representative:
            self.cluster = None
            self.call = self._request_part(0)
            return
        members = dict((*(before.members if before else ()), *part.cluster.members))
        self.cluster = replace(part.cluster, members=tuple(members.items()))
        if part.next is not None:
            self.call = self._request_part(part.end, cursor=part.next)
        elif not part.has_cursors and part.cluster.members and part.end < part.size:
            self.call = self._request_part(part.end, part.cluster.members[-1][0])

    def _request_part(
        self, start: int, after: str | None = None, cursor: str | None = None
    ) -> "Call[ReceivedPart | None]":
        """Returns the request of a part of the cluster."""

        def read(answer: httpx2.Response) -> ReceivedPart:
            response = read_json(answer)
            members = tuple((member["id"], member["similarity"]) for member in response["members"])
            cluster = Cluster(response["id"], response["representative"], members)
            return ReceivedPart(
                cluster=cluster,
                end=start + len(members),
                size=response["size"],
                next=response.get("next"),
                has_cursors="next" in response,
            )

        # Servers of older versions have no cursors. They use `start` if they do not know
        # `after`, or if that document was deleted.
        known = {
            name: value
            for name, value in (("after", after), ("cursor", cursor))
            if value is not None
        }
        return Call(
            "GET",
            self._path,
            or_none(read),
            params={"start": str(start), "limit": str(CLUSTER_PART), **known},
        )


class ReceivedPart(NamedTuple):
    """A part of a cluster.

    Attributes:
        cluster: The cluster, with some of its members.
        end: The number of members up to the end of this part.
        size: The number of all members.
        next: The cursor of the next part, or None.
        has_cursors: Whether the server sends cursors.
    """

    cluster: Cluster
    end: int
    size: int
    next: str | None
    has_cursors: bool


@check_arguments
def clusters_request(scope: str, order: str, limit: int, cursor: str) -> Call[ClusterPage]:
    """Returns the request for a page of clusters."""

    def read(answer: httpx2.Response) -> ClusterPage:
        response = read_json(answer)
        clusters = tuple(
            build_result(ClusterHead, {**cluster, "created": parse_time(cluster["created"])})
            for cluster in response["clusters"]
        )
        return ClusterPage(clusters, response["next"], parse_time(response["as_of"]))

    params = {"order": order, "limit": str(limit), "cursor": cursor}
    return Call("GET", path_in_scope(scope, "clusters"), read, params=params)


@check_arguments
def decide_requests(scope: str, decisions: Iterable[Decision]) -> Iterator[Call[int]]:
    """Yields the requests that store decisions. Their results are the numbers of new ones."""
    decisions = list(decisions)
    bodies = []
    for decision in decisions:
        if not isinstance(decision, Decision):
            raise UsageError(
                f"{decision!r} is not a decision; give nearkin.Decision(id_a, id_b, verdict)"
            )
        body: dict[str, str] = {
            "id_a": decision.id_a,
            "id_b": decision.id_b,
            "decision": str(decision.verdict),
        }
        if decision.by is not None:
            body["by"] = decision.by
        if decision.at is not None:
            body["at"] = decision.at.astimezone(UTC).isoformat()
        bodies.append(body)
    # a server checks each request on its own
    Decisions.resolve(decisions, "the request")
    path = path_in_scope(scope, "decisions")
    for start in range(0, len(bodies), DECISIONS_AT_ONCE):
        try:
            content = orjson.dumps({"decisions": bodies[start : start + DECISIONS_AT_ONCE]})
        except TypeError as error:
            raise UsageError(
                f"a decision has an id or a name that is not a valid Unicode text: {error}"
            ) from error
        yield Call("POST", path, lambda answer: int(read_json(answer)["stored"]), content)


class DecisionReader:
    """A reader of the decisions about a scope, which are sent in pages.

    Attributes:
        call: The next request, or None if all decisions were received.
    """

    @check_arguments
    def __init__(self, scope: str) -> None:
        self._path = path_in_scope(scope, "decisions")
        self._received: list[Decision] = []
        self.call: Call[DecisionPage] | None = self._request_page(None)

    @property
    def decisions(self) -> Decisions:
        """The decisions that were received."""
        return Decisions({decision.pair: decision for decision in self._received})

    def take(self, page: "DecisionPage") -> None:
        """Adds a page."""
        self._received += page.decisions
        self.call = None if page.next is None else self._request_page(page.next)

    def _request_page(self, cursor: str | None) -> "Call[DecisionPage]":
        """Returns the request of a page."""

        def read(answer: httpx2.Response) -> DecisionPage:
            response = read_json(answer)
            return DecisionPage(list(map(_to_decision, response["decisions"])), response["next"])

        params = {"limit": str(DECISIONS_AT_ONCE)}
        if cursor is not None:
            params["cursor"] = cursor
        return Call("GET", self._path, read, params=params)


class DecisionPage(NamedTuple):
    """Some decisions about the documents of a scope, and the cursor of the next ones, or None."""

    decisions: list[Decision]
    next: str | None


def _to_decision(response: Mapping[str, Any]) -> Decision:
    return Decision(
        response["id_a"],
        response["id_b"],
        Verdict(response["decision"]),
        response["by"],
        datetime.fromisoformat(response["at"]),
    )


@check_arguments
def explain_request(scope: str, a: str, b: str) -> "Call[Explanation]":
    """Returns the request that explains why two stored documents match or not."""

    def read(answer: httpx2.Response) -> "Explanation":
        from nearkin.stages.measures.explanation import Explanation, ShingleOverlap

        response = read_json(answer)
        shingles = response.pop("shingles")
        sizes = shingles["sizes"]
        shared_examples, first_examples, second_examples = map(tuple, shingles["examples"])
        pairs = {name: tuple(response.pop(name)) for name in ("names", "texts")}
        return build_result(
            Explanation,
            response,
            **pairs,
            shingles=ShingleOverlap(
                (sizes[0], sizes[1]),
                shingles["shared"],
                (shared_examples, first_examples, second_examples),
            ),
        )

    return Call("POST", "/v1/explain", read, orjson.dumps({"scope": scope, "a": a, "b": b}))


@check_arguments
def tune_request(
    threshold: float = 0.8,
    recall: float = 0.95,
    *,
    k: int | None = None,
    documents: int = 1_000_000,
    points: int = 10,
) -> Call[TuningResult]:
    """Returns the request for operating points.

    Args:
        k: Number of slots or bits of a signature, or None for that of the index.
    """
    members = {"threshold": threshold, "recall": recall, "documents": documents, "points": points}
    if k is not None:
        members["k"] = k

    def read(answer: httpx2.Response) -> TuningResult:
        response = read_json(answer)
        return build_result(
            TuningResult,
            {**response, "points": tuple(map(_to_operating_point, response["points"]))},
        )

    try:
        body = orjson.dumps(members)
    except TypeError as error:
        raise UsageError(f"a number is out of range: {error}; give a smaller one") from error
    return Call("POST", "/v1/tune", read, body)


def _to_operating_point(response: "OperatingPointRecord") -> "OperatingPoint":
    from nearkin.quality.plan.tune import OperatingPoint

    similarities = tuple(
        float("nan") if value is None else value for value in response["similarities"].values()
    )
    members = {name: value for name, value in response.items() if name != "similarities"}
    return build_result(OperatingPoint, members, similarities=similarities)


def spec_request() -> Call[IndexFacts]:
    """Returns the request for the Spec and the banding of the index."""
    return Call("GET", "/v1/spec", lambda answer: build_result(IndexFacts, read_json(answer)))


def stats_request() -> "Call[IndexStats]":
    """Returns the request for the counts of the index."""
    return Call("GET", "/v1/stats", read_json)


def ready_request() -> Call[bool]:
    """Returns the request that asks if the server is ready."""

    def read(answer: httpx2.Response) -> bool:
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            require_success(answer)
        return answer.is_success

    return Call("GET", "/readyz", read)
