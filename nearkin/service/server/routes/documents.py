"""Routes of a scope: documents, queries and clusters."""

from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.routing import APIRoute

from nearkin.index.entry import MemberPosition, Outcome
from nearkin.index.index import Index
from nearkin.index.scope_settings import ScopeSettings
from nearkin.service.server.cluster_listings import age_order, size_order
from nearkin.service.server.cursors import (
    FIRST_PAGE,
    MAX_CURSOR_LENGTH,
    decode_cursor,
    encode_cursor,
)
from nearkin.service.server.http.auth import (
    Admin,
    Authenticator,
    DocumentId,
    Reader,
    RequireRight,
    ScopeName,
    StreamWriter,
    Writer,
    source_address,
    validate_name,
)
from nearkin.service.server.http.callers import CURRENT_CALLER
from nearkin.service.server.http.middleware import ARROW_STREAM, NDJSON, STREAM_TYPES
from nearkin.service.server.http.parsing import JSON, body_schema, parse_body, request_media_type
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation
from nearkin.service.server.http.tokens import Principal
from nearkin.service.server.routes import models as m
from nearkin.service.server.service import REMOVED_AT_ONCE, Service
from nearkin.service.server.streams.response import answer_stream

PAGE_SIZE = 100
UPSERT_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/UpsertRequest"}},
            NDJSON: {
                "schema": {
                    "type": "string",
                    "description": "One UpsertRequest per line. Each line is answered with a line "
                    "that has the members of "
                    "StreamLine and UpsertResult.",
                }
            },
            ARROW_STREAM: {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "description": "Arrow IPC stream with a column text or vector (or both, if the "
                    "index has texts and vectors), and optionally a column id.",
                }
            },
        },
    }
}
router = APIRouter(prefix="/v1/scopes/{scope}", tags=["documents"])


class UpsertRoute(APIRoute):
    """A route that calls its endpoint without FastAPI's dependency injection.

    It is called thousands of times per second. The injection takes as long as everything else
    around an upsert (benchmarks/server.py). The OpenAPI description is the same as that of other
    routes.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Returns a function that authorizes a request and calls the endpoint."""
        require_right = RequireRight("write", cost=0)

        async def handle(request: Request) -> Response:
            return await upsert(request, request.path_params["scope"], await require_right(request))

        return handle


upserts = APIRouter(prefix="/v1/scopes/{scope}", tags=["documents"], route_class=UpsertRoute)


def ready_service(request: Request) -> Service:
    """Returns the service of the application."""
    service: Service = request.app.state.service
    service.require_ready()
    return service


@upserts.post(
    "/documents",
    response_model=m.UpsertResult,
    openapi_extra=UPSERT_BODY,
    summary="Upsert one document, or a stream of them",
)
async def upsert(request: Request, scope: ScopeName, who: StreamWriter) -> Response:
    """Upserts one document as JSON, or many as NDJSON or as an Arrow IPC stream.

    A stream is answered in its own format, while it is processed. Repeating a request is safe: the
    same id with the same content is the same document.
    """
    service = ready_service(request)
    media_type = request_media_type(request)
    if media_type in STREAM_TYPES:
        return await answer_stream(request, service, scope, who, media_type)
    # counted before any byte of the body is read
    await request.app.state.authenticator.admit_documents(who, source_address(request), 1)
    new = await parse_body(request, m.UpsertRequest)
    id = None if new.id is None else validate_name(new.id, "id")
    outcome = await service.upsert(scope, new.document, id)
    return Response(outcome_json(outcome), media_type=JSON)


def outcome_json(outcome: Outcome) -> bytes:
    """Returns an outcome as JSON in the form of `UpsertResult`."""
    return orjson.dumps(outcome.to_dict(), option=orjson.OPT_SERIALIZE_NUMPY)


