"""Errors as problem details (RFC 9457), each kind with a code that does not change."""

from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

TYPE = "urn:nearkin:problem:"
MEDIA_TYPE = "application/problem+json"

CODES: dict[str, tuple[int, str]] = {
    "invalid-request": (422, "The request is not as described"),
    "not-json": (400, "The body is no JSON"),
    "unauthenticated": (401, "A valid token is needed"),
    "forbidden": (403, "The token does not allow this"),
    "not-found": (404, "There is no such thing here"),
    "no-such-path": (404, "There is no such path"),
    "method-not-allowed": (405, "The path does not take this method"),
    "conflict": (409, "It is in another state"),
    "too-large": (413, "It is larger than this server takes"),
    "unsupported-media-type": (415, "The content type is not understood"),
    "rate-limited": (429, "More was asked for than the rate or the share of one caller allows"),
    "internal": (500, "An error in the server; its log has the request id"),
    "busy": (503, "More is waiting than this server can work on"),
    "store-unavailable": (503, "The store of the index does not answer; what was not acknowledged may be sent again"),
    "outcome-unknown": (503, "The store's answer was lost; the request may have been carried out, and may be sent again"),
    "not-ready": (503, "The server is not ready"),
    "timeout": (503, "The request took too long; an upsert may be repeated without harm"),
}
"""code: (status, title)"""


class ProblemError(Exception):
    """An answer that is no success.

    Args:
        code: Of CODES.
        detail: What was wrong with this request; never a text of a document, a token, or of another scope.
        retry_after: Seconds after which it may be tried again.
        field: Path of the member of the request that is wrong, as `/text`.
    """

    def __init__(self, code: str, detail: str, *, retry_after: float | None = None, field: str | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.retry_after, self.field = code, detail, retry_after, field

    @property
    def status(self) -> int:
        """Of the answer."""
        return CODES[self.code][0]

    def to_dict(self, instance: str | None = None) -> dict[str, Any]:
        """The problem's members."""
        status, title = CODES[self.code]
        out: dict[str, Any] = {"type": TYPE + self.code, "title": title, "status": status, "code": self.code}
        out["detail"] = self.detail
        if self.field is not None:
            out["field"] = self.field
        if instance is not None:
            out["instance"] = instance
        return out

    def response(self, request_id: str | None = None) -> Response:
        """As an answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="nearkin"'
        return Response(
            orjson.dumps(self.to_dict(None if request_id is None else f"urn:uuid:{request_id}")),
            self.status,
            headers,
            MEDIA_TYPE,
        )
