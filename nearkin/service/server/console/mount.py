"""The console as a part of the server: sessions, requests and security policies."""

import hashlib
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs

import orjson
from markupsafe import Markup
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from nearkin.errors import NearkinError, StoreError
from nearkin.reports import page
from nearkin.service.server.console.markup import render
from nearkin.service.server.console.pages import (
    audit,
    buckets,
    clusters,
    live,
    review,
    shadow,
    tuning,
)
from nearkin.service.server.console.pages import search as searching
from nearkin.service.server.console.recent_metrics import RecentMetrics
from nearkin.service.server.console.sessions import SESSION_SECONDS, Sessions, load_signing_secret
from nearkin.service.server.console.visitor import ROOT, Page, Visit
from nearkin.service.server.http.auth import (
    Authenticator,
    origin_host,
    reject_cross_origin,
    source_address,
)
from nearkin.service.server.http.gate import SAFE, RouteLabel
from nearkin.service.server.http.middleware import (
    problem_from_error,
    problem_response,
    request_id,
)
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
NAVIGATION = (
    live.PAGE,
    searching.PAGE,
    clusters.PAGE,
    review.PAGE,
    tuning.PAGE,
    buckets.PAGE,
    shadow.PAGE,
    audit.PAGE,
)
PAGES: Mapping[str, Page | None] = {"": None, **{page.path: page for page in NAVIGATION}}
"""The pages by path. The empty path stands for the first page that a token may open."""
KNOWN_PATHS = {*PAGES, "login", "logout"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of pages."""
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        who: Principal = scope["state"]["principal"]
        service = self._running_service()
        service.register_request(who, source_address(request), scope["state"]["reservations"])
        visit = Visit(
            service=service,
            authenticator=self._authenticator,
            recent_metrics=self.recent_metrics,
            who=who,
            source=source_address(request),
            request_id=request_id(request),
        )
        response = await self._answer(request, visit)
        await response(scope, receive, send)

    async def _answer(self, request: Request, visit: Visit) -> Response:
        """Returns a page, or the part of it that answers what the page has sent."""
        page = PAGES[_path_of(request)] or next(filter(visit.may_open, NAVIGATION), None)
        is_whole = request.method in SAFE
        body = await read_body(request, visit.service)
        problem: ProblemError | None = None
        try:
            values = dict(request.query_params) if is_whole else _parse_values(body)
            if page is None:
                content = render("empty.html")
            else:
                visit.require_page(page)
                visit.service.require_ready()
                build = page.build if is_whole else page.answer
                if build is None:
                    raise ProblemError("method-not-allowed", "this page takes no input")
                content = await build(visit, values)
        except (ProblemError, NearkinError, TimeoutError) as error:
            if isinstance(error, StoreError):
                visit.service.instruments.record_store_error("console")
                log.warning("store failed", extra={"request_id": visit.request_id})
            problem = problem_from_error(error)
        except Exception:
            log.exception("internal error", extra={"request_id": visit.request_id})
            problem = ProblemError("internal", f"request {visit.request_id}")
        if problem is not None:
            # the page shows it in place of its content, with the status 200
            visit.service.instruments.record_problem(problem.code)
            content = render("alert.html", title=problem.title, detail=problem.detail)
        if is_whole:
            content = render(
                "document.html",
                page=page,
                links=list(filter(visit.offers, NAVIGATION)),
                who=visit.who,
                is_open=self._authenticator.is_open,
                static=static_addresses(),
                content=content,
            )
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
        return HTMLResponse(content, headers=headers)

    async def answer_at_gate(self, request: Request) -> Response | None:
        """Returns the response to a request that is not for a page, or has no session."""
        path = _path_of(request)
        request.scope["route"] = RouteLabel(ROOT + path if path in KNOWN_PATHS else ROOT)
        who = None
        if path in PAGES:
            who = self._principal_of(request)
        if who is None:
            await self._authenticator.admit_unauthenticated(source_address(request))
        if request.method not in SAFE and not is_same_origin(request):
            return self._answer_problem(request, "forbidden", "cross-origin request rejected")
        if path.startswith("static/"):
            return static_file(request, path.removeprefix("static/"))
        if path == "login":
            return await self._log_in(request)
        if path == "logout" and request.method == "POST":
            return self._log_out()
        if path not in PAGES:
            return self._answer_problem(request, "no-such-path")
        if request.method not in (*SAFE, "POST"):
            return self._answer_problem(request, "method-not-allowed")
        if who is None:
            if request.method in SAFE:
                return RedirectResponse(ROOT + "login", 303)
            return self._answer_problem(request, "unauthenticated", "log in again")
        request.state.principal = who
        return None

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


def _parse_values(body: bytes) -> dict[str, str]:
    """Returns the texts that a page has sent, by name."""
    # no other thread runs while a body is parsed
    check_json_shape(body, MAX_PAGE_VALUES, MAX_PAGE_VALUES)
    try:
        values = orjson.loads(body)
        return {name: value for name, value in values.items() if isinstance(value, str)}
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise ProblemError("invalid-request", "the body is not what a page sends") from error


def _path_of(request: Request) -> str:
    """Returns the path of a request below the console."""
    return str(request.scope["path"]).removeprefix(ROOT)


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
def _render_login_page(problem: str | None) -> Markup:
    """Renders the page. The result is cached, because requests for it need no token."""
    return render(
        "login.html",
        root=ROOT,
        static=static_addresses(),
        problem=problem,
        hours=SESSION_SECONDS // 3600,
    )
