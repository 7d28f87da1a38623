"""The requests to `nearkin serve` for single documents, clusters and facts about the index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import msgspec
import orjson

from nearkin.errors import UsageError
from nearkin.index.documents import Document
from nearkin.index.entry import Cluster, Match, Outcome
from nearkin.index.index_facts import IndexFacts
from nearkin.index.passage_matches import PassageMatches
from nearkin.runtime.argument_types import check_arguments
from nearkin.service.client.call import (
    Call,
    Exchange,
    build_match,
    build_outcome,
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
    return _search_request(scope, "query", document, "matches", {"top": top, "members": members})


@check_arguments
def related_request(scope: str, document: Document, top: int = 10) -> Call[list[Match]]:
    """Returns the request for the representatives that are related to a document."""
    return _search_request(scope, "query", document, "related", {"top": top, "related": True})


@check_arguments
def near_misses_request(scope: str, document: Document, top: int = 10) -> Call[list[Match]]:
    """Returns the request for documents that are almost similar enough to a document."""
    return _search_request(scope, "near-misses", document, "near_misses", {"top": top})


def _search_request(
    scope: str, route: str, document: Document, member: str, options: Mapping[str, object]
) -> Call[list[Match]]:
    """Returns a request whose response lists documents in one of its members."""
    return Call(
        "POST",
        path_in_scope(scope, route),
        lambda answer: list(map(build_match, read_json(answer)[member])),
        to_json_line(document, options),
    )


@check_arguments
def passages_request(scope: str, text: str, top: int = 10) -> Call[PassageMatches]:
    """Returns the request for documents that share a passage with a text."""
    return Call(
        "POST",
        path_in_scope(scope, "passages"),
        lambda answer: msgspec.convert(read_json(answer), PassageMatches),
        to_json_line(text, {"top": top}),
    )


@check_arguments
def get_request(scope: str, id: str) -> Call[StoredDocument | None]:
    """Returns the request for a stored document. Its result is None if it does not exist."""

    def read(answer: httpx2.Response) -> StoredDocument:
        response = read_json(answer)
        times = {name: parse_time(response[name]) for name in ("created", "seen")}
        return msgspec.convert({**response, **times}, StoredDocument)

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


@check_arguments
def read_cluster(scope: str, id: str) -> Exchange[Cluster | None]:
    """Yields the requests for a cluster, whose members are sent in parts.

    Reading begins again if the representative has changed since the first part.
    """
    path = path_in_scope(scope, "clusters", id)
    cluster: Cluster | None = None
    cursor: str | None = None
    while True:
        part = yield _part_request(path, cursor)
        if part is None:
            return None
        if cluster is not None and part.representative != cluster.representative:
            cluster = None
            cursor = None
            continue
        members = dict((*(cluster.members if cluster else ()), *part.members))
        cluster = Cluster(part.id, part.representative, tuple(members.items()))
        cursor = part.next
        if cursor is None:
            return cluster


class ReceivedPart(NamedTuple):
    """A part of a cluster, and the cursor of the next one, or None."""

    id: str
    representative: str
    members: list[tuple[str, float]]
    next: str | None


def _part_request(path: str, cursor: str | None) -> Call[ReceivedPart | None]:
    """Returns the request for a part of a cluster."""

    def read(answer: httpx2.Response) -> ReceivedPart:
        response = read_json(answer)
        members = [(member["id"], member["similarity"]) for member in response["members"]]
        return ReceivedPart(response["id"], response["representative"], members, response["next"])

    params = {"limit": str(CLUSTER_PART)}
    if cursor is not None:
        params["cursor"] = cursor
    return Call("GET", path, or_none(read), params=params)


@check_arguments
def clusters_request(scope: str, order: str, limit: int, cursor: str) -> Call[ClusterPage]:
    """Returns the request for a page of clusters."""

    def read(answer: httpx2.Response) -> ClusterPage:
        response = read_json(answer)
        clusters = tuple(
            msgspec.convert({**cluster, "created": parse_time(cluster["created"])}, ClusterHead)
            for cluster in response["clusters"]
        )
        return ClusterPage(clusters, response["next"], parse_time(response["as_of"]))

    params = {"order": order, "limit": str(limit), "cursor": cursor}
    return Call("GET", path_in_scope(scope, "clusters"), read, params=params)


@check_arguments
def store_decisions(scope: str, decisions: Iterable[Decision]) -> Exchange[int]:
    """Yields the requests that store decisions, and returns the number of new ones."""
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
    stored = 0
    for start in range(0, len(bodies), DECISIONS_AT_ONCE):
        try:
            content = orjson.dumps({"decisions": bodies[start : start + DECISIONS_AT_ONCE]})
        except TypeError as error:
            raise UsageError(
                f"a decision has an id or a name that is not a valid Unicode text: {error}"
            ) from error
        stored += yield Call("POST", path, lambda answer: int(read_json(answer)["stored"]), content)
    return stored


@check_arguments
def read_decisions(scope: str) -> Exchange[Decisions]:
    """Yields the requests for the decisions about a scope, which are sent in pages."""
    path = path_in_scope(scope, "decisions")
    params = {"limit": str(DECISIONS_AT_ONCE)}
    decisions: dict[tuple[str, str], Decision] = {}
    while True:
        page = yield Call("GET", path, read_json, params=dict(params))
        decisions.update((one.pair, one) for one in map(_to_decision, page["decisions"]))
        if page["next"] is None:
            return Decisions(decisions)
        params["cursor"] = page["next"]


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
        from nearkin.stages.measures.explanation import Explanation

        return msgspec.convert(read_json(answer), Explanation)

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
        points = tuple(map(_to_operating_point, response["points"]))
        # members of newer servers are ignored
        known = {item.name: response[item.name] for item in fields(TuningResult)}
        return TuningResult(**{**known, "points": points})

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
    return msgspec.convert({**response, "similarities": similarities}, OperatingPoint)


def spec_request() -> Call[IndexFacts]:
    """Returns the request for the Spec and the banding of the index."""
    return Call("GET", "/v1/spec", lambda answer: msgspec.convert(read_json(answer), IndexFacts))


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
