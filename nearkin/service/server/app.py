"""The FastAPI application: routes, middleware, and the services that live as long as it does."""

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from nearkin.errors import MissingExtraError, NearkinError, StoreError, UsageError
from nearkin.index.index import Index
from nearkin.runtime.setting_names import SettingForm, settings_named_as
from nearkin.runtime.version import VERSION
from nearkin.service.server.api_docs import CONTENT_POLICY, SCRIPT_PATH, read_script, render_docs
from nearkin.service.server.http.auth import Authenticator
from nearkin.service.server.http.connections import ConnectionLimits, LimitedConnection
from nearkin.service.server.http.gate import Gate, Page
from nearkin.service.server.http.middleware import RequestMiddleware, problem_response
from nearkin.service.server.http.parsing import JSON, invalid_request
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.rates import RateLimiter
from nearkin.service.server.http.shares import ReleaseReservations
from nearkin.service.server.http.tokens import TokenFile
from nearkin.service.server.logs import configure_logging
from nearkin.service.server.openapi import describe_api
from nearkin.service.server.readiness import Readiness
from nearkin.service.server.resources import ServerResources, require_protection
from nearkin.service.server.routes import decisions, documents, info
from nearkin.service.server.service import Service, check_store, log_failed_task
from nearkin.service.server.settings import ServerSettings
from nearkin.service.server.telemetry import (
    Exposition,
    Instruments,
    create_meter_provider,
    install_traces,
)

if TYPE_CHECKING:
    from nearkin.service.server.console.mount import Console

log = logging.getLogger("nearkin.server")

SHARED_FOLDER = "NEARKIN_SHARED"
"""Environment variable with the folder through which the workers of one server exchange metrics."""
TOKEN_REFRESH_SECONDS = 2.0
"""Seconds between checks whether the tokens file has changed."""


def create_app(
    settings: ServerSettings,
    resources: ServerResources | None = None,
    instruments: Instruments | None = None,
) -> FastAPI:
    """Creates an application with its own index, tokens and metrics."""
    tokens, allow_anonymous = read_tokens(settings)
    log_tokens(tokens, allow_anonymous=allow_anonymous)
    provider, registry = None, None
    if settings.metrics and instruments is None:
        provider, registry = create_meter_provider()
    app_instruments = instruments or Instruments(provider)
    shared_folder = _shared_folder()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.exposition = None if registry is None else Exposition(registry, shared_folder)
        rates = RateLimiter(settings.limits_store)
        app.state.authenticator = Authenticator(
            tokens,
            rates,
            settings.source_rate,
            settings.failures,
            settings.anonymous_rate,
            allow_anonymous=allow_anonymous,
        )
        opened = resources
        if opened is None:
            opened = await asyncio.to_thread(ServerResources.open, settings)
        try:
            await asyncio.to_thread(require_protection, opened.index, tokens, settings)
        except NearkinError:
            opened.close()
            raise
        async with Service.open(settings, opened, app_instruments) as service:
            app.state.service = service

            async def check_stores() -> None:
                await service.run_in_thread(check_store, service)
                await rates.check()

            app.state.readiness = Readiness(check_stores)
            tasks = [asyncio.create_task(_keep_tokens_fresh(tokens, opened.index))]
            if app.state.exposition is not None:
                tasks.append(asyncio.create_task(app.state.exposition.keep_writing_snapshots()))
            if console is not None:
                tasks.append(asyncio.create_task(console.keep_writing_snapshots()))
            for task in tasks:
                task.add_done_callback(log_failed_task)
            with settings_named_as(SettingForm.FIELD):
                yield
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    app = FastAPI(
        title="nearkin",
        version=VERSION,
        description="Detects near-duplicates of texts and vectors. Each match is verified.",
        # a route below returns the description, which is serialized only once
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.settings = settings
    for router in (documents.upserts, documents.router, decisions.router, info.router):
        app.include_router(router)
    console: Console | None = None
    missing_console = ""
    if settings.console:
        try:
            console = mount_console(app, shared_folder)
        except MissingExtraError as error:
            missing_console = str(error)
            log.warning("the console is not served", extra={"reason": missing_console})
    app.add_middleware(ReleaseReservations)
    app.add_middleware(
        Gate,
        state=app.state,
        pages=_public_pages(app, "/docs" if console is None else "/console/"),
        console=console,
        missing_console=missing_console,
    )
    app.add_middleware(
        RequestMiddleware,
        instruments=app_instruments,
        max_body=settings.max_body,
        max_stream=settings.max_stream,
        requests=settings.requests,
        timeout=settings.timeout,
        idle_timeout=settings.idle_timeout,
    )
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    app.openapi = lambda: describe_api(app)  # type: ignore[method-assign]
    return app


def read_tokens(settings: ServerSettings) -> tuple[TokenFile, bool]:
    """Returns the tokens, and whether requests need no token as long as none was created."""
    tokens = TokenFile(settings.tokens)
    allow_anonymous = settings.is_local or settings.allow_anonymous
    if not allow_anonymous and not len(tokens):
        raise UsageError(
            f"other machines can reach {settings.host}, and {settings.tokens} has no token; "
            f"create a token with nearkin server token "
            "create NAME --rights admin, or pass --allow-anonymous"
        )
    return tokens, allow_anonymous


def log_tokens(tokens: TokenFile, *, allow_anonymous: bool) -> None:
    """Logs the path of the tokens file, and a warning if requests need no token."""
    fields = {"file": str(tokens.path), "tokens": len(tokens)}
    if allow_anonymous and not tokens.is_protected:
        log.warning("the server has no tokens: every client has all rights", extra=fields)
    else:
        log.info("tokens loaded", extra=fields)


def mount_console(app: FastAPI, shared_folder: Path | None) -> "Console":
    """Mounts the console at /console."""
    try:
        from nearkin.service.server.console.mount import Console
    except ImportError as error:
        library = (error.name or "itsdangerous").partition(".")[0]
        raise MissingExtraError.for_extra(f"the console requires {library}", "console") from error

    console = Console(app.state, shared_folder)
    app.mount("/console", console)
    return console


def _shared_folder() -> Path | None:
    path = os.environ.get(SHARED_FOLDER)
    return Path(path) if path else None


async def _keep_tokens_fresh(tokens: TokenFile, index: Index) -> None:
    """Reloads the tokens file when it changes, and marks the index as protected if needed."""
    last_error = ""
    marked_place = index.public_urls if tokens.is_protected else ()
    while True:
        await asyncio.sleep(TOKEN_REFRESH_SECONDS)
        try:
            tokens.refresh()
            last_error = ""
            if tokens.is_protected and marked_place != index.public_urls:
                await asyncio.to_thread(index.protect)
                marked_place = index.public_urls
        except StoreError as error:
            log.warning("cannot mark the index as protected", extra={"error": str(error)})
        except UsageError as error:
            # an unreadable file leaves the tokens unchanged
            if str(error) != last_error:
                log.error(
                    "cannot reload the tokens; the previous ones remain valid",
                    extra={"error": str(error)},
                )
            last_error = str(error)


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(invalid_request(error.errors()), request)


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "no-such-path", 405: "method-not-allowed"}.get(
        error.status_code, "invalid-request"
    )
    response = problem_response(ProblemError(code, str(error.detail)), request)
    response.headers.update(error.headers or {})
    return response