@router.post(
    "/query",
    response_model=m.Matches,
    openapi_extra=body_schema(m.QueryRequest),
    summary="Find documents that resemble a document",
)
async def query(request: Request, scope: ScopeName, who: Reader) -> Response:
    """Returns the representatives whose similarity reaches the threshold, most similar first.

    With `members`, their similar members are returned, too, and with `related`, the representatives
    of a lower similarity that the setting `related` of the index asks for. Nothing is stored.
    """
    service = ready_service(request)
    body = await parse_body(request, m.QueryRequest)
    top = requested_top(body, service.settings.max_top)
    matches = await service.query(scope, body.document, top, members=body.members)
    answer = {"matches": [m.describe_match(match, who) for match in matches]}
    if body.related:
        related = await service.query_related(scope, body.document)
        answer["related"] = [m.describe_match(match, who) for match in related[:top]]
    return json_response(answer)


@router.post(
    "/near-misses",
    response_model=m.NearMisses,
    openapi_extra=body_schema(m.NearMissRequest),
    summary="Find documents that are almost similar enough to a document",
)
async def near_misses(request: Request, scope: ScopeName, who: Reader) -> Response:
    """Returns documents that share a bucket with a document but are below the threshold.

    They are representatives, the most similar first. Nothing is stored.
    """
    service = ready_service(request)
    body = await parse_body(request, m.NearMissRequest)
    top = requested_top(body, service.settings.max_top)
    misses = await service.run_in_thread(service.index.near_misses, scope, body.document, top)
    return json_response({"near_misses": [m.describe_match(miss, who) for miss in misses]})


def json_response(answer: Mapping[str, object]) -> Response:
    """Returns a response of values that may be numbers of numpy."""
    return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


@router.post(
    "/passages",
    response_model=m.PassagesAnswer,
    openapi_extra=body_schema(m.PassagesRequest),
    summary="Find documents that share a passage with a text",
)
async def passages(request: Request, scope: ScopeName, who: Reader) -> Response:
    """Returns stored documents that share a passage with a text, with the bytes of it in both.

    The index must have the setting `passages`, the smallest number of words of a passage. Nothing
    is stored.
    """
    service = ready_service(request)
    body = await parse_body(request, m.PassagesRequest)
    top = requested_top(body, service.settings.max_top)
    content = await service.run_in_thread(_passages_json, service.index, scope, body.text, top)
    return counted_response(request, service, content)


def _passages_json(index: Index, scope: str, text: str, top: int) -> bytes:
    """Returns the documents that share a passage with a text as JSON."""
    return orjson.dumps(index.passages(scope, text, top).to_dict())


def requested_top(
    body: m.QueryRequest | m.ScopesQueryRequest | m.NearMissRequest | m.PassagesRequest,
    max_top: int,
) -> int:
    """Returns the maximum number of documents that a response lists."""
    if "top" in body.model_fields_set and body.top > max_top:
        raise ProblemError(
            "invalid-request",
            f"top={body.top} exceeds max_top={max_top} of this server; request fewer matches",
            field="/top",
        )
    return min(body.top, max_top)


def counted_response(request: Request, service: Service, body: bytes) -> Response:
    """Returns a JSON response whose bytes are counted for the caller until they were sent.

    Slow clients may read them late.

    Args:
        service: The service that counts the bytes.
    """
    reservation = Reservation(service.memory, CURRENT_CALLER.get())
    reservations: ExitStack = request.state.reservations
    reservations.callback(reservation.shrink)
    reservation.add(len(body))
    return Response(body, media_type=JSON)


@router.get("/documents/{id:path}", response_model=m.DocumentAnswer, summary="Get a document")
async def get(
    request: Request,
    scope: ScopeName,
    id: DocumentId,
    who: Reader,
    include: Annotated[
        str | None,
        Query(pattern="^signature$", description="`signature` to include it; administrators only."),
    ] = None,
) -> Response:
    """Returns a stored document."""
    service = ready_service(request)
    include_signature = include is not None
    if include_signature and not who.has_right("admin"):
        raise ProblemError("forbidden", "signatures require the right 'admin'")
    body = await service.run_in_thread(
        _stored_document_json,
        service.index,
        scope,
        validate_name(id, "id"),
        include_signature=include_signature,
    )
    if body is None:
        raise ProblemError("not-found", "this scope has no document of this id")
    return counted_response(request, service, body)


