"""Routes about the index and the server, including the shadow index and health."""

from bisect import bisect_right
from dataclasses import replace
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request, Response

from nearkin.errors import UsageError
from nearkin.index.description import IndexStats
from nearkin.index.history import MAX_CHANGES
from nearkin.index.index import Index
from nearkin.quality.plan.tune import TuningRecord
from nearkin.quality.plan.tune import tune as find_operating_points
from nearkin.runtime.version import VERSION
from nearkin.service.server.cursors import PageCursor, decode_cursor, encode_cursor
from nearkin.service.server.http.auth import Admin, Reader, Scraper, require_scope
from nearkin.service.server.http.parsing import body_schema, parse_body
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.tokens import Principal
from nearkin.service.server.routes import models as m
from nearkin.service.server.routes.documents import (
    PAGE_SIZE,
    admit_all,
    counted_response,
    json_response,
    ready_service,
    requested_top,
)
from nearkin.service.server.service import Service
from nearkin.service.server.shadow import ShadowIndex, ShadowStatus
from nearkin.service.server.telemetry import Exposition

router = APIRouter(tags=["index"])


@router.post(
    "/v1/query",
    response_model=m.Matches,
    openapi_extra=body_schema(m.ScopesQueryRequest),
    summary="Find documents that resemble a document in several scopes",
)
async def query_scopes(request: Request, who: Reader) -> Response:
    """Returns what a query of each scope returns, the most similar first, then the oldest.

    Each match names its scope, and each scope counts as a document for the rate. The token must
    have access to all of the scopes. Nothing is stored.
    """
    service = ready_service(request)
    body = await parse_body(request, m.ScopesQueryRequest)
    for scope in body.scopes:
        require_scope(who, scope)
    await admit_all(request, who, len(body.scopes), "scopes")
    top = requested_top(body, service.settings.max_top)
    matches = await service.query(body.scopes, body.document, top, members=body.members)
    return json_response({"matches": [m.describe_match(match, who) for match in matches]})


@router.post(
    "/v1/explain",
    response_model=dict[str, object],
    openapi_extra=body_schema(m.ExplainRequest),
    summary="Explain why two documents match or do not match",
)
async def explain(request: Request, who: Reader) -> Response:
    """Returns similarity, shingles and verdict of two stored documents.

    The estimate and the numbers of slots and bands that agree are null without the right admin:
    they tell how to change a text so that it is not found.
    """
    service = ready_service(request)
    body = await parse_body(request, m.ExplainRequest)
    require_scope(who, body.scope)
    explanation = await service.run_overview(_explanation_json, service.index, body, who)
    return counted_response(request, service, explanation)


def _explanation_json(index: Index, body: m.ExplainRequest, who: Principal) -> bytes:
    """Returns what a token may see of an explanation, as JSON.

    It contains the texts, so that serializing it can take long.
    """
    explanation = index.explain(body.scope, body.a, body.b)
    visible = explanation if who.has_right("admin") else explanation.without_counts()
    return orjson.dumps(visible.to_dict())


@router.post(
    "/v1/tune",
    response_model=dict[str, object],
    openapi_extra=body_schema(m.TuneRequest),
    summary="Find bands and rows for a threshold and a recall",
)
async def tune(request: Request, who: Reader) -> TuningRecord:
    """Returns operating points for the signatures of this index, cheapest first."""
    service = ready_service(request)
    body = await parse_body(request, m.TuneRequest)
    spec = service.index.spec if body.k is None else replace(service.index.spec, k=body.k)
    tuning = await service.run_overview(
        find_operating_points, body.threshold, body.recall, spec=spec, documents=body.documents
    )
    record = tuning.to_dict()
    record["points"] = record["points"][: body.points]
    return record


@router.get("/v1/scopes", summary="List the scopes that the token may read")
async def list_scopes(
    request: Request,
    who: Reader,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of scopes.")
    ] = PAGE_SIZE,
    cursor: PageCursor = None,
) -> m.ScopesAnswer:
    """Returns the scopes that have documents, with the numbers of their documents and clusters.

    Scopes that the token has no access to are not listed. Counts may be some minutes old.
    """
    service = ready_service(request)
    listing_id = ("scopes",)
    position = None if cursor is None else decode_cursor(cursor, listing_id, (str,))
    listings = service.cluster_listings
    listing = await service.run_overview(listings.scope_names)
    names = [name for name in listing.names if who.can_access(name)]
    start = 0 if position is None else bisect_right(names, position[0])
    page = names[start : start + limit]
    counts = await service.run_overview(listings.scope_counts, page)
    return m.ScopesAnswer(
        scopes=[m.ListedScope.from_counts(name, counts.get(name)) for name in page],
        next=encode_cursor(listing_id, [page[-1]]) if start + limit < len(names) else None,
        complete=listing.complete,
    )


