"""Bodies of requests to forms, and what is wrong with them as problems."""

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from nearkin.server.problems import ProblemError

JSON = "application/json"
M = TypeVar("M", bound=BaseModel)


def media_type(request: Request) -> str:
    """Of the body; JSON where nothing is said."""
    found: str = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    return found


async def parsed(request: Request, model: type[M]) -> M:
    """The body, as JSON of a form.

    Raises:
        ProblemError: It is something else; the message names the member.
    """
    if media_type(request) != JSON:
        raise ProblemError("unsupported-media-type", f"send {JSON}")
    return parsed_json(await request.body(), model)


def parsed_json(body: bytes, model: type[M]) -> M:
    """Bytes as JSON of a form; the message never repeats what was sent.

    Raises:
        ProblemError: They are something else.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from None


def invalid(errors: Any) -> ProblemError:
    """The problem of members that are not as described."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return ProblemError("not-json", first["msg"])
    where = [str(part) for part in first["loc"] if part not in ("body", "path", "query")]
    field = "/" + "/".join(where) if where else None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ProblemError("invalid-request", f"{field or 'the body'}: {first['msg']}{more}", field=field)


def described(model: type[BaseModel]) -> dict[str, Any]:
    """The body of a route that parses it itself, for the description."""
    return {
        "requestBody": {"required": True, "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}}
    }