def _stored_document_json(
    index: Index, scope: str, id: str, *, include_signature: bool
) -> bytes | None:
    """Returns a document as JSON, or None if it does not exist.

    Serializing a long text takes time.
    """
    entry = index.get(scope, id)
    if entry is None:
        return None
    return orjson.dumps(
        m.DocumentAnswer.from_entry(entry, include_signature=include_signature).model_dump()
    )


@router.delete("/documents/{id:path}", status_code=204, summary="Delete a document")
async def remove(request: Request, scope: ScopeName, id: DocumentId, who: Writer) -> Response:
    """Deletes a document.

    If it was a representative, another document of its cluster becomes the representative.
    """
    service = ready_service(request)
    if not await service.run_in_thread(service.remove, scope, validate_name(id, "id")):
        raise ProblemError("not-found", "this scope has no document of this id")
    return Response(status_code=204)


@router.post(
    "/removals",
    openapi_extra=body_schema(m.RemovalsRequest),
    summary="Delete a list of documents",
)
async def remove_many(request: Request, scope: ScopeName, who: Writer) -> m.RemovalsAnswer:
    """Deletes documents, and passes over those that do not exist. Repeating a request is safe.

    Another document of its cluster takes the place of each representative.
    """
    service = ready_service(request)
    body = await parse_body(request, m.RemovalsRequest)
    ids = [validate_name(id, "ids") for id in body.ids]
    await admit_all(request, who, len(ids), "ids")
    return m.RemovalsAnswer(removed=await service.run_in_thread(service.remove_many, scope, ids))


@router.get("", summary="Get the settings of a scope")
async def scope_status(request: Request, scope: ScopeName, who: Reader) -> m.ScopeStatusAnswer:  # type: ignore[valid-type]
    """Returns the settings of a scope over those of the index, and the use of its quotas."""
    service = ready_service(request)
    status = await service.run_in_thread(service.index.scope_status, scope)
    return m.ScopeStatusAnswer(**asdict(status))


@router.put("", openapi_extra=body_schema(m.ScopeRequest), summary="Set the settings of a scope")
async def configure_scope(request: Request, scope: ScopeName, who: Admin) -> m.ScopeStatusAnswer:  # type: ignore[valid-type]
    """Replaces the settings of a scope. Those that are left out are those of the index.

    Documents are counted if there is a quota. Repeating a request is safe.
    """
    service = ready_service(request)
    body = await parse_body(request, m.ScopeRequest)
    settings = ScopeSettings(**body.model_dump())
    status = await service.run_overview(service.configure_scope, scope, settings)
    return m.ScopeStatusAnswer(**asdict(status))


@router.delete("", summary="Delete the documents of a scope")
async def remove_scope(request: Request, scope: ScopeName, who: Writer) -> m.ScopeRemoval:
    """Deletes documents of a scope until none is left, or for a bounded number of them.

    Repeat the request until `complete` is true. It does not matter if an answer is lost. Decisions
    about the documents stay.
    """
    service = ready_service(request)
    removed = await service.run_overview(service.remove_scope, scope)
    return m.ScopeRemoval(removed=removed, complete=removed < REMOVED_AT_ONCE)


async def admit_all(request: Request, who: Principal, count: int, member: str) -> None:
    """Counts the documents of a request, which itself counts as one, for the rate of a token."""
    if count < 2:
        return
    authenticator: Authenticator = request.app.state.authenticator
    most = authenticator.max_admitted(who)
    if count > most:
        raise ProblemError(
            "too-large",
            f"{count:,} {member} exceed the rate of documents; send at most {most:,} in a request",
            field=f"/{member}",
        )
    await authenticator.admit_documents(who, source_address(request), count - 1)


@router.patch(
    "/documents/{id:path}",
    openapi_extra=body_schema(m.DocumentPart),
    summary="Add a part to an unfinished document",
)
async def add_part(request: Request, scope: ScopeName, id: DocumentId, who: Writer) -> m.PartAnswer:
    """Adds text or tokens to a document that arrives in parts. `:close` finishes it.

    Each part is split into shingles on its own. Adding the same part again changes nothing.
    """
    service = ready_service(request)
    part = await parse_body(request, m.DocumentPart)
    content = part.text if part.text is not None else part.tokens or []
    name = validate_name(id, "id")
    shingles = await service.run_in_thread(service.add_part, scope, name, content)
    return m.PartAnswer(id=id, shingles=shingles)


