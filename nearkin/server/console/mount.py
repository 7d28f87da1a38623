"""The console within the server: who may come in, what may be asked for, and what browsers are told to refuse."""

import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from nearkin.report import page
from nearkin.server.console.assets import Assets
from nearkin.server.console.layout import PAGES, build_app
from nearkin.server.console.recent_metrics import RecentMetrics
from nearkin.server.console.sessions import LASTS, Sessions, load_signing_secret
from nearkin.server.console.visitor import CURRENT, ROOT, Visit
from nearkin.server.http.auth import Authenticator, origin_host, reject_cross_origin, source_address
from nearkin.server.http.middleware import problem_response, request_id
from nearkin.server.http.parsing import SMALL_BODY, check_json_shape, read_body
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.server.service import Service

log = logging.getLogger("nearkin.server")

COOKIE = "nearkin-session"
SAFE = ("GET", "HEAD")
MOST_FORM = 4096
MAX_PAGE_VALUES = 1000
"""Values in the JSON of a request of a page: a few inputs with their values, of which only texts
may be long."""
HERE = Path(__file__).parent
FILES = {
    "page.css": (Path(page.__file__).parent / "page.css", "text/css"),
    "console.css": (HERE / "static" / "console.css", "text/css"),
    "icon.svg": (HERE / "static" / "icon.svg", "image/svg+xml"),
}
ASKED = ("_dash-layout", "_dash-dependencies", "_dash-update-component")
"""What the pages ask for themselves; Dash answers more, which nobody here needs."""
SUITES = "_dash-component-suites/"
NAMED = {*PAGES, *ASKED, "login", "logout"}
CLOSED = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
"""Of pages without scripts."""


class _Route(NamedTuple):
    """What logs and metrics call a request; never what strangers make up."""

    path: str


class Console:
    """ASGI application, for `app.mount("/console", …)`.

    Args:
        state: Of the server's application: its authenticator, its service.
        shared: Folder in which the workers of one server leave notes for each other; None for a
            single one.
    """

    def __init__(self, state: State, shared: Path | None) -> None:
        self._state = state
        self._sessions = Sessions(load_signing_secret(shared))
        self.recent_metrics = RecentMetrics(shared)
        self._dash = build_app(static_addresses())
        self._assets = Assets(self._dash.files())
        hashes = " ".join(self._dash.csp_hashes())
        # Plotly and Dash write style attributes and sheets of their own; scripts are files of this
        # server, or known ones.
        self._policy = (
            f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
            f"img-src 'self'; "
            "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        path = str(scope["path"]).removeprefix(ROOT)
        scope["route"] = _Route(ROOT + path if path in NAMED else ROOT)
        answer = await self._own(request, path)
        if answer is not None:
            await answer(scope, receive, send)
            return
        who = self._who(request)
        if who is None:
            answer = (
                RedirectResponse(ROOT + "login", 303)
                if path in PAGES
                else self._problem(request, "unauthenticated")
            )
            await answer(scope, receive, send)
            return
        scope["state"]["principal"] = who
        self._service().register_request(
            who, source_address(request), scope["state"]["reservations"]
        )
        body = await read_body(request, self._service())
        if len(body) > SMALL_BODY:
            # Dash parses it on the event loop
            check_json_shape(body, MAX_PAGE_VALUES)
        visit = Visit(
            self._service(),
            self._authenticator,
            self.recent_metrics,
            who,
            source_address(request),
            path,
            request_id(request),
        )
        held = CURRENT.set(visit)
        try:
            # every page is the same document; what it shows follows from its address
            await self._dash.server(
                inner(scope, "" if path in PAGES else path),
                replay(body, receive),
                self._headed(send),
            )
        finally:
            CURRENT.reset(held)

    async def _own(self, request: Request, path: str) -> Response | None:
        """What the pages are not asked for: files, logging in and out, refusals; None if it is for the pages."""
        if request.method not in SAFE and not is_same_origin(request):
            return self._problem(request, "forbidden", "another site sent this")
        if path.startswith(("static/", SUITES)) or (path == "login" and request.method in SAFE):
            await self._authenticator.admit_unauthenticated(source_address(request))
        if path.startswith("static/"):
            return static_file(request, path.removeprefix("static/"))
        if path.startswith(SUITES) and request.method in SAFE:
            return await self._asset(request, path.removeprefix(SUITES))
        if path == "login":
            return await self._log_in(request)
        if path == "logout" and request.method == "POST":
            return self._left()
        if path in PAGES and request.method not in SAFE:
            return self._problem(request, "method-not-allowed")
        if path not in PAGES and path not in ASKED:
            return self._problem(request, "no-such-path")
        return None

    async def _asset(self, request: Request, path: str) -> Response:
        found = await self._assets.answer(request, path)
        if found is None:
            return self._problem(request, "no-such-path")
        found.headers["Content-Security-Policy"] = CLOSED
        return found

    # -- logging in

    async def _log_in(self, request: Request) -> Response:
        if request.method in SAFE:
            known = self._who(request) is not None
            return RedirectResponse(ROOT, 303) if known else door()
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_FORM:
                return self._problem(
                    request, "too-large", f"a token is shorter than {MOST_FORM:,} bytes"
                )
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [])
        try:
            who = await self._authenticator.authenticate(
                f"Bearer {''.join(given).strip()}", source_address(request)
            )
        except ProblemError as problem:
            wrong = (
                "This is no valid token."
                if problem.code == "unauthenticated"
                else "Too many tokens were wrong. Wait a minute."
            )
            request.state.problem = problem
            return door(wrong, problem)
        answer = RedirectResponse(ROOT, 303, {"Cache-Control": "no-store"})
        if not self._authenticator.is_open:
            cookie = self._sessions.write(
                who.name, self._authenticator.tokens.session_mark(who.name)
            )
            secure = request.scope["scheme"] == "https"
            answer.set_cookie(
                COOKIE, cookie, LASTS, path=ROOT, secure=secure, httponly=True, samesite="strict"
            )
        return answer

    def _left(self) -> Response:
        answer = RedirectResponse(ROOT + "login", 303, {"Cache-Control": "no-store"})
        answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
        return answer

    def _who(self, request: Request) -> Principal | None:
        """Whose session it is.

        Raises:
            ProblemError: Everybody on this machine may look, and a page of another site asks.
        """
        if self._authenticator.is_open:
            reject_cross_origin(request)
            return LOCAL_PRINCIPAL
        found = self._sessions.read(request.cookies.get(COOKIE, ""))
        return None if found is None else self._authenticator.tokens.find_by_mark(*found)

    @property
    def _authenticator(self) -> Authenticator:
        found: Authenticator = self._state.authenticator
        return found

    def _service(self) -> Service:
        found: Service = self._state.service
        return found

    async def keep_writing_snapshots(self) -> None:
        """What the live page shows, for the other workers, until it is cancelled."""
        await self.recent_metrics.keep_writing_snapshots(self._service())

    # -- answers

    def _problem(self, request: Request, code: str, detail: str = "see /console/") -> Response:
        answer = problem_response(ProblemError(code, detail), request)
        answer.headers["Content-Security-Policy"] = CLOSED
        return answer

    def _headed(self, send: Send) -> Send:
        """Adds the content policy, and forbids caching."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] >= 500:
                    # Dash answers what it cannot read so, and says nothing
                    log.warning("the console's library failed", extra={"status": message["status"]})
                own = [
                    (b"content-security-policy", self._policy.encode()),
                    (b"cache-control", b"no-store"),
                ]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        return headed


def inner(scope: Scope, path: str) -> Scope:
    """The request as the pages' application takes it: with its whole path, and a state of its own."""
    return {**scope, "path": ROOT + path, "root_path": "", "state": dict(scope["state"])}


