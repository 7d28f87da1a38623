"""The requests to `nearkin serve` whose bodies or responses take more than a line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import msgspec
import orjson

from nearkin.errors import ServiceError, UsageError
from nearkin.index.changes import Change, ChangePage
from nearkin.index.entry import Cluster, Match
from nearkin.runtime.argument_types import check_arguments
from nearkin.service.client.call import (
    Call,
    Exchange,
    build_match,
    or_none,
    parse_time,
    path_in_scope,
    read_json,
    reader_of_number,
    require_success,
)
from nearkin.service.client.models import (
    ClusterHead,
    ClusterPage,
    StoredDocument,
    TuningResult,
)
from nearkin.settings.decisions import Decision, Decisions, Verdict

if TYPE_CHECKING:
    from nearkin.quality.plan.tune import OperatingPoint, OperatingPointRecord
    from nearkin.stages.measures.explanation import Explanation

DECISIONS_AT_ONCE = 200
"""The maximum number of decisions of a request."""
REMOVALS_AT_ONCE = 200
"""The maximum number of documents that a request deletes."""
CLUSTER_PART = 1000
"""The maximum number of members of a cluster in a response."""


def search_request(
    scope: str | Sequence[str], route: str, line: bytes, member: str
) -> Call[list[Match]]:
    """Returns a request whose response lists documents in one of its members.

    Args:
        line: Body of the request. It has the scopes if there are several.
    """

    def read(response: httpx2.Response) -> list[Match]:
        return list(map(build_match, read_json(response)[member]))

    path = path_in_scope(scope, route) if isinstance(scope, str) else f"/v1/{route}"
    return Call("POST", path, read, line)


def read_document(response: httpx2.Response) -> StoredDocument:
    """Returns the document that a response consists of."""
    members = read_json(response)
    times = {name: parse_time(members[name]) for name in ("created", "seen")}
    return msgspec.convert({**members, **times}, StoredDocument)


def read_removal(response: httpx2.Response) -> bool:
    """Returns whether a document was removed. It is False if the document did not exist."""
    try:
        require_success(response)
    except ServiceError as problem:
        if problem.code == "not-found":
            return False
        raise
    return True


def remove_documents(scope: str, ids: Sequence[str]) -> Exchange[int]:
    """Yields the requests that delete documents, and returns the number of those that existed."""
    path = path_in_scope(scope, "removals")
    removed = 0
    for start in range(0, len(ids), REMOVALS_AT_ONCE):
        try:
            content = orjson.dumps({"ids": list(ids[start : start + REMOVALS_AT_ONCE])})
        except TypeError as error:
            raise UsageError(f"an id is not a valid Unicode text: {error}") from error
        removed += yield Call("POST", path, reader_of_number("removed"), content)
    return removed


def remove_scope(scope: str) -> Exchange[int]:
    """Yields the requests that delete a scope, and returns the number of deleted documents."""
    removed = 0
    while True:
        answer = yield Call("DELETE", path_in_scope(scope), read_json)
        removed += int(answer["removed"])
        if answer["complete"]:
            return removed


def part_to_json(part: str | Sequence[str]) -> bytes:
    """Returns a part of a document as JSON."""
    try:
        return orjson.dumps({"text": part} if isinstance(part, str) else {"tokens": list(part)})
    except TypeError as error:
        raise UsageError(
            f"a part of a document must be a valid Unicode text or a list of them: {error}"
        ) from error


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


def store_decisions(scope: str, decisions: Iterable[Decision]) -> Exchange[int]:
    """Yields the requests that store decisions, and returns the number of new ones."""
    decisions = list(decisions)
    bodies = []
    for decision in decisions:
        if not isinstance(decision, Decision):
            raise UsageError(
                f"{decision!r} is not a decision; give "
                "nearkin.index_types.Decision(id_a, id_b, verdict)"
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
        stored += yield Call("POST", path, reader_of_number("stored"), content)
    return stored


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


def changes_request(
    after: str | None, scope: str | None, limit: int, id: str | None
) -> Call[ChangePage]:
    """Returns the request for a page of changes."""

    def read(answer: httpx2.Response) -> ChangePage:
        response = read_json(answer)
        changes = tuple(
            msgspec.convert({**change, "at": parse_time(change["at"])}, Change)
            for change in response["changes"]
        )
        return ChangePage(changes, response["next"], response["has_more"])

    given = {"after": after, "scope": scope, "limit": str(limit), "id": id}
    params = {name: value for name, value in given.items() if value is not None}
    return Call("GET", "/v1/changes", read, params=params)


def read_explanation(response: httpx2.Response) -> "Explanation":
    """Returns the explanation that a response consists of."""
    from nearkin.stages.measures.explanation import Explanation

    return msgspec.convert(read_json(response), Explanation)


def tune_request(requirements: Mapping[str, float]) -> Call[TuningResult]:
    """Returns the request for operating points."""

    def read(response: httpx2.Response) -> TuningResult:
        members = read_json(response)
        points = tuple(map(_to_operating_point, members["points"]))
        # members of newer servers are ignored
        known = {item.name: members[item.name] for item in fields(TuningResult)}
        return TuningResult(**{**known, "points": points})

    try:
        body = orjson.dumps(requirements)
    except TypeError as error:
        raise UsageError(f"a number is out of range: {error}; give a smaller one") from error
    return Call("POST", "/v1/tune", read, body)


def _to_operating_point(response: "OperatingPointRecord") -> "OperatingPoint":
    from nearkin.quality.plan.tune import OperatingPoint

    similarities = tuple(
        float("nan") if value is None else value for value in response["similarities"].values()
    )
    return msgspec.convert({**response, "similarities": similarities}, OperatingPoint)


def read_readiness(response: httpx2.Response) -> bool:
    """Returns whether a server is ready."""
    if response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
        require_success(response)
    return response.is_success
