"""Bodies of requests to forms, and what is wrong with them as problems."""

from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from pydantic import BaseModel, ValidationError

from nearkin.server.http.kernels import json_shape
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import CURRENT_CALLER, Reservation
from nearkin.server.routes.models import Model
from nearkin.server.service import Service

JSON = "application/json"
M = TypeVar("M", bound=Model)

SMALL = 1 << 14
"""Bytes of JSON that are parsed without counting its values first, and on the event loop: some milliseconds at worst."""
MAX_JSON_MEMBERS = 64
"""Members of the objects of a body. No form has more than five; each unknown one costs an error message."""
MAX_JSON_DEPTH = 8
"""Brackets of a body that are open at once. No form has more than two."""


def media_type(request: Request) -> str:
    """Of the body; JSON where nothing is said."""
    found: str = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    return found


async def parse_body(request: Request, model: type[M]) -> M:
    """Reads the body of a request as JSON of a form.

    Large bodies are parsed in a thread, and in the caller's turn, so that one of them holds up nobody else.

    Raises:
        ProblemError: If the body is something else, in which case the message names the member, or if there is no room for it.
    """
    if media_type(request) != JSON:
        raise ProblemError("unsupported-media-type", f"send {JSON}")
    service: Service = request.app.state.service
    body = await read_body(request, service)
    if len(body) <= SMALL:
        return parse_json(body, model)
    return await service.run_in_thread(parse_json, body, model)


async def read_body(request: Request, service: Service) -> bytes:
    """Reads a body, and counts its bytes for as long as the request lasts: before they come, if their number is announced.

    Args:
        request: The request, whose caller was entered before.
        service: Counts the bytes.

    Raises:
        ProblemError: If the caller, or all callers together, send more at once than fits, or more than the rate of bytes.
    """
    reservations: ExitStack = request.state.reservations
    caller = CURRENT_CALLER.get()
    held = Reservation(service.memory, caller)
    reservations.callback(held.shrink)
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        held.add(int(announced))
        service.admit_bytes(caller, held.size)
        return await request.body()
    body = bytearray()
    async for chunk in request.stream():
        held.add(len(chunk))
        body += chunk
    service.admit_bytes(caller, len(body))
    return bytes(body)


def parse_json(body: bytes, model: type[M]) -> M:
    """Parses JSON of a form; the message of an error never repeats what was sent.

    Raises:
        ProblemError: If the bytes are something else.
    """
    if len(body) > SMALL:
        check_json_shape(body, model.max_json_values)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False, include_input=False, include_context=False)) from None


def check_json_shape(body: bytes, max_json_values: int) -> None:
    """Checks that parsing takes time in proportion to the bytes: no other thread runs while the parser does.

    Args:
        body: JSON that was not parsed yet.
        most_values: Maximum number of its values.

    Raises:
        ProblemError: If the body has more values, members or levels than any form.
    """
    shape = json_shape(np.frombuffer(body, np.uint8))
    for count, most, what in (
        (shape.values, max_json_values, "values"),
        (shape.members, MAX_JSON_MEMBERS, "members"),
        (shape.depth, MAX_JSON_DEPTH, "nested brackets"),
    ):
        if count > most:
            raise ProblemError("invalid-request", f"the body has {count:,} {what}; the limit is {most:,}")


def invalid_request(errors: Any) -> ProblemError:
    """The problem of members that are not as described."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return ProblemError("not-json", first["msg"])
    where = [str(part) for part in first["loc"] if part not in ("body", "path", "query")]
    field = "/" + "/".join(where) if where else None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ProblemError("invalid-request", f"{field or 'the body'}: {first['msg']}{more}", field=field)


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The body of a route that parses it itself, for the description."""
    return {
        "requestBody": {"required": True, "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}}
    }