@router.post(
    "/documents/{id:path}:close",
    response_model=m.UpsertResult,
    summary="Finish a document that arrived in parts",
)
async def finish(request: Request, scope: ScopeName, id: DocumentId, who: Writer) -> Response:
    """Upserts the document that the parts form, and deletes the parts."""
    service = ready_service(request)
    name = validate_name(id, "id")
    outcome = await service.run_in_thread(service.finish_document, scope, name)
    if outcome is None:
        raise ProblemError("not-found", "this scope has no unfinished document of this id")
    return Response(outcome_json(outcome), media_type=JSON)


@router.get("/clusters/{id:path}", summary="Get the cluster of a document")
async def cluster(
    request: Request,
    scope: ScopeName,
    id: DocumentId,
    who: Reader,
    start: Annotated[int, Query(ge=0, le=10**9, description="Position of the first member.")] = 0,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of members.")
    ] = PAGE_SIZE,
    after: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=1024,
            description="Id of the last member of the previous page. It is faster than `start` "
            "and overrides it.",
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR_LENGTH,
            description="`next` of the previous page. It overrides `start` and `after`. Members "
            "that stay in the cluster are "
            "listed exactly once, even if others are added or deleted between the pages.",
        ),
    ] = None,
) -> m.ClusterAnswer:
    """Returns the cluster of any of its documents, with a page of its members.

    The id of a cluster is that of its first document, and remains the same when this document is
    deleted. Use `representative` to refer to the document that currently represents the cluster.
    """
    service = ready_service(request)
    listing = ("members", scope, *service.index.public_urls)
    position = None if cursor is None else decode_cursor(cursor, listing, (str, int))
    id = validate_name(id, "id")
    if position is not None:
        previous = MemberPosition._make(position)
        part = await service.run_in_thread(
            service.index.cluster_part_after, scope, id, previous, limit
        )
    else:
        last = None if after is None else validate_name(after, "after")
        part = await service.run_in_thread(
            service.index.cluster_part, scope, id, start, limit, last
        )
    if part is None:
        raise ProblemError(
            "not-found", "this scope has no document of this id, and no such cluster"
        )
    return m.ClusterAnswer.from_part(
        part, None if part.end is None else encode_cursor(listing, list(part.end))
    )


@router.get("/clusters", summary="List the clusters of a scope, largest or newest first")
async def clusters(
    request: Request,
    scope: ScopeName,
    who: Reader,
    order: Annotated[
        str, Query(pattern="^(largest|newest)$", description="largest or newest.")
    ] = "largest",
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of clusters.")
    ] = PAGE_SIZE,
    cursor: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MAX_CURSOR_LENGTH,
            description="`next` of the previous page of this scope and order.",
        ),
    ] = FIRST_PAGE,
) -> m.ClustersAnswer:
    """Returns a page of the first 10,000 clusters in either order.

    `nearkin index export` writes all clusters.

    The clusters are counted again from time to time. Clusters that stay are listed exactly once,
    even if others are added or deleted between the pages. In the order `largest`, a cluster whose
    size changes between two pages may be missing or repeated.
    """
    service = ready_service(request)
    listing_id = ("clusters", order, scope)
    position = decode_cursor(cursor, listing_id, (float, str))
    listing = await service.run_overview(service.cluster_listings.listing, scope)
    if order == "largest":
        rows = listing.largest
        sort_key = size_order
    else:
        rows = listing.newest
        sort_key = age_order
    start = 0 if position is None else bisect_right(rows, (position[0], position[1]), key=sort_key)
    page = rows[start : start + limit]
    has_more = start + limit < len(rows)
    return m.ClustersAnswer(
        clusters=[
            m.ListedCluster(
                id=row.cluster,
                representative=row.representative,
                size=row.size,
                created=m.format_time(row.created),
            )
            for row in page
        ],
        next=encode_cursor(listing_id, list(sort_key(page[-1]))) if has_more else None,
        as_of=m.format_time(listing.as_of),
    )
