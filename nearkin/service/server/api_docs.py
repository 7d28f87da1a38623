"""The API documentation as a page of plain HTML, made from the OpenAPI description.

It has no script and requests nothing from other sites.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The content security policy of the page."""
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.7rem; border: 1px solid #8886; border-radius: 4px; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #8886; padding: 0.2rem 0.8rem 0.2rem 0; text-align: left;
  vertical-align: top; }
section { border-top: 1px solid #8886; margin-top: 2rem; }
h2 { overflow-wrap: anywhere; }
"""


def render_docs(description: Mapping[str, Any]) -> str:
    """Returns the page."""
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>nearkin API</title><style>{STYLE}</style></head><body>",
        f"<h1>nearkin API {escape(description['info']['version'])}</h1>",
        f"<p>{escape(description['info']['description'])} ",
        'Programs read <a href="/openapi.json">the OpenAPI description</a>.</p>',
        "<p>Requests carry the header <code>Authorization: Bearer TOKEN</code>, unless the server ",
        "has no tokens. Errors are JSON objects in the form of RFC 9457.</p><ul>",
    ]
    for name, operation in operations:
        anchor = operation["operationId"]
        parts.append(
            f'<li><a href="#{anchor}"><code>{escape(name)}</code></a> '
            f"{escape(operation['summary'])}</li>"
        )
    parts.append("</ul>")
    for name, operation in operations:
        parts.extend(_render_operation(name, operation))
    schemas = description["components"]["schemas"]
    parts.append("<section><h2>Objects</h2>")
    for name, schema in sorted(schemas.items()):
        parts.append(f'<h3 id="schema-{escape(name)}">{escape(name)}</h3>')
        parts.append(f"<p>{escape(schema.get('description', ''))}</p>")
        parts.extend(_render_properties(schema))
    parts.append("</section></body></html>\n")
    return "".join(parts)


def _render_operation(name: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section><h2 id="{operation["operationId"]}"><code>{escape(name)}</code></h2>'
    for paragraph in operation["description"].split("\n\n"):
        yield f"<p>{escape(paragraph)}</p>"
    if parameters := operation.get("parameters"):
        yield "<h3>Parameters</h3><table>"
        for parameter in parameters:
            yield (
                f"<tr><td><code>{escape(parameter['name'])}</code></td>"
                f"<td>{escape(parameter['in'])}</td><td>{_describe_type(parameter['schema'])}</td>"
                f"<td>{escape(parameter.get('description', ''))}</td></tr>"
            )
        yield "</table>"
    if body := operation.get("requestBody"):
        yield "<h3>Request</h3>"
        yield from _render_content(body["content"])
    yield "<h3>Response</h3>"
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            yield f"<p>Status {escape(status)}.</p>"
            yield from _render_content(response.get("content", {}))
    yield "</section>"


def _render_content(content: Mapping[str, Any]) -> Iterator[str]:
    for media_type, body in content.items():
        schema = body.get("schema", {})
        yield f"<p><code>{escape(media_type)}</code>: {_describe_type(schema)}. "
        yield f"{escape(schema.get('description', ''))}</p>"
        if "example" in body:
            example = body["example"]
            text = example if isinstance(example, str) else json.dumps(example, indent=2)
            yield f"<pre>{escape(text)}</pre>"


def _render_properties(schema: Mapping[str, Any]) -> Iterator[str]:
    required = set(schema.get("required", ()))
    yield "<table>"
    for name, member in schema.get("properties", {}).items():
        presence = "required" if name in required else "optional"
        yield (
            f"<tr><td><code>{escape(name)}</code></td><td>{_describe_type(member)}</td>"
            f"<td>{presence}</td><td>{escape(member.get('description', ''))}</td></tr>"
        )
    yield "</table>"


def _describe_type(schema: Mapping[str, Any]) -> str:
    """Returns the type of a value with its bounds, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_describe_type, schema["anyOf"]))
    text = escape(str(schema.get("type", "any")))
    if "items" in schema:
        text += f" of {_describe_type(schema['items'])}"
    bounds = {
        "minimum": "at least {}",
        "exclusiveMinimum": "more than {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "less than {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "multipleOf": "a multiple of {}",
        "format": "{}",
    }
    notes = [form.format(schema[name]) for name, form in bounds.items() if name in schema]
    if "enum" in schema:
        notes.append("one of " + ", ".join(map(str, schema["enum"])))
    return f"{text} ({escape(', '.join(notes))})" if notes else text
