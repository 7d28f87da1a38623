"""Routes of the decisions that people make about documents of a scope."""

from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request, Response

from nearkin.service.server.cursors import PageCursor, decode_cursor, encode_cursor
from nearkin.service.server.decision_listings import DecisionListings
from nearkin.service.server.http.auth import Reader, ScopeName, Writer, validate_name
from nearkin.service.server.http.parsing import body_schema, parse_body
from nearkin.service.server.http.tokens import Principal
from nearkin.service.server.routes import models as m
from nearkin.service.server.routes.documents import admit_all, counted_response, ready_service
from nearkin.settings.decisions import Decision

router = APIRouter(prefix="/v1/scopes/{scope}", tags=["decisions"])
VIA = " via "
"""The separator of the name of the person who decided and that of the token."""


@router.post(
    "/decisions",
    openapi_extra=body_schema(m.DecisionsRequest),
    summary="Store decisions about pairs of documents",
)
async def decide(request: Request, scope: ScopeName, who: Writer) -> m.DecisionsStored:
    """Stores people's decisions about documents, and follows them at once.

    Documents that are different leave their common cluster, and those that are the same are joined.
    All of the decisions are checked before any is stored. Repeating a request is safe: of two
    decisions about a pair, the later one counts.
    """
    service = ready_service(request)
    body = await parse_body(request, m.DecisionsRequest)
    await admit_all(request, who, len(body.decisions), "decisions")
    decisions = [_to_decision(new, who) for new in body.decisions]
    stored = await service.run_in_thread(service.decide, scope, decisions)
    return m.DecisionsStored(stored=stored)


def _to_decision(new: m.NewDecision, who: Principal) -> Decision:
    """Returns a decision with the name of the token, which callers cannot leave out."""
    for member, id in (("id_a", new.id_a), ("id_b", new.id_b)):
        validate_name(id, member)
    by = who.name
    if new.by is not None:
        # A decision that was listed before names a token already: this one takes its place.
        person = validate_name(new.by, "by").partition(VIA)[0]
        if person and person != who.name:
            by = f"{person}{VIA}{who.name}"
    return Decision(new.id_a, new.id_b, new.decision, by, new.at)


@router.get(
    "/decisions", response_model=m.DecisionsAnswer, summary="List the decisions about documents"
)
async def decisions(
    request: Request,
    scope: ScopeName,
    who: Reader,
    limit: Annotated[
        int, Query(ge=1, le=m.MAX_DECISIONS, description="Maximum number of decisions.")
    ] = m.MAX_DECISIONS,
    cursor: PageCursor = None,
) -> Response:
    """Returns a page of the decisions about documents of a scope that the index stores.

    Decisions that stay are listed once each, whatever is decided between the pages.
    """
    service = ready_service(request)
    listing = ("decisions", scope)
    position = None if cursor is None else decode_cursor(cursor, listing, (str, str))
    body = await service.run_overview(
        _page_json, service.decision_listings, listing, position, limit
    )
    return counted_response(request, service, body)


def _page_json(
    listings: DecisionListings, listing: tuple[str, str], position: list[str] | None, limit: int
) -> bytes:
    """Returns a page of decisions as JSON."""
    after = None if position is None else (position[0], position[1])
    page = listings.page(listing[1], after, limit)
    answer = m.DecisionsAnswer(
        decisions=[m.StoredDecision.from_decision(decision) for decision in page.decisions],
        next=encode_cursor(listing, list(page.decisions[-1].pair)) if page.has_more else None,
    )
    return orjson.dumps(answer.model_dump())