def _public_pages(app: FastAPI, start_page: str) -> dict[str, Page]:
    """Returns the resources that need no token, by path."""

    @cache
    def api_description() -> Response:
        return Response(orjson.dumps(describe_api(app)), media_type=JSON)

    @cache
    def api_docs() -> Response:
        headers = {"Content-Security-Policy": CONTENT_POLICY}
        return HTMLResponse(render_docs(describe_api(app)), headers=headers)

    @cache
    def api_docs_script() -> Response:
        # the address in the page has a fingerprint
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(read_script(), headers=headers, media_type="text/javascript")

    redirect = RedirectResponse(start_page)

    async def answer_start_page(_: Request) -> Response:
        return redirect

    async def answer_api_description(_: Request) -> Response:
        return api_description()

    async def answer_api_docs(_: Request) -> Response:
        return api_docs()

    async def answer_api_docs_script(_: Request) -> Response:
        return api_docs_script()

    async def answer_health(_: Request) -> Response:
        return Response(orjson.dumps(await info.healthz()), media_type=JSON)

    async def answer_readiness(request: Request) -> Response:
        return Response(orjson.dumps(await info.readyz(request)), media_type=JSON)

    return {
        "/": Page(answer_start_page),
        "/openapi.json": Page(answer_api_description),
        "/docs": Page(answer_api_docs),
        SCRIPT_PATH: Page(answer_api_docs_script),
        "/healthz": Page(answer_health, is_probe=True),
        "/readyz": Page(answer_readiness, is_probe=True),
    }


def create_worker_app() -> FastAPI:
    """Creates the application of a worker process from the settings in the environment."""
    settings = ServerSettings.read()
    prepare_process(settings)
    end_with_parent()
    return create_app(settings)


def end_with_parent() -> None:
    """Stops this process when its parent has ended, even if that was killed.

    Workers without a parent would keep the port, and answer in place of a new server.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def prepare_process(settings: ServerSettings) -> None:
    """Configures the logging, tracing and connection limits of this process."""
    LimitedConnection.limits = ConnectionLimits.from_settings(settings)
    configure_logging(settings.log_level, settings.log_format)
    if settings.otlp is not None:
        install_traces(settings.otlp)
