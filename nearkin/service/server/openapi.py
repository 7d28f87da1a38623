"""The OpenAPI description of the HTTP API."""

from typing import Any

from fastapi import FastAPI

from nearkin.runtime.docstrings import remove_sections
from nearkin.service.server.api_examples import EXAMPLES, ID, SCOPE, OperationExample
from nearkin.service.server.http.parsing import JSON
from nearkin.service.server.http.problems import MEDIA_TYPE
from nearkin.service.server.routes import models as m

REQUEST_MODELS = (
    m.UpsertRequest,
    m.NearMissRequest,
    m.PassagesRequest,
    m.QueryRequest,
    m.ScopesQueryRequest,
    m.ScopeRequest,
    m.ExplainRequest,
    m.TuneRequest,
    m.ShadowSwitch,
    m.DocumentPart,
    m.DecisionsRequest,
    m.RemovalsRequest,
)
"""Models of bodies that routes parse themselves, so that FastAPI does not describe them."""

PROBLEM_SCHEMA = {
    "type": "object",
    "description": "An error in the form of RFC 9457.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "description": "URN of the kind of problem."},
        "title": {"type": "string", "description": "Title of the kind of problem."},
        "status": {"type": "integer", "description": "HTTP status code."},
        "code": {
            "type": "string",
            "description": "Kind of problem. It does not change between releases.",
        },
        "detail": {"type": "string", "description": "Description of this occurrence."},
        "field": {
            "type": "string",
            "description": "JSON pointer to the invalid member of the request.",
        },
        "instance": {"type": "string", "description": "URN with the id of the request."},
    },
}


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document of an application, including request bodies and problems."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi
        from pydantic.json_schema import models_json_schema

        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        models = [(model, "validation") for model in (*REQUEST_MODELS, m.StreamLine)]
        _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(definitions["$defs"])
        schemas["Problem"] = PROBLEM_SCHEMA
        problem_response = {
            "description": "A problem.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                operation["description"] = remove_sections(operation["description"])
                _add_examples(operation, EXAMPLES[f"{method.upper()} {path}"])
                operation["responses"].pop("422", None)
                operation["responses"].update({"4XX": problem_response, "5XX": problem_response})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for name, schema in schemas.items():
            _remove_titles(schema)
            schema["description"] = schema.get("description", name)
        for name in ("QueryRequest", "ScopesQueryRequest", "NearMissRequest", "PassagesRequest"):
            schemas[name]["properties"]["top"]["maximum"] = app.state.settings.max_top
        app.openapi_schema = document
    return app.openapi_schema


def _add_examples(operation: dict[str, Any], example: OperationExample) -> None:
    """Adds the name and the examples of an operation to its description."""
    operation["operationId"] = example.operation_id
    for parameter in operation.get("parameters", ()):
        parameter["schema"].pop("title", None)
        if parameter["in"] == "path":
            parameter["example"] = {"scope": SCOPE, "id": ID}[parameter["name"]]
    if example.request is not None:
        operation["requestBody"]["content"][JSON]["example"] = example.request
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            response["description"] = "The request succeeded."
            if isinstance(example.response, str):
                text = {"schema": {"type": "string"}, "example": example.response}
                response["content"] = {"text/plain": text}
            elif example.response is not None:
                body = response["content"][JSON]
                body["schema"].pop("title", None)
                body["example"] = example.response


def _remove_titles(schema: dict[str, Any]) -> None:
    """Removes titles that only repeat the names of members."""
    schema.pop("title", None)
    for member in schema.get("properties", {}).values():
        member.pop("title", None)
