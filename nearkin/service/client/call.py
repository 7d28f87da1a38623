"""A request to `nearkin serve`, and what reads its response. Both clients send it."""

import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
import numpy as np
import orjson

from nearkin.errors import NearkinError, ServiceError, UsageError
from nearkin.index.documents import TextAndVector
from nearkin.index.entry import Match, Outcome
from nearkin.service.client.models import NewDocument

if TYPE_CHECKING:
    from nearkin.index.documents import Document

T = TypeVar("T")

JSON = "application/json"
NO_OPTIONS: Mapping[str, object] = {}
RESPONSE_BYTES = 128 << 20
"""The maximum size of a response in bytes. It is more than the longest document has in JSON."""


def build_outcome(members: object) -> Outcome:
    """Returns an outcome from the members of a response."""
    return msgspec.convert(members, Outcome)


def build_match(members: Mapping[str, Any]) -> Match:
    """Returns a match from the members of a response."""
    return msgspec.convert({**members, "shared": members["shared_bands"]}, Match)


class RequestArguments(TypedDict):
    """The arguments of `httpx2.Client.request`."""

    method: str
    url: str
    content: bytes | None
    params: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, with the function that reads its response.

    Attributes:
        method: The HTTP method.
        path: The path, percent-encoded.
        read: Returns the result of a response.
        body: The body, or None.
        media_type: The media type of the body.
        params: The parameters of the query.
    """

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    body: bytes | None = None
    media_type: str = JSON
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> RequestArguments:
        """The arguments of `httpx2.Client.request`."""
        headers = {"Accept-Encoding": "identity"}
        if self.body is not None:
            headers["Content-Type"] = self.media_type
        return {
            "method": self.method,
            "url": self.path,
            "content": self.body,
            "params": self.params,
            "headers": headers,
        }

    def parse(self, response: httpx2.Response) -> T:
        """Returns the result of a response of any status and form."""
        try:
            return self.read(response)
        except NearkinError:
            raise
        except (
            msgspec.ValidationError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            ValueError,
        ) as error:
            name = type(error).__name__
            raise ServiceError(
                "unexpected-answer",
                f"unexpected form of the response ({name}: {error})",
                status=response.status_code,
            ) from error


Exchange: TypeAlias = Generator[Call[Any], Any, T]
"""Requests of which each may depend on the result of the previous one, and their common result."""


class ResponseBuffer:
    """A buffer for the body of a response, of at most RESPONSE_BYTES."""

    def __init__(self, response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ServiceError(
                "unexpected-answer",
                f"unexpected encoding of the response: {encoding[:40]}",
                status=response.status_code,
            )
        self._response = response
        self._body = bytearray()

    def add(self, chunk: bytes) -> None:
        """Adds bytes of the body."""
        self._body += chunk
        if len(self._body) > RESPONSE_BYTES:
            raise ServiceError(
                "unexpected-answer", f"response larger than {RESPONSE_BYTES:,} bytes"
            )

    def to_response(self) -> httpx2.Response:
        """Returns the response with its body."""
        head = self._response
        return httpx2.Response(
            head.status_code, headers=head.headers, content=bytes(self._body), request=head.request
        )


def parse_time(text: str) -> float:
    """Returns a time of a response in the form of RFC 3339, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def path_in_scope(scope: str, *parts: str) -> str:
    """Returns a path below a scope, percent-encoded."""
    return "/".join(("/v1/scopes", *map(_encode_segment, (scope, *parts))))


def _encode_segment(part: str) -> str:
    """Returns a percent-encoded segment of a path. `.` and `..` would change the path."""
    if part in (".", ".."):
        return part.replace(".", "%2E")
    return quote(part, safe="")


def read_json(response: httpx2.Response) -> Any:
    """Returns the JSON of a successful response."""
    require_success(response)
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise ServiceError(
            "unexpected-answer", f"invalid JSON: {error}", status=response.status_code
        ) from error


def reader_of(kind: type[T]) -> Callable[[httpx2.Response], T]:
    """Returns a reader of the JSON of a type. It ignores members that the type does not have."""
    return lambda response: msgspec.convert(read_json(response), kind)


def reader_of_number(member: str) -> Callable[[httpx2.Response], int]:
    """Returns a reader of one member, which is a whole number."""
    return lambda response: int(read_json(response)[member])


def read_outcome(response: httpx2.Response) -> Outcome:
    """Returns the outcome that a response consists of."""
    return build_outcome(read_json(response))


def or_none(read: Callable[[httpx2.Response], T]) -> Callable[[httpx2.Response], T | None]:
    """Returns a reader that returns None for the problem `not-found`. Another 404 is an error."""

    def read_or_none(response: httpx2.Response) -> T | None:
        try:
            return read(response)
        except ServiceError as problem:
            if problem.code == "not-found":
                return None
            raise

    return read_or_none


def require_success(response: httpx2.Response) -> None:
    """Requires that a request succeeded."""
    if response.is_success:
        return
    try:
        members = orjson.loads(response.content)
        problem = to_service_error(members, None, response.headers.get("x-request-id"))
    except (orjson.JSONDecodeError, TypeError, KeyError):
        target = f" to {response.headers['location']}" if response.has_redirect_location else ""
        detail = (
            f"unexpected response {response.status_code} {response.reason_phrase}{target}; is this "
            "the address of a nearkin server?"
        )
        problem = ServiceError("unexpected-answer", detail, status=response.status_code)
    problem.retry_after = _parse_retry_after(response.headers.get("retry-after"))
    raise problem


def to_service_error(
    problem: Mapping[str, Any], line: int | None, request_id: str | None
) -> ServiceError:
    """Returns the error of a problem (RFC 9457) that a server reported."""
    return ServiceError(
        problem["code"],
        problem["detail"],
        status=problem.get("status"),
        field=problem.get("field"),
        request_id=request_id,
        line=line,
    )


def _parse_retry_after(header: str | None) -> float | None:
    """Returns the seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    try:
        if header.isdigit():
            return float(header)
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _text_and_vector(document: object) -> "tuple[str | None, Any]":
    """Returns the text and the vector of a document, of which one is None if it has only one."""
    if isinstance(document, str):
        return document, None
    if isinstance(document, (np.ndarray, list, tuple)):
        return None, document
    if not isinstance(document, TextAndVector):
        raise UsageError(
            f"a document must be a text or a vector, not "
            f"{type(document).__name__}; use NewDocument for a document with an id"
        )
    if document.text is None and document.vector is None:
        raise UsageError("a document needs a text, a vector or both; this one has neither")
    return document.text, document.vector


def to_json_line(
    new: "NewDocument | Document", options: Mapping[str, object] = NO_OPTIONS
) -> bytes:
    """Returns a document and options of a request as JSON."""
    given = new if isinstance(new, NewDocument) else NewDocument(new)
    document = given.document
    text, vector = _text_and_vector(document)
    if isinstance(vector, np.ndarray):
        vector = np.ascontiguousarray(vector)
    members: dict[str, object] = {"text": text, "vector": vector, "id": given.id}
    members = {name: value for name, value in members.items() if value is not None}
    members |= options
    try:
        return orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:
        if vector is not None:
            raise UsageError(f"a vector has an element that is not a number: {error}") from error
        # The text has half of a surrogate pair. The server refuses this line only.
        return json.dumps(members).encode()
