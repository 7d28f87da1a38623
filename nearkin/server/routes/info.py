"""Routes about the index and the server themselves."""

import json
from dataclasses import replace
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from nearkin.errors import UsageError
from nearkin.index.index import Index
from nearkin.plan.tune import tune as find_points
from nearkin.server.http.auth import Admin, Reader, Scraper, require_scope
from nearkin.server.http.parsing import body_schema, parse_body
from nearkin.server.http.problems import ProblemError
from nearkin.server.routes import models as m
from nearkin.server.routes.documents import held_answer, service_of
from nearkin.server.service import Service
from nearkin.server.shadow import ShadowIndex
from nearkin.server.telemetry import Exposition
from nearkin.version import VERSION

router = APIRouter(tags=["index"])


@router.post(
    "/v1/explain",
    response_model=dict[str, Any],
    openapi_extra=body_schema(m.ExplainRequest),
    summary="Why two documents match, or do not",
)
async def explain(request: Request, who: Reader) -> Response:
    """Similarity, estimate, shared bands and shingles of two stored documents of one scope."""
    service = service_of(request)
    asked = await parse_body(request, m.ExplainRequest)
    require_scope(who, asked.scope)
    return held_answer(request, service, await service.run_overview(explained, service.index, asked))


def explained(index: Index, asked: m.ExplainRequest) -> bytes:
    """Explains two documents, as JSON: it holds their texts, which take time to write where they are long."""
    return orjson.dumps(index.explain(asked.scope, asked.a, asked.b).to_dict())


@router.post("/v1/tune", openapi_extra=body_schema(m.TuneRequest), summary="Bands and rows for a threshold and a recall")
async def tune(request: Request, who: Reader) -> dict[str, Any]:
    """Operating points, cheapest first, for signatures of this index."""
    service = service_of(request)
    asked = await parse_body(request, m.TuneRequest)
    spec = service.index.spec if asked.k is None else replace(service.index.spec, k=asked.k)
    found = await service.run_overview(find_points, asked.threshold, asked.recall, spec=spec, documents=asked.documents)
    told = found.to_dict()
    return {**told, "points": told["points"][: asked.points]}


@router.get("/v1/spec", summary="What this index is")
async def spec(request: Request, who: Reader) -> m.IndexInfo:
    """The Spec of its signatures, its threshold and its banding."""
    index = service_of(request).index
    return m.IndexInfo(
        spec=json.loads(index.spec.to_json()),
        fingerprint=index.spec.fingerprint,
        threshold=index.threshold,
        recall=index.settings.recall,
        bands=index.banding.bands,
        rows=index.banding.rows,
        probes=index.banding.probes,
        postings=index.settings.postings,
        version=VERSION,
    )


@router.get("/v1/stats", summary="Counts of the index")
async def stats(request: Request, who: Admin) -> dict[str, Any]:
    """Documents, clusters, postings, bytes, what was evicted."""
    service = service_of(request)
    return await service.run_in_thread(service.index.stats)


@router.get("/v1/shadow", tags=["admin"], summary="Two bandings side by side")
async def shadow(request: Request, who: Admin) -> dict[str, Any]:
    """What the live one and its shadow make of the same documents: agreement, candidates, seconds, golden recall."""
    return shadow_of(request).facts()


@router.post("/v1/shadow", tags=["admin"], openapi_extra=body_schema(m.ShadowSwitch), summary="Let the other banding answer")
async def switch(request: Request, who: Admin) -> dict[str, Any]:
    """Cut over, or back: the index moves to the other store, every worker with it, and a restart finds it there.

    Raises:
        ProblemError: The other one has not all documents.
    """
    found, asked = shadow_of(request), await parse_body(request, m.ShadowSwitch)
    try:
        await service_of(request).run_in_thread(found.switch, asked.live == "shadow")
    except UsageError as error:
        raise ProblemError("conflict", str(error), retry_after=5.0) from error
    return found.facts()


def shadow_of(request: Request) -> ShadowIndex:
    """Of the server.

    Raises:
        ProblemError: It has none.
    """
    found = service_of(request).shadow
    if found is None:
        raise ProblemError("not-found", "this server has no shadow: start it with shadow_store, shadow_bands and shadow_rows")
    return found


@router.get("/healthz", tags=["health"], summary="Whether the process lives")
async def healthz() -> dict[str, str]:
    """It does if it answers."""
    return {"status": "ok", "version": VERSION}


@router.get("/readyz", tags=["health"], summary="Whether requests can be served")
async def readyz(request: Request) -> dict[str, str]:
    """Kernels are compiled, and the store answered less than a second ago.

    Raises:
        ProblemError: Not yet, or not now.
    """
    service_of(request)
    await request.app.state.readiness.require()
    return {"status": "ready"}


@router.get("/metrics", tags=["health"], summary="For Prometheus", response_class=Response)
async def metrics(request: Request, who: Scraper) -> Response:
    """Text exposition. Scopes are named in it, so that it needs the right `metrics` where there are tokens.

    Raises:
        ProblemError: Metrics are turned off.
    """
    exposition: Exposition | None = request.app.state.exposition
    if exposition is None:
        raise ProblemError("not-found", "metrics are turned off")
    service: Service = request.app.state.service
    text = await service.run_in_thread(exposition.text)
    return Response(text, media_type=exposition.content_type)
