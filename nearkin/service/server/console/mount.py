"""The console as a part of the server: sessions, requests and security policies."""

import hashlib
import logging
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from nearkin.reports import page
from nearkin.service.server.console.assets import Assets
from nearkin.service.server.console.layout import PAGES, build_app
from nearkin.service.server.console.recent_metrics import RecentMetrics
from nearkin.service.server.console.sessions import SESSION_SECONDS, Sessions, load_signing_secret
from nearkin.service.server.console.visitor import CURRENT, ROOT, Visit
from nearkin.service.server.http.auth import (
    Authenticator,
    origin_host,
    reject_cross_origin,
    source_address,
)
from nearkin.service.server.http.gate import SAFE, RouteLabel
from nearkin.service.server.http.middleware import problem_response, request_id
from nearkin.service.server.http.parsing import check_json_shape, read_body
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.service.server.service import Service

log = logging.getLogger("nearkin.server")

COOKIE = "nearkin-session"
MAX_FORM_BYTES = 4096
"""Maximum size of the sign-in form, in bytes."""
MAX_PAGE_VALUES = 1000
"""Maximum number of JSON values in a request of a page. Pages have a few inputs only."""
HERE = Path(__file__).parent
FILES = {
    "page.css": (Path(page.__file__).parent / "page.css", "text/css"),
    "console.css": (HERE / "static" / "console.css", "text/css"),
    "console.js": (HERE / "static" / "console.js", "text/javascript"),
    "icon.svg": (HERE / "static" / "icon.svg", "image/svg+xml"),
}
CALLBACK = "_dash-update-component"
DASH_PATHS = ("_dash-layout", "_dash-dependencies", CALLBACK)
"""Paths of Dash that the pages need. Other paths of Dash are not served."""
LIBRARY_FILES = "_dash-component-suites/"
KNOWN_PATHS = {*PAGES, *DASH_PATHS, "login", "logout"}
NO_SCRIPTS_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""The content security policy of responses without scripts."""


class Console:
    """The console as an ASGI application, which is mounted at /console."""

    def __init__(self, state: State, shared: Path | None) -> None:
        self._state = state
        self._sessions = Sessions(load_signing_secret(shared))
        self.recent_metrics = RecentMetrics(shared)
        self._dash = build_app(static_addresses())
        self._assets = Assets(self._dash.files())
        hashes = " ".join(self._dash.csp_hashes())
        # Plotly and Dash create styles at run time. Scripts are files of this server, or have
        # known hashes.
        self._policy = (
            f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
            f"img-src 'self'; "
            "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        path = _path_of(request)
        who: Principal = scope["state"]["principal"]
        self._running_service().register_request(
            who, source_address(request), scope["state"]["reservations"]
        )
        body = await read_body(request, self._running_service())
        # Dash parses the body on the event loop
        check_json_shape(body, MAX_PAGE_VALUES, MAX_PAGE_VALUES)
        visit = Visit(
            service=self._running_service(),
            authenticator=self._authenticator,
            recent_metrics=self.recent_metrics,
            who=who,
            source=source_address(request),
            path=path,
            request_id=request_id(request),
        )
        previous_visit = CURRENT.set(visit)
        try:
            # all pages are the same document, which shows the content for its URL
            await self._dash.server(
                dash_scope(scope, "" if path in PAGES else path),
                replay_body(body, receive),
                self._add_headers(send, is_callback=path == CALLBACK),
            )
        finally:
            CURRENT.reset(previous_visit)

    async def answer_at_gate(self, request: Request) -> Response | None:
        """Returns the response to a request that is not for a page, or has no session."""
        path = _path_of(request)
        request.scope["route"] = RouteLabel(ROOT + path if path in KNOWN_PATHS else ROOT)
        who = None
        if path in PAGES or path in DASH_PATHS:
            who = self._principal_of(request)
        if who is None:
            await self._authenticator.admit_unauthenticated(source_address(request))
        if request.method not in SAFE and not is_same_origin(request):
            return self._answer_problem(request, "forbidden", "cross-origin request rejected")
        if path.startswith("static/"):
            return static_file(request, path.removeprefix("static/"))
        if path.startswith(LIBRARY_FILES) and request.method in SAFE:
            return await self._answer_asset(request, path.removeprefix(LIBRARY_FILES))
        if path == "login":
            return await self._log_in(request)
        if path == "logout" and request.method == "POST":
            return self._log_out()
        if path in PAGES and request.method not in SAFE:
            return self._answer_problem(request, "method-not-allowed")
        if path not in PAGES and path not in DASH_PATHS:
            return self._answer_problem(request, "no-such-path")
        if who is None:
            if path in PAGES:
                return RedirectResponse(ROOT + "login", 303)
            return self._answer_problem(request, "unauthenticated")
        request.state.principal = who
        return None

    async def _answer_asset(self, request: Request, path: str) -> Response:
        response = await self._assets.answer(request, path)
        if response is None:
            return self._answer_problem(request, "no-such-path")
        response.headers["Content-Security-Policy"] = NO_SCRIPTS_POLICY
        return response

    # -- logging in

    async def _log_in(self, request: Request) -> Response:
        if request.method in SAFE:
            if self._principal_of(request) is not None:
                return RedirectResponse(ROOT, 303)
            return login_page()
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                return self._answer_problem(
                    request, "too-large", f"the form has more than {MAX_FORM_BYTES:,} bytes"
                )
        token = "".join(parse_qs(body.decode("utf-8", "replace")).get("token", [])).strip()
        try:
            who = await self._authenticator.authenticate(f"Bearer {token}", source_address(request))
        except ProblemError as problem:
            message = "Too many invalid tokens. Try again in a minute."
            if problem.code == "unauthenticated":
                message = "This token is not valid."
            request.state.problem = problem
            return login_page(message, problem)
        answer = RedirectResponse(ROOT, 303, {"Cache-Control": "no-store"})
        if not self._authenticator.is_open:
            cookie = self._sessions.write(
                who.name, self._authenticator.tokens.session_mark(who.name)
            )
            secure = request.scope["scheme"] == "https"
            answer.set_cookie(
                COOKIE,
                cookie,
                SESSION_SECONDS,
                path=ROOT,
                secure=secure,
                httponly=True,
                samesite="strict",
            )
        return answer

    def _log_out(self) -> Response:
        answer = RedirectResponse(ROOT + "login", 303, {"Cache-Control": "no-store"})
        answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
        return answer

    def _principal_of(self, request: Request) -> Principal | None:
        """Returns the principal of the session, or None without a valid session."""
        if self._authenticator.is_open:
            reject_cross_origin(request)
            return LOCAL_PRINCIPAL
        session = self._sessions.read(request.cookies.get(COOKIE, ""))
        if session is None:
            return None
        name, mark = session
        return self._authenticator.tokens.find_by_mark(name, mark)

    @property
    def _authenticator(self) -> Authenticator:
        authenticator: Authenticator = self._state.authenticator
        return authenticator

    def _running_service(self) -> Service:
        service: Service = self._state.service
        return service

    async def keep_writing_snapshots(self) -> None:
        """Writes snapshots of recent activity for the other workers until it is cancelled."""
        await self.recent_metrics.keep_writing_snapshots(self._running_service())

    # -- answers

    def _answer_problem(
        self,
        request: Request,
        code: str,
        detail: str = "the console has no such page; see /console/",
    ) -> Response:
        answer = problem_response(ProblemError(code, detail), request)
        answer.headers["Content-Security-Policy"] = NO_SCRIPTS_POLICY
        return answer

    def _add_headers(self, send: Send, *, is_callback: bool) -> Send:
        """Wraps a send function so that it adds the content security policy and forbids caching."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] >= 500 and is_callback:
                    # errors of callbacks are shown in the page (`show_error`)
                    raise ProblemError(
                        "invalid-request", "the body is not a request that a page sends"
                    )
                if message["status"] >= 500:
                    # Dash answers requests that it cannot parse like this, without a log line
                    log.warning(
                        "Dash failed to answer a request", extra={"status": message["status"]}
                    )
                headers = [
                    (b"content-security-policy", self._policy.encode()),
                    (b"cache-control", b"no-store"),
                ]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        return send_with_headers


