"""The API documentation as a page of plain HTML, made from the OpenAPI description.

Its one script adds forms that send requests. The page requests nothing from other sites.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from nearkin.reports.page import make_environment

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of the page."""
SCRIPT_PATH = "/docs.js"
"""The path of the script."""
BOUNDS = {
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
"""How the page names the bounds of values."""


def render_docs(description: Mapping[str, Any]) -> str:
    """Returns the page."""
    template = make_environment(Path(__file__).parent / "templates").get_template("api_docs.html")
    return template.render(
        description,
        notes_of=_list_bounds,
        as_json=lambda example: json.dumps(example, indent=2),
        script=f"{SCRIPT_PATH}?v={hashlib.sha256(read_script()).hexdigest()[:12]}",
    )


@cache
def read_script() -> bytes:
    """Returns the script of the page."""
    return (Path(__file__).parent / "static" / "api_docs.js").read_bytes()


def _list_bounds(schema: Mapping[str, Any]) -> list[str]:
    notes = [form.format(schema[name]) for name, form in BOUNDS.items() if name in schema]
    if "enum" in schema:
        notes.append("one of " + ", ".join(map(str, schema["enum"])))
    return notes
