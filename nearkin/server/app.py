"""The application: routes, what guards them, what lives as long as it does."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from nearkin.errors import NearkinError, StoreError, UsageError
from nearkin.index.index import Index
from nearkin.server.http.auth import Authenticator, source_address
from nearkin.server.http.connections import ConnectionLimits, LimitedConnection
from nearkin.server.http.middleware import RequestMiddleware, problem_response
from nearkin.server.http.parsing import invalid_request
from nearkin.server.http.problems import MEDIA_TYPE, ProblemError
from nearkin.server.http.rates import RateLimiter
from nearkin.server.http.shares import ReleaseReservations
from nearkin.server.http.tokens import TokenFile
from nearkin.server.logs import configure_logging
from nearkin.server.readiness import Readiness
from nearkin.server.resources import ServerResources, require_protection
from nearkin.server.routes import documents
from nearkin.server.routes import info as facts
from nearkin.server.routes import models as m
from nearkin.server.service import Service, check_store
from nearkin.server.settings import ServerSettings
from nearkin.server.telemetry import Exposition, Instruments, install_traces, prometheus
from nearkin.version import VERSION

if TYPE_CHECKING:
    from nearkin.server.console.mount import Console

log = logging.getLogger("nearkin.server")

SHARED = "NEARKIN_SHARED"
"""Folder in which the workers of one server leave notes for each other."""
TOKENS_EVERY = 2.0


def create_app(
    settings: ServerSettings, resources: ServerResources | None = None, instruments: Instruments | None = None
) -> FastAPI:
    """An application of its own: with its index, its tokens, its counts.

    Args:
        settings: Of the server.
        resources: What it works with; by default opened when it starts. It closes them when it ends.
        instruments: What it counts with; by default its own, if it serves metrics.

    Raises:
        UsageError: It would listen beyond this machine without tokens.
    """
    tokens, anonymous = require_tokens(settings)
    log_tokens(tokens, anonymous)
    provider, registry = prometheus() if settings.metrics and instruments is None else (None, None)
    counting = instruments or Instruments(provider)
    named = os.environ.get(SHARED)
    shared = Path(named) if named else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.exposition = None if registry is None else Exposition(registry, shared)
        rates = RateLimiter(settings.limits_store)
        app.state.authenticator = Authenticator(
            tokens, rates, settings.source_rate, settings.failures, settings.anonymous_rate, anonymous=anonymous
        )
        opened = await asyncio.to_thread(ServerResources.open, settings) if resources is None else resources
        try:
            await asyncio.to_thread(require_protection, opened.index, tokens, settings)
        except NearkinError:
            opened.close()
            raise
        async with Service.open(settings, opened, counting) as service:
            app.state.service = service
            app.state.readiness = Readiness(partial(service.run_in_thread, check_store, service))
            jobs = [asyncio.create_task(_keep_refreshing(tokens, opened.index))]
            if app.state.exposition is not None:
                jobs.append(asyncio.create_task(app.state.exposition.keep_writing_snapshots()))
            if console is not None:
                jobs.append(asyncio.create_task(console.keep_writing_snapshots()))
            yield
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)

    app = FastAPI(
        title="nearkin",
        version=VERSION,
        description="Have we seen this before? Near-duplicates of texts and vectors, verified.",
        # a route of its own answers with what is written once
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.description = None
    app.add_api_route("/openapi.json", _description, include_in_schema=False)
    for router in (documents.upserts, documents.router, facts.router):
        app.include_router(router)
    console = mount_console(app, shared) if settings.console else None
    app.add_middleware(ReleaseReservations)
    app.add_middleware(
        RequestMiddleware,
        instruments=counting,
        max_body=settings.max_body,
        max_stream=settings.max_stream,
        requests=settings.requests,
        timeout=settings.timeout,
        idle_timeout=settings.idle_timeout,
    )
    app.add_exception_handler(RequestValidationError, _not_as_described)
    app.add_exception_handler(HTTPException, _no_route)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def require_tokens(settings: ServerSettings) -> tuple[TokenFile, bool]:
    """The tokens, and whether everybody is answered as long as there is none.

    Raises:
        UsageError: It would listen beyond this machine without tokens.
    """
    tokens = TokenFile(settings.tokens)
    anonymous = settings.is_local or settings.allow_anonymous
    if not anonymous and not len(tokens):
        raise UsageError(
            f"{settings.host} can be reached from other machines, and {settings.tokens} has no token: make one with nearkin "
            "token create NAME --rights admin, or say --allow-anonymous"
        )
    return tokens, anonymous


def log_tokens(tokens: TokenFile, anonymous: bool) -> None:
    """Logs the path of the tokens file, and a warning if requests need no token.

    Args:
        tokens: The tokens of the server.
        anonymous: Whether requests without a token are answered as long as no token exists.
    """
    about = {"file": str(tokens.path), "tokens": len(tokens)}
    if anonymous and not tokens.is_protected:
        log.warning("there are no tokens: whoever reaches this server has every right", extra=about)
    else:
        log.info("tokens", extra=about)


def mount_console(app: FastAPI, shared: Path | None) -> "Console":
    """The pages under /console."""
    # its libraries take most of a second to import, which a server without a console need not wait for
    from nearkin.server.console.mount import Console

    console = Console(app.state, shared)
    app.mount("/console", console)
    return console


async def _keep_refreshing(tokens: TokenFile, index: Index) -> None:
    """Reads the tokens again when they change, and marks the index once it needs one."""
    was = ""
    marked = index.public_urls if tokens.is_protected else ()
    while True:
        await asyncio.sleep(TOKENS_EVERY)
        try:
            tokens.refresh()
            was = ""
            if tokens.is_protected and marked != index.public_urls:
                await asyncio.to_thread(index.protect)
                marked = index.public_urls
        except StoreError as error:
            log.warning("the index could not be marked as protected", extra={"error": str(error)})
        except UsageError as error:
            # a file that cannot be read leaves the tokens as they were
            if str(error) != was:
                log.error("tokens stay as they were", extra={"error": str(error)})
            was = str(error)


async def _not_as_described(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(invalid_request(error.errors()), request)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "no-such-path", 405: "method-not-allowed"}.get(error.status_code, "invalid-request")
    answer = problem_response(ProblemError(code, str(error.detail)), request)
    answer.headers.update(error.headers or {})
    return answer


async def _description(request: Request) -> Response:
    state = request.app.state
    await state.authenticator.admit_unauthenticated(source_address(request))
    if state.description is None:
        state.description = orjson.dumps(describe(request.app))
    return Response(state.description, media_type="application/json")


PARSED = (m.NewDocument, m.QueryRequest, m.ExplainRequest, m.TuneRequest, m.ShadowSwitch, m.DocumentPart)
"""Forms of bodies that routes parse themselves."""


def describe(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1, with the forms of bodies and of problems."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi
        from pydantic.json_schema import models_json_schema

        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, forms = models_json_schema(
            [(form, "validation") for form in (*PARSED, m.StreamLine)], ref_template="#/components/schemas/{model}"
        )
        found.setdefault("components", {}).setdefault("schemas", {}).update(forms["$defs"])
        found["components"]["schemas"]["Problem"] = PROBLEM
        answer = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["responses"].update({"4XX": answer, "5XX": answer})
        app.openapi_schema = found
    return app.openapi_schema


PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Which kind of problem; does not change."},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "Member of the request that is wrong."},
        "instance": {"type": "string", "description": "The request's id."},
    },
}


def from_environment() -> FastAPI:
    """For worker processes: the settings that the first one left in the environment."""
    settings = ServerSettings.read()
    prepare_process(settings)
    return create_app(settings)


def prepare_process(settings: ServerSettings) -> None:
    """Sets logs, traces and bounds on connections of this process."""
    LimitedConnection.bounds = ConnectionLimits.of(settings)
    configure_logging(settings.log_level)
    if settings.otlp is not None:
        install_traces(settings.otlp)