@router.get(
    "/v1/changes", response_model=m.ChangesAnswer, summary="List what happened to documents"
)
async def list_changes(
    request: Request,
    who: Reader,
    after: Annotated[
        str | None,
        Query(max_length=1000, description="`next` of the previous page, or `now` for the end."),
    ] = None,
    scope: Annotated[str | None, Query(max_length=1024, description="Scope of changes.")] = None,
    id: Annotated[str | None, Query(max_length=1024, description="Id of a document.")] = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_CHANGES, description="Maximum number of changes.")
    ] = 1000,
) -> Response:
    """Returns a page of the history of the index, of the scopes that the token has access to.

    The index must have the setting `history`. A page may be empty although others follow.
    """
    service = ready_service(request)
    if scope is not None:
        require_scope(who, scope)

    def page_json() -> bytes:
        page = service.index.changes(after, scope, limit, id=id, can_access=who.can_access)
        changes = [{**vars(change), "at": m.format_time(change.at)} for change in page.changes]
        return orjson.dumps({**vars(page), "changes": changes})

    return counted_response(request, service, await service.run_overview(page_json))


@router.get(
    "/v1/spec",
    response_model=m.IndexInfo,
    response_model_exclude_unset=True,
    summary="Get the Spec and the banding of the index",
)
async def spec(request: Request, who: Reader) -> dict[str, object]:
    """Returns the Spec of the signatures, the threshold and the banding."""
    return m.describe_index(ready_service(request).index)


@router.get("/v1/stats", response_model=dict[str, object], summary="Get the counts of the index")
async def stats(request: Request, who: Admin) -> IndexStats:
    """Returns the numbers of documents, clusters, postings, bytes and evicted postings."""
    service = ready_service(request)
    return await service.run_in_thread(service.index.stats)


@router.get(
    "/v1/shadow",
    response_model=dict[str, object],
    tags=["admin"],
    summary="Compare the live index with the shadow index",
)
async def shadow(request: Request, who: Admin) -> ShadowStatus:
    """Returns agreement, candidates, durations and golden recall of both indexes."""
    return require_shadow(request).status()


@router.post(
    "/v1/shadow",
    response_model=dict[str, object],
    tags=["admin"],
    openapi_extra=body_schema(m.ShadowSwitch),
    summary="Switch to the shadow index, or back",
)
async def switch(request: Request, who: Admin) -> ShadowStatus:
    """Migrates the index to the other store. All workers follow, and a restart uses the new store.

    Answers 409 as long as the other index does not have all documents.
    """
    shadow_index = require_shadow(request)
    body = await parse_body(request, m.ShadowSwitch)
    try:
        await ready_service(request).run_in_thread(shadow_index.switch, body.live)
    except UsageError as error:
        raise ProblemError("conflict", str(error), retry_after=5.0) from error
    return shadow_index.status()


def require_shadow(request: Request) -> ShadowIndex:
    """Returns the shadow index of the server."""
    shadow_index = ready_service(request).shadow
    if shadow_index is None:
        raise ProblemError(
            "not-found",
            (
                "this server has no shadow index; start it with shadow_store, shadow_bands and "
                "shadow_rows"
            ),
        )
    return shadow_index


@router.get("/healthz", tags=["health"], summary="Check that the process is alive")
async def healthz() -> dict[str, str]:
    """Returns the version of the server."""
    return {"status": "ok", "version": VERSION}


@router.get("/readyz", tags=["health"], summary="Check that requests can be answered")
async def readyz(request: Request) -> dict[str, str]:
    """Answers 200 if the server and its store are ready, otherwise 503."""
    ready_service(request)
    await request.app.state.readiness.require()
    return {"status": "ready"}


@router.get(
    "/metrics", tags=["health"], summary="Get metrics for Prometheus", response_class=Response
)
async def metrics(request: Request, who: Scraper) -> Response:
    """Returns metrics in the text format of Prometheus.

    They contain scope names, and therefore need the right `metrics`.
    """
    exposition: Exposition | None = request.app.state.exposition
    if exposition is None:
        raise ProblemError("not-found", "metrics are turned off; start the server with --metrics")
    service: Service = request.app.state.service
    text = await service.run_in_thread(exposition.render)
    return Response(text, media_type=exposition.content_type)
