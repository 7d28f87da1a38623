"""Around every request: an id, limits of size and time, problems instead of tracebacks, a log line, headers, a span."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from uuid import UUID, uuid4

from opentelemetry.trace import SpanKind
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearkin.errors import NearkinError, OutcomeUnknownError, StoreError, UsageError
from nearkin.server.http.problems import ProblemError
from nearkin.server.telemetry import Instruments

log = logging.getLogger("nearkin.access")

STREAMS = ("application/x-ndjson", "application/vnd.apache.arrow.stream")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
API_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
NO_STORE = (b"cache-control", b"no-store")
PART = 1 << 16
"""Bytes of an answer that are sent at once."""
GONE = 499
"""Status in logs and counts of a request whose client went before it was whole."""
API = ("/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json")


def is_document_stream(scope: Scope) -> bool:
    """Whether it is the one kind of request that may be of any length: documents, of one type that says so."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    path = scope["path"]
    if scope["method"] != "POST" or len(kinds) != 1 or not (path.startswith("/v1/scopes/") and path.endswith("/documents")):
        return False
    return kinds[0].split(b";")[0].strip().lower().decode("latin-1") in STREAMS


def method_label(scope: Scope) -> str:
    """Returns the method of a request for logs and metrics: one of METHODS, so that clients cannot invent more."""
    method: str = scope["method"]
    return method if method in METHODS else "(other)"


def problem_from_error(error: BaseException) -> ProblemError:
    """The answer to an error that is no fault of the program.

    Raises:
        BaseException: The error, if it is one.
    """
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, OutcomeUnknownError):
        return ProblemError("outcome-unknown", "the store's answer was lost; send the request again", retry_after=1.0)
    if isinstance(error, StoreError):
        return ProblemError("store-unavailable", "the store failed; try again", retry_after=1.0)
    if isinstance(error, UsageError):
        return ProblemError("invalid-request", str(error))
    if isinstance(error, TimeoutError):
        return ProblemError("timeout", "not answered in time", retry_after=1.0)
    raise error


class RequestMiddleware:
    """ASGI middleware.

    Args:
        app: What is guarded.
        instruments: What is counted.
        max_body: Bytes of a request that is no stream.
        max_stream: Bytes of one that is.
        requests: At once.
        timeout: Seconds for a request that is no stream.
        idle_timeout: Seconds that a stream may pause.
    """

    def __init__(
        self,
        app: ASGIApp,
        instruments: Instruments,
        max_body: int,
        max_stream: int,
        requests: int,
        timeout: float,
        idle_timeout: float,
    ) -> None:
        self.app, self.instruments = app, instruments
        self.max_body, self.max_stream = max_body, max_stream
        self.requests, self.timeout, self.idle_timeout = requests, timeout, idle_timeout
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        streamed = is_document_stream(scope)
        request_id = _request_id(headers.get(b"x-request-id", b""))
        is_lost: Callable[[], bool] | None = scope.get("state", {}).get("is_lost")
        answer = _Answer(send, request_id, scope["path"], self.idle_timeout, is_lost)
        body = _Body(receive, self.max_stream if streamed else self.max_body, self.idle_timeout)
        scope.setdefault("state", {})["request_id"] = request_id
        problem: ProblemError | None = None
        with self.instruments.tracer.start_as_current_span(method_label(scope), kind=SpanKind.SERVER) as span:
            counted = scope["path"].startswith("/v1/")
            self._active += counted
            try:
                if counted and self._active > self.requests:
                    raise ProblemError("busy", f"{self.requests:,} requests are being answered", retry_after=1.0)
                body.check(headers.get(b"content-length"))
                async with asyncio.timeout(None if streamed else self.timeout):
                    await self.app(scope, body, answer)
            except ClientDisconnect:
                answer.status = GONE
            except (ProblemError, NearkinError, TimeoutError) as error:
                # without the traceback: its frames hold what the request held, in a cycle that the collector finds late
                problem = problem_from_error(error).with_traceback(None)
                if isinstance(error, StoreError):
                    self.instruments.record_store_error(method_label(scope))
                    log.warning("store failed", extra={"request_id": request_id, "error": str(error)})
            except Exception:
                # the boundary of the program: logged whole, answered without a word of it
                log.exception("internal error", extra={"request_id": request_id})
                problem = ProblemError("internal", "an error in the server")
            finally:
                self._active -= counted
            if problem is not None and not answer.started:
                await problem.response(request_id)(scope, body, answer)
            route = getattr(scope.get("route"), "path", "(none)")
            span.update_name(f"{method_label(scope)} {route}")
            span.set_attribute("http.response.status_code", answer.status)
        told = problem or scope["state"].get("problem")
        self._note(scope, answer, route, time.perf_counter() - began, streamed, told)

    def _note(
        self, scope: Scope, answer: "_Answer", route: str, seconds: float, streamed: bool, problem: ProblemError | None
    ) -> None:
        if not streamed:
            self.instruments.record_request(route, method_label(scope), answer.status, seconds)
        if problem is not None:
            self.instruments.record_problem(problem.code)
        if not log.isEnabledFor(logging.INFO):
            return
        who = getattr(scope["state"].get("principal"), "name", None)
        facts: dict[str, Any] = {
            "request_id": answer.request_id,
            "method": method_label(scope),
            "route": route,
            "status": answer.status,
            "seconds": round(seconds, 6),
            "token": who,
        }
        if problem is not None:
            facts["problem"] = problem.code
        log.info("request", extra=facts)


