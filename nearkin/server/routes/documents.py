"""Routes of a scope: documents, queries, clusters."""

from bisect import bisect_right
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.routing import APIRoute

from nearkin.index.entry import MemberPosition, Outcome
from nearkin.index.index import Index
from nearkin.server.cluster_listings import by_age, by_size
from nearkin.server.cursors import FIRST, MOST_LENGTH, decode_cursor, encode_cursor
from nearkin.server.http.auth import DocumentId, Reader, RequireRight, ScopeName, StreamWriter, Writer, named, source_address
from nearkin.server.http.middleware import STREAMS
from nearkin.server.http.parsing import JSON, body_schema, media_type, parse_body
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import CURRENT_CALLER, Reservation
from nearkin.server.routes import models as m
from nearkin.server.service import Service
from nearkin.server.streams.documents import answer_stream

PAGE = 100
DESCRIBED: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/NewDocument"}},
            STREAMS[0]: {
                "schema": {"type": "string", "description": "A NewDocument a line; answered by a Line or Upserted each."}
            },
            STREAMS[1]: {
                "schema": {"type": "string", "format": "binary", "description": "Columns id (optional) and text or vector."}
            },
        },
    }
}
router = APIRouter(prefix="/v1/scopes/{scope}", tags=["documents"])


class Upserts(APIRoute):
    """The route that is asked thousands of times a second: described as any other, but called without FastAPI's solving of
    dependencies, which takes as long as everything else that happens around an upsert (benchmarks/server.py)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Who asks, then the endpoint."""
        allowed = RequireRight("write", cost=0)

        async def handle(request: Request) -> Response:
            return await upsert(request, request.path_params["scope"], await allowed(request))

        return handle


upserts = APIRouter(prefix="/v1/scopes/{scope}", tags=["documents"], route_class=Upserts)


def service_of(request: Request) -> Service:
    """Of the app, once it is ready.

    Raises:
        ProblemError: It is not.
    """
    found: Service = request.app.state.service
    found.require_ready()
    return found


@upserts.post("/documents", response_model=m.UpsertResult, openapi_extra=DESCRIBED, summary="Upsert one document, or many")
async def upsert(request: Request, scope: ScopeName, who: StreamWriter) -> Response:
    """One document as JSON, or many as NDJSON or an Arrow IPC stream, answered in the same form as they are worked on.

    Repeating a request does no harm: the same id with the same content is the same document.
    """
    service = service_of(request)
    kind = media_type(request)
    if kind in STREAMS:
        return await answer_stream(request, service, scope, who, kind)
    # counted before anything of the body is read
    await request.app.state.authenticator.admit_documents(who, source_address(request), 1)
    new = await parse_body(request, m.NewDocument)
    outcome = await service.upsert(scope, new.document, None if new.id is None else named(new.id, "id"))
    return Response(as_json(outcome), media_type=JSON)


def as_json(outcome: Outcome) -> bytes:
    """In the form of `Upserted`."""
    import orjson

    return orjson.dumps(outcome.to_dict(), option=orjson.OPT_SERIALIZE_NUMPY)


@router.post("/query", openapi_extra=body_schema(m.QueryRequest), summary="What resembles a document")
async def query(request: Request, scope: ScopeName, who: Reader) -> m.Matches:
    """Stored documents at or above the threshold, most similar first; nothing is written."""
    service = service_of(request)
    asked = await parse_body(request, m.QueryRequest)
    top = min(asked.top, service.settings.max_top)
    return m.Matches(matches=[m.QueryMatch.of(match) for match in await service.query(scope, asked.document, top)])


def held_answer(request: Request, service: Service, body: bytes) -> Response:
    """Returns JSON as an answer whose bytes are counted for the caller until they were sent: a client may read them late.

    Raises:
        ProblemError: If the caller, or all callers together, have too many bytes in memory.
    """
    held = Reservation(service.memory, CURRENT_CALLER.get())
    reservations: ExitStack = request.state.reservations
    reservations.callback(held.shrink)
    held.add(len(body))
    return Response(body, media_type=JSON)


@router.get("/documents/{id:path}", response_model=m.StoredDocument, summary="A document")
async def get(
    request: Request,
    scope: ScopeName,
    id: DocumentId,
    who: Reader,
    include: Annotated[str | None, Query(pattern="^signature$", description="signature, for admins.")] = None,
) -> Response:
    """As it is kept."""
    service = service_of(request)
    if include is not None and not who.has_right("admin"):
        raise ProblemError("forbidden", "signatures are for admins")
    found = await service.run_in_thread(_stored_document, service.index, scope, named(id, "id"), signature=include is not None)
    if found is None:
        raise ProblemError("not-found", "this scope has no such document")
    return held_answer(request, service, found)


