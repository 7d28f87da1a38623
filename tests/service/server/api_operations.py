"""The operations of the API, with the requests of their examples."""

import copy
from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

JSON = "application/json"
TEXT = "the quick brown fox jumps over the lazy dog and runs away over the hills into the {}"


def operations(client: TestClient) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields method, path and description of each operation; what deletes comes last."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [(method, path, one) for path, rest in paths.items() for method, one in rest.items()]
    yield from sorted(found, key=lambda operation: operation[0] == "delete")


def success(operation: dict[str, Any]) -> dict[str, Any]:
    (status,) = [status for status in operation["responses"] if status.startswith("2")]
    response: dict[str, Any] = operation["responses"][status]
    return response


def example_request(path: str, operation: dict[str, Any]) -> dict[str, Any]:
    """Returns path and JSON of the example of an operation."""
    values = {
        one["name"]: one["example"]
        for one in operation.get("parameters", ())
        if one["in"] == "path"
    }
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("example")
    return {"url": path.format(**values), "json": copy.deepcopy(body)}
