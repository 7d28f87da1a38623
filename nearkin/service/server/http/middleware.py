"""Middleware for every request: ids, limits, problems, access log, headers and spans."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from uuid import UUID, uuid4

from opentelemetry.trace import SpanKind
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearkin.errors import (
    ChangesGoneError,
    IndexFullError,
    NearkinError,
    OutcomeUnknownError,
    QuotaError,
    StoreError,
    UsageError,
)
from nearkin.service.server.http.callers import CURRENT_CALLER
from nearkin.service.server.http.encodings import decode_body
from nearkin.service.server.http.problems import SECURITY_HEADERS, ProblemError
from nearkin.service.server.http.refusals import INVALID, Pauses
from nearkin.service.server.telemetry import Instruments

log = logging.getLogger("nearkin.access")

NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
STREAM_TYPES = (NDJSON, ARROW_STREAM)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_LENGTH_DIGITS = 19
"""Maximum number of digits of a Content-Length."""
MAX_CHUNK = 1 << 16
"""Maximum number of bytes of a response that are sent at once."""
CLIENT_CLOSED_REQUEST = 499
"""Status in logs and metrics of a request whose client disconnected before the request was
complete."""


def is_document_stream(scope: Scope) -> bool:
    """Returns True for a stream of documents, whose size is limited by `max_stream`."""
    content_types = [value for name, value in scope["headers"] if name == b"content-type"]
    path = scope["path"]
    if scope["method"] != "POST" or len(content_types) != 1:
        return False
    if not (path.startswith("/v1/scopes/") and path.endswith("/documents")):
        return False
    return content_types[0].split(b";")[0].strip().lower().decode("latin-1") in STREAM_TYPES


def parse_length(content_length: bytes) -> int | None:
    """Returns the number of bytes that a Content-Length announces; None if it is not valid."""
    if len(content_length) > MAX_LENGTH_DIGITS or not content_length.isdigit():
        return None
    return int(content_length)


def method_label(scope: Scope) -> str:
    """Returns the method of a request for logs and metrics.

    Unknown methods share one label, so that labels are bounded.
    """
    method: str = scope["method"]
    return method if method in METHODS else "(other)"


def problem_from_error(error: BaseException) -> ProblemError:
    """Returns the problem that answers an expected error, without its traceback and its context.

    Their frames reference the documents of the request in a cycle, which is collected late.
    """
    if isinstance(error, ProblemError):
        error.__cause__ = None
        error.__context__ = None
        return error.with_traceback(None)
    if isinstance(error, OutcomeUnknownError):
        return ProblemError(
            "outcome-unknown",
            "the response of the store was lost; send the request again",
            retry_after=1.0,
        )
    if isinstance(error, IndexFullError):
        return ProblemError(
            "index-full", "the index is full; delete documents, or raise max_memory"
        )
    if isinstance(error, StoreError):
        return ProblemError(
            "store-unavailable", "the store failed; send the request again", retry_after=1.0
        )
    if isinstance(error, QuotaError):
        return ProblemError("quota-exceeded", str(error))
    if isinstance(error, UsageError):
        code = "gone" if isinstance(error, ChangesGoneError) else "invalid-request"
        return ProblemError(code, str(error))
    if isinstance(error, TimeoutError):
        return ProblemError(
            "timeout", "the request was not answered in time; send it again", retry_after=1.0
        )
    raise error


class RequestMiddleware:
    """An ASGI middleware that limits, logs and counts requests, and answers errors.

    Args:
        max_body: Maximum size of a request that is not a stream, in bytes.
        max_stream: Maximum size of a stream, in bytes.
        timeout: Maximum number of seconds for a request that is not a stream.
        idle_timeout: Maximum number of seconds that a stream may pause.
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
        self.app = app
        self.instruments = instruments
        self.max_body = max_body
        self.max_stream = max_stream
        self.requests = requests
        self.timeout = timeout
        self.idle_timeout = idle_timeout
        self._active_requests = 0
        self._pauses = Pauses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        is_stream = is_document_stream(scope)
        is_lost: Callable[[], bool] | None = scope.get("state", {}).get("is_lost")
        response = _ResponseSender(send, _request_id(headers), self.idle_timeout, is_lost)
        body = _RequestBody(
            receive, self.max_stream if is_stream else self.max_body, self.idle_timeout
        )
        scope.setdefault("state", {})["request_id"] = response.request_id
        with self.instruments.tracer.start_as_current_span(
            method_label(scope), kind=SpanKind.SERVER
        ) as span:
            problem = await self._run_app(
                scope, body, response, headers.get(b"content-length"), is_stream=is_stream
            )
            if problem is not None and not response.started:
                if problem.code in INVALID:
                    await self._pauses.wait(CURRENT_CALLER.get())
                await problem.response(response.request_id)(scope, body, response)
            route = getattr(scope.get("route"), "path", "(none)")
            span.update_name(f"{method_label(scope)} {route}")
            span.set_attribute("http.response.status_code", response.status)
        seconds = time.perf_counter() - began
        if not is_stream:
            self.instruments.record_request(route, method_label(scope), response.status, seconds)
        problem = problem or scope["state"].get("problem")
        if problem is not None:
            self.instruments.record_problem(problem.code)
        self._log_request(scope, response, route, seconds, problem)

    async def _run_app(
        self,
        scope: Scope,
        body: "_RequestBody",
        response: "_ResponseSender",
        content_length: bytes | None,
        *,
        is_stream: bool,
    ) -> ProblemError | None:
        """Calls the application, and returns the problem that answers its error, if any."""
        is_counted = scope["path"].startswith("/v1/")
        self._active_requests += is_counted
        try:
            if is_counted and self._active_requests > self.requests:
                raise ProblemError(
                    "busy",
                    f"{self.requests:,} requests are being processed; retry later",
                    retry_after=1.0,
                )
            body.check_announced_size(content_length)
            decoded = decode_body(scope, body, body.max_bytes)
            async with asyncio.timeout(None if is_stream else self.timeout):
                await self.app(scope, decoded, response)
        except ClientDisconnect:
            response.status = CLIENT_CLOSED_REQUEST
        except (ProblemError, NearkinError, TimeoutError) as error:
            if isinstance(error, StoreError):
                self.instruments.record_store_error(method_label(scope))
                log.warning(
                    "store failed", extra={"request_id": response.request_id, "error": str(error)}
                )
            return problem_from_error(error)
        except Exception:
            # The boundary of the program: the log has the whole error, the response has nothing of
            # it.
            log.exception("internal error", extra={"request_id": response.request_id})
            return ProblemError(
                "internal", "an unexpected error occurred; the server's log has the request id"
            )
        finally:
            self._active_requests -= is_counted
        return None

    def _log_request(
        self,
        scope: Scope,
        response: "_ResponseSender",
        route: str,
        seconds: float,
        problem: ProblemError | None,
    ) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        fields: dict[str, object] = {
            "request_id": response.request_id,
            "method": method_label(scope),
            "route": route,
            "status": response.status,
            "seconds": round(seconds, 6),
            "token": getattr(scope["state"].get("principal"), "name", None),
        }
        if problem is not None:
            fields["problem"] = problem.code
        log.info("request", extra=fields)