def _request_id(given: bytes) -> str:
    """The caller's, if it is a UUID; a log takes nothing else from strangers."""
    try:
        return str(UUID(given.decode("ascii")))
    except ValueError:
        return str(uuid4())


class _Answer:
    """Adds headers to what is sent, and remembers the status."""

    def __init__(self, send: Send, request_id: str, path: str, idle: float, is_lost: Callable[[], bool] | None = None) -> None:
        self._send, self.request_id, self._idle = send, request_id, idle
        self._is_lost = is_lost
        self.status, self.started = 0, False
        own = (API_POLICY, NO_STORE) if path.startswith(API) else ()
        self._headers = [*HEADERS, *own, (b"x-request-id", request_id.encode())]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.started = message["status"], True
            there = {name for name, _ in message["headers"]}
            message = {**message, "headers": [*message["headers"], *(h for h in self._headers if h[0] not in there)]}
        body: bytes = message.get("body", b"")
        if len(body) > PART:
            # in parts, each of which waits until the client has read most of the one before
            for start in range(0, len(body) - PART, PART):
                part = {"type": message["type"], "body": body[start : start + PART], "more_body": True}
                await self._send_in_time(part)
            message = {**message, "body": body[start + PART :]}
        await self._send_in_time(message)

    async def _send_in_time(self, message: Message) -> None:
        if self._is_lost is not None and self._is_lost():
            return
        # whoever does not take a stream's answers is not waited for longer than one who does not send; others have a timeout
        async with asyncio.timeout(self._idle) if message.get("more_body") else nullcontext():
            await self._send(message)


class _Body:
    """What arrives, as long as it is not too much and does not stop for too long."""

    def __init__(self, receive: Receive, most: int, idle: float) -> None:
        self._receive, self._most, self._idle = receive, most, idle
        self._came = 0
        self._whole = False

    def check(self, announced: bytes | None) -> None:
        """Refuses at once what says itself that it is too large."""
        if announced is not None and announced.isdigit() and int(announced) > self._most:
            raise ProblemError("too-large", f"{int(announced):,} bytes; this server takes {self._most:,}")

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        async with asyncio.timeout(self._idle):
            message = await self._receive()
        self._came += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._came > self._most:
            raise ProblemError("too-large", f"more than {self._most:,} bytes")
        return message


def problem_response(problem: ProblemError, request: Request) -> Response:
    """Returns a problem as the answer to a request, and has it counted and logged like one that was raised."""
    request.state.problem = problem
    return problem.response(request_id(request))


def request_id(request: Request) -> str:
    """Of the request that is being answered."""
    found: str = request.state.request_id
    return found
