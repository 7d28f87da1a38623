"""Parsing and validation of request bodies. Invalid bodies are reported as problems."""

from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from pydantic import BaseModel, ValidationError

from nearkin.service.server.http.callers import CURRENT_CALLER
from nearkin.service.server.http.kernels import json_shape
from nearkin.service.server.http.middleware import parse_length
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import Reservation
from nearkin.service.server.routes.models import MAX_JSON_MEMBERS, Model
from nearkin.service.server.service import Service

JSON = "application/json"
M = TypeVar("M", bound=Model)

SMALL_BODY = 1 << 14
"""Bodies of at most this many bytes are parsed on the event loop, after their values were counted.
That takes less than a millisecond."""
MAX_JSON_DEPTH = 8
"""Maximum nesting depth of brackets and braces in a body. No model needs more than two levels."""


def request_media_type(request: Request) -> str:
    """Returns the media type of a request's body in lower case; JSON by default."""
    header: str = request.headers.get("content-type", JSON)
    return header.split(";")[0].strip().lower()


async def parse_body(request: Request, model: type[M]) -> M:
    """Reads the JSON body of a request and validates it.

    Large bodies are parsed in a thread, when it is the caller's turn, so that they do not delay
    other requests.
    """
    if request_media_type(request) != JSON:
        raise ProblemError("unsupported-media-type", f"set Content-Type to {JSON}")
    service: Service = request.app.state.service
    body = await read_body(request, service)
    if len(body) <= SMALL_BODY:
        return parse_json(body, model)
    return await service.run_in_thread(parse_json, body, model)


async def read_body(request: Request, service: Service) -> bytes:
    """Reads a body and counts its bytes until the request ends.

    Announced bytes are counted before they arrive.

    Args:
        service: The service that counts the bytes.
    """
    reservations: ExitStack = request.state.reservations
    caller = CURRENT_CALLER.get()
    reservation = Reservation(service.memory, caller)
    reservations.callback(reservation.shrink)
    size = parse_length(request.headers.get("content-length", "").encode("latin-1"))
    if size is not None:
        reservation.add(size)
        service.admit_bytes(caller, reservation.size)
        return await request.body()
    body = bytearray()
    async for chunk in request.stream():
        reservation.add(len(chunk))
        body += chunk
    service.admit_bytes(caller, len(body))
    return bytes(body)


def parse_json(body: bytes, model: type[M]) -> M:
    """Parses and validates JSON. Error messages never repeat the values that were sent."""
    check_json_shape(body, model.max_json_values, model.max_json_members)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid_request(
            error.errors(include_url=False, include_input=False, include_context=False)
        ) from None


def check_json_shape(body: bytes, max_values: int, max_members: int = MAX_JSON_MEMBERS) -> None:
    """Rejects JSON that would take long to parse for its size.

    No other thread runs while the parser holds the GIL.
    """
    shape = json_shape(np.frombuffer(body, np.uint8))
    for count, limit, unit in (
        (shape.values, max_values, "values"),
        (shape.members, max_members, "members"),
        (shape.widest, MAX_JSON_MEMBERS, "members in one object"),
        (shape.depth, MAX_JSON_DEPTH, "nested brackets"),
    ):
        if count > limit:
            raise ProblemError(
                "invalid-request", f"the body has {count:,} {unit}; the limit is {limit:,}"
            )


def invalid_request(errors: Any) -> ProblemError:
    """Converts validation errors into one problem that names the first invalid member."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return ProblemError("not-json", first["msg"])
    path = [str(part) for part in first["loc"] if part not in ("body", "path", "query")]
    field = "/" + "/".join(path) if path else None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ProblemError(
        "invalid-request", f"{field or 'the body'}: {first['msg']}{more}", field=field
    )


def body_schema(model: type[BaseModel]) -> dict[str, object]:
    """Returns the OpenAPI description of a body that a route parses itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}