def _request_id(headers: dict[bytes, bytes]) -> str:
    """Returns the client's X-Request-Id if it is a UUID, or a new UUID.

    Other values must not appear in logs.
    """
    try:
        return str(UUID(headers.get(b"x-request-id", b"").decode("ascii")))
    except ValueError:
        return str(uuid4())


class _ResponseSender:
    """An ASGI send function that adds headers, splits large bodies, and records the status."""

    def __init__(
        self,
        send: Send,
        request_id: str,
        idle_timeout: float,
        is_lost: Callable[[], bool] | None = None,
    ) -> None:
        self._send = send
        self.request_id = request_id
        self._idle_timeout = idle_timeout
        self._is_lost = is_lost
        self.status = 0
        self.started = False
        self._headers = [*SECURITY_HEADERS, (b"x-request-id", request_id.encode())]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.started = True
            present = {name for name, _ in message["headers"]}
            added = [header for header in self._headers if header[0] not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        body: bytes = message.get("body", b"")
        if len(body) > MAX_CHUNK:
            # each chunk is sent after the client has read most of the previous one
            for start in range(0, len(body) - MAX_CHUNK, MAX_CHUNK):
                chunk = {
                    "type": message["type"],
                    "body": body[start : start + MAX_CHUNK],
                    "more_body": True,
                }
                await self._send_in_time(chunk)
            message = {**message, "body": body[start + MAX_CHUNK :]}
        await self._send_in_time(message)

    async def _send_in_time(self, message: Message) -> None:
        if self._is_lost is not None and self._is_lost():
            return
        # A client that does not read a stream's answers has as much time as one that does not send.
        # Other requests have `timeout`.
        async with (
            asyncio.timeout(self._idle_timeout) if message.get("more_body") else nullcontext()
        ):
            await self._send(message)


class _RequestBody:
    """An ASGI receive function that limits the size of a body and the time between its parts."""

    def __init__(self, receive: Receive, max_bytes: int, idle_timeout: float) -> None:
        self._receive = receive
        self.max_bytes = max_bytes
        self._idle_timeout = idle_timeout
        self._received_bytes = 0
        self._is_complete = False

    def check_announced_size(self, content_length: bytes | None) -> None:
        """Rejects a body whose Content-Length exceeds the limit."""
        size = parse_length(content_length or b"")
        if size is not None and size > self.max_bytes:
            raise ProblemError(
                "too-large", f"the body has {size:,} bytes; the limit is {self.max_bytes:,}"
            )

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        async with asyncio.timeout(self._idle_timeout):
            message = await self._receive()
        self._received_bytes += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._received_bytes > self.max_bytes:
            raise ProblemError("too-large", f"the body has more than {self.max_bytes:,} bytes")
        return message


def problem_response(problem: ProblemError, request: Request) -> Response:
    """Returns the response for a problem, which the middleware then counts and logs."""
    request.state.problem = problem
    return problem.response(request_id(request))


def request_id(request: Request) -> str:
    """Returns the id that the middleware assigned to a request."""
    value: str = request.state.request_id
    return value