def replay(body: bytes, receive: Receive) -> Receive:
    """Returns a function that receives a body that was read before, and then whatever comes."""
    message: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def received() -> Message:
        nonlocal message
        if message is None:
            return await receive()
        first = message
        message = None
        return first

    return received


def is_same_origin(request: Request) -> bool:
    """Whether a page of this server sent it: what browsers say of themselves, which scripts cannot change.

    Where they do not say it (plain HTTP beyond this machine), the origin must be the host that was
    asked.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = origin_host(request.headers.get("origin", ""))
    return bool(origin) and origin == request.headers.get("host")


@cache
def static_files() -> dict[str, tuple[bytes, str, str]]:
    """Content, type and fingerprint of each file."""
    found = {name: (path.read_bytes(), kind) for name, (path, kind) in FILES.items()}
    return {
        name: (content, kind, hashlib.sha256(content).hexdigest()[:12])
        for name, (content, kind) in found.items()
    }


def static_addresses() -> dict[str, str]:
    """Where each file is; another content is another address, so that browsers may keep them."""
    return {name: f"{ROOT}static/{name}?v={mark}" for name, (_, _, mark) in static_files().items()}


def static_file(request: Request, name: str) -> Response:
    """A file of the console's own."""
    if name not in FILES or request.method not in SAFE:
        return problem_response(ProblemError("no-such-path", "see /console/"), request)
    content, kind, _ = static_files()[name]
    kept = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "Content-Security-Policy": CLOSED,
    }
    return Response(content, headers=kept, media_type=kind)


def door(problem: str | None = None, error: ProblemError | None = None) -> Response:
    """The page where one logs in; it has no scripts."""
    headers = {"Content-Security-Policy": CLOSED, "Cache-Control": "no-store"}
    status = 200 if error is None else error.status
    return Response(_door_page(problem), status, headers, "text/html")


@cache
def _door_page(problem: str | None) -> str:
    """Renders the page for each of the few problems once, because it needs no token."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined
    )
    facts: dict[str, Any] = {
        "root": ROOT,
        "static": static_addresses(),
        "problem": problem,
        "hours": LASTS // 3600,
    }
    return environment.get_template("login.html").render(facts)