def _stored_document(index: Index, scope: str, id: str, *, signature: bool) -> bytes | None:
    """Returns a document as JSON, which takes time to write for a long text; None if there is no such document."""
    import orjson

    entry = index.get(scope, id)
    return None if entry is None else orjson.dumps(m.StoredDocument.of(entry, signature).model_dump())


@router.delete("/documents/{id:path}", status_code=204, summary="Erase a document")
async def remove(request: Request, scope: ScopeName, id: DocumentId, who: Writer) -> Response:
    """Those that it stood for elect another representative."""
    service = service_of(request)
    if not await service.remove(scope, named(id, "id")):
        raise ProblemError("not-found", "this scope has no such document")
    return Response(status_code=204)


@router.patch(
    "/documents/{id:path}",
    openapi_extra=body_schema(m.DocumentPart),
    summary="Add a piece to a document that arrives in pieces",
)
async def add_piece(request: Request, scope: ScopeName, id: DocumentId, who: Writer) -> m.PartAnswer:
    """Text or tokens; each piece is shingled by itself, and one that comes twice changes nothing. Then `:close` resolves it."""
    service = service_of(request)
    piece = await parse_body(request, m.DocumentPart)
    content = piece.text if piece.text is not None else piece.tokens or []
    return m.PartAnswer(id=id, shingles=await service.add_part(scope, named(id, "id"), content))


@router.post("/documents/{id:path}:close", response_model=m.UpsertResult, summary="Resolve a document that came in pieces")
async def close(request: Request, scope: ScopeName, id: DocumentId, who: Writer) -> Response:
    """As an upsert of the whole; its pieces are gone afterwards."""
    outcome = await service_of(request).finish_document(scope, named(id, "id"))
    if outcome is None:
        raise ProblemError("not-found", "this scope has no document of that id that is open")
    return Response(as_json(outcome), media_type=JSON)


@router.get("/clusters/{id:path}", summary="The cluster of a document")
async def cluster(
    request: Request,
    scope: ScopeName,
    id: DocumentId,
    who: Reader,
    start: Annotated[int, Query(ge=0, le=10**9, description="First member.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Members.")] = PAGE,
    after: Annotated[
        str | None,
        Query(
            min_length=1, max_length=1024, description="Id of the last member known: faster than start, which is then unused."
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        Query(
            max_length=MOST_LENGTH,
            description="`next` of the previous page; start and after are then unused. Members that stay in the cluster are "
            "listed once each, whatever comes and goes between the pages.",
        ),
    ] = None,
) -> m.ClusterAnswer:
    """By the id of any document in it; every answer names the representative. (A cluster keeps its own id, the one of its first
    document, when that document is erased.)"""
    service = service_of(request)
    listing = ("members", scope, *service.index.public_urls)
    position = None if cursor is None else decode_cursor(cursor, listing)
    if position is not None:
        behind = MemberPosition(*position)
        found = await service.run_in_thread(service.index.cluster_part_after, scope, named(id, "id"), behind, limit)
    else:
        last = None if after is None else named(after, "after")
        found = await service.run_in_thread(service.index.cluster_part, scope, named(id, "id"), start, limit, last)
    if found is None:
        raise ProblemError("not-found", "this scope has no such cluster")
    return m.ClusterAnswer.of(found, None if found.end is None else encode_cursor(listing, list(found.end)))


@router.get("/clusters", summary="Clusters, largest or newest first")
async def clusters(
    request: Request,
    scope: ScopeName,
    who: Reader,
    order: Annotated[str, Query(pattern="^(largest|newest)$", description="largest or newest.")] = "largest",
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    cursor: Annotated[
        str,
        Query(min_length=1, max_length=MOST_LENGTH, description="`next` of the previous page of this scope and order."),
    ] = FIRST,
) -> m.ClusterPage:
    """The first 10,000 of either order, counted again from time to time; `nearkin index export` writes all of them. Clusters
    that stay are listed once each, whatever comes and goes between the pages; in the order `largest`, one whose size has
    changed between two pages may be missing or come twice."""
    service = service_of(request)
    listing = ("clusters", order, scope)
    position = decode_cursor(cursor, listing)
    found = await service.run_overview(service.cluster_listings.listing, scope)
    rows, key = (found.largest, by_size) if order == "largest" else (found.newest, by_age)
    start = 0 if position is None else bisect_right(rows, (position[0], position[1]), key=key)
    heads = rows[start : start + limit]
    more = start + limit < len(rows)
    return m.ClusterPage(
        clusters=[m.ClusterHead(id=h.cluster, representative=h.representative, size=h.size, created=h.created) for h in heads],
        next=encode_cursor(listing, list(key(heads[-1]))) if more else None,
        as_of=found.as_of,
    )