def _path_of(request: Request) -> str:
    """Returns the path of a request below the console."""
    return str(request.scope["path"]).removeprefix(ROOT)


def dash_scope(scope: Scope, path: str) -> Scope:
    """Returns the ASGI scope for Dash, with the full path and a copy of the state."""
    return {**scope, "path": ROOT + path, "root_path": "", "state": dict(scope["state"])}


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Returns an ASGI receive function that first returns a body that was read already."""
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
    """Returns True if a page of this server sent the request.

    Browsers say so in headers that scripts cannot change. Over plain HTTP to other machines they
    send no Sec-Fetch-Site header; the origin must then be the requested host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = origin_host(request.headers.get("origin", ""))
    return bool(origin) and origin == request.headers.get("host")


@cache
def static_files() -> dict[str, tuple[bytes, str, str]]:
    """Returns the content, media type and fingerprint of each file of the console, by name."""
    files = {}
    for name, (path, media_type) in FILES.items():
        content = path.read_bytes()
        files[name] = (content, media_type, hashlib.sha256(content).hexdigest()[:12])
    return files


def static_addresses() -> dict[str, str]:
    """Returns the URL of each file, with a fingerprint so that browsers may cache it."""
    return {name: f"{ROOT}static/{name}?v={mark}" for name, (_, _, mark) in static_files().items()}


def static_file(request: Request, name: str) -> Response:
    """Returns the response for a file of the console."""
    if name not in FILES or request.method not in SAFE:
        return problem_response(
            ProblemError("no-such-path", "the console has no such page; see /console/"), request
        )
    content, media_type, _ = static_files()[name]
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "Content-Security-Policy": NO_SCRIPTS_POLICY,
    }
    return Response(content, headers=headers, media_type=media_type)


def login_page(problem: str | None = None, error: ProblemError | None = None) -> Response:
    """Returns the sign-in page, which has no scripts."""
    headers = {"Content-Security-Policy": NO_SCRIPTS_POLICY, "Cache-Control": "no-store"}
    status = 200 if error is None else error.status
    return Response(_render_login_page(problem), status, headers, "text/html")


@cache
def _render_login_page(problem: str | None) -> str:
    """Renders the page. The result is cached, because requests for it need no token."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("login.html").render(
        root=ROOT,
        static=static_addresses(),
        problem=problem,
        hours=SESSION_SECONDS // 3600,
    )
