"""The gate in front of the application: it asks for the token, and answers everybody without one.

What needs no token is answered from bytes that were made once. Neither a query string nor cookies
are parsed for it, and no route is looked up, so that it costs about as much as a refusal.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nearkin.service.server.http.auth import Authenticator, source_address
from nearkin.service.server.http.problems import ProblemError

SAFE = ("GET", "HEAD")
CONSOLE_ROOT = "/console/"
API_ROOT = "/v1/"
METRICS = "/metrics"


class Page(NamedTuple):
    """A resource that needs no token.

    Attributes:
        answer: Returns the response to a request.
        is_probe: Whether requests are not counted, because orchestrators repeat them.
    """

    answer: Callable[[Request], Awaitable[Response]]
    is_probe: bool = False


class RouteLabel(NamedTuple):
    """The route of a request in logs and metrics."""

    path: str


class ConsoleGate(Protocol):
    """The part of the console that answers requests without a session."""

    async def answer_at_gate(self, request: Request) -> Response | None:
        """Returns the response to a request, or None if a page of the console answers it."""


class Gate:
    """An ASGI layer that lets requests with a token pass, and answers the others."""

    def __init__(
        self,
        app: ASGIApp,
        state: State,
        pages: Mapping[str, Page],
        console: ConsoleGate | None,
        missing_console: str,
    ) -> None:
        self._app = app
        self._state = state
        self._pages = pages
        self._console = console
        self._missing_console = missing_console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        answer = None
        if scope["type"] == "http":
            answer = await self._answer(Request(scope, receive))
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """Returns the response to a request, or None if the application answers it."""
        authenticator: Authenticator = self._state.authenticator
        path: str = request.scope["path"]
        source = source_address(request)
        if path.startswith(API_ROOT) or path == METRICS:
            request.state.principal = await authenticator.authenticate(
                request.headers.get("authorization"), source
            )
            return None
        if self._console is not None and path.startswith(CONSOLE_ROOT):
            return await self._console.answer_at_gate(request)
        page = self._pages.get(path)
        if page is None or not page.is_probe:
            await authenticator.admit_unauthenticated(source)
        if page is None:
            return self._answer_unknown_path(path)
        request.scope["route"] = RouteLabel(path)
        if request.method not in SAFE:
            raise ProblemError(
                "method-not-allowed", f"send GET to {path}", headers={"Allow": ", ".join(SAFE)}
            )
        return await page.answer(request)

    def _answer_unknown_path(self, path: str) -> Response:
        if path == CONSOLE_ROOT.rstrip("/") and self._console is not None:
            return RedirectResponse(CONSOLE_ROOT)
        is_console = f"{path}/".startswith(CONSOLE_ROOT)
        detail = self._missing_console if is_console else ""
        raise ProblemError("no-such-path", detail or "the server has no such path; see /docs")
