"""Error responses as problem details (RFC 9457).

The code of each kind of problem does not change between releases.
"""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

import orjson
from starlette.responses import Response

TYPE_PREFIX = "urn:nearkin:problem:"
MEDIA_TYPE = "application/problem+json"
SECURITY_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response, unless it has another value for one of them."""


class ProblemKind(NamedTuple):
    """A kind of problem.

    Attributes:
        status: HTTP status code.
        title: Short title, the same for each occurrence.
        meaning: Explanation for the reference documentation.
    """

    status: int
    title: str
    meaning: str


PROBLEM_KINDS: dict[str, ProblemKind] = {
    "invalid-request": ProblemKind(
        422,
        "Invalid request",
        "A member, parameter or document is missing, unknown or out of range.",
    ),
    "malformed-request": ProblemKind(
        400,
        "Malformed request",
        "The request is not valid HTTP, or its URL or headers exceed a limit of the server. The "
        "connection is closed.",
    ),
    "not-json": ProblemKind(400, "Invalid JSON", "The body is not valid JSON."),
    "unauthenticated": ProblemKind(
        401, "Authentication required", "The token is missing, unknown, revoked or expired."
    ),
    "forbidden": ProblemKind(
        403, "Forbidden", "The token does not have the right or the scope that the request needs."
    ),
    "not-found": ProblemKind(404, "Not found", "The document, cluster or resource does not exist."),
    "no-such-path": ProblemKind(404, "Unknown path", "The server has no resource at this path."),
    "method-not-allowed": ProblemKind(
        405, "Method not allowed", "The path does not support this method."
    ),
    "conflict": ProblemKind(
        409, "Conflict", "The current state of the resource does not allow the request."
    ),
    "gone": ProblemKind(
        410,
        "Changes gone",
        "The changes after the cursor are not kept any more. Start again from the documents.",
    ),
    "too-large": ProblemKind(
        413, "Payload too large", "The body, a line or a document exceeds a limit of the server."
    ),
    "unsupported-media-type": ProblemKind(
        415,
        "Unsupported media type",
        "The server does not accept the content type or the content encoding of the body.",
    ),
    "rate-limited": ProblemKind(
        429,
        "Too many requests",
        "The caller exceeded its rate, or its share of a resource. Retry after `Retry-After`.",
    ),
    "internal": ProblemKind(
        500, "Internal server error", "An unexpected error. The server's log has the request id."
    ),
    "busy": ProblemKind(
        503, "Server busy", "A limit of the whole server is reached. Retry after `Retry-After`."
    ),
    "store-unavailable": ProblemKind(
        503,
        "Store unavailable",
        (
            "The store of the index does not respond. Requests that were not acknowledged can be "
            "retried."
        ),
    ),
    "outcome-unknown": ProblemKind(
        503,
        "Outcome unknown",
        (
            "The response of the store was lost, so that the request may or may not have taken "
            "effect. It can be retried."
        ),
    ),
    "quota-exceeded": ProblemKind(
        403,
        "Quota exceeded",
        "The documents would exceed the quota of their scope. Nothing was written.",
    ),
    "index-full": ProblemKind(
        507,
        "Index full",
        "The index needs more memory than its setting max_memory. Nothing was written.",
    ),
    "not-ready": ProblemKind(503, "Server not ready", "The server is still starting."),
    "timeout": ProblemKind(
        503, "Request timed out", "The request took too long. Repeating an upsert is safe."
    ),
}
"""The kinds of problems by code."""


class ProblemError(Exception):
    """An error that is answered with a problem document."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        retry_after: float | None = None,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.field = field
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status code of the response."""
        return PROBLEM_KINDS[self.code].status

    @property
    def title(self) -> str:
        """The title of the kind of problem."""
        return PROBLEM_KINDS[self.code].title

    def to_dict(self, instance: str | None = None) -> dict[str, object]:
        """Returns the members of the problem document."""
        members = {
            "type": TYPE_PREFIX + self.code,
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "field": self.field,
            "instance": instance,
        }
        return {name: value for name, value in members.items() if value is not None}

    def response(self, request_id: str | None = None) -> Response:
        """Returns the HTTP response for this problem."""
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            headers["Accept-Encoding"] = "gzip"
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="nearkin"'
        instance = None if request_id is None else f"urn:uuid:{request_id}"
        return Response(orjson.dumps(self.to_dict(instance)), self.status, headers, MEDIA_TYPE)
