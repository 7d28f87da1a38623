"""Requests of a browser for pages of the console."""

import json

from starlette.testclient import TestClient

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
"""The header with which browsers mark requests of the page itself."""
AUDIT = {
    "precision": {"hits": 99, "total": 100, "low": 0.94, "high": 0.998},
    "recall": {"hits": 96, "total": 100, "low": 0.9, "high": 0.98},
    "asked": 0.95,
    "bins": [
        {
            "low": 0.8,
            "high": 1.0,
            "recall": {"hits": 96, "total": 100, "low": 0.9, "high": 0.98},
            "predicted": 0.97,
        }
    ],
    "sampled": 500,
    "exact": 3,
    "seconds": 1.0,
    "seed": 1,
    "advice": "recall is what was asked for (0.95) or better",
    "metrics": {"schema": "nearkin.metrics/1"},
}
"""The result of an audit, as `nearkin audit --json` writes it."""


def console_response(client: TestClient, output: str, *inputs: object, **state: object) -> str:
    """Returns the response of the console to a callback.

    Args:
        client: Client of the server.
        output: Property that the callback returns, as `id.property`.
        *inputs: Pairs of a property (`id.property`) and its value.
        **state: Values of further fields by id, with underscores for hyphens.
    """
    values = [
        {"id": name.split(".")[0], "property": name.split(".")[1], "value": value}
        for name, value in inputs
    ]  # type: ignore
    fields = [
        {"id": name.replace("_", "-"), "property": "value", "value": value}
        for name, value in state.items()
    ]
    body = {
        "output": output,
        "outputs": dict(zip(("id", "property"), output.split("."), strict=True)),
        "inputs": values,
        "state": fields,
        "changedPropIds": [inputs[0][0]],  # type: ignore[index]
    }
    headers = {**SAME_ORIGIN, "Content-Type": "application/json"}
    content = json.dumps(body)
    answer = client.post("/console/_dash-update-component", content=content, headers=headers)
    assert answer.status_code == 200
    return answer.text


def page_content(client: TestClient, page: str) -> str:
    """Returns the content of a page."""
    path, _, search = page.partition("?")
    return console_response(
        client, "main.children", ("url.pathname", f"/console/{path}"), ("url.search", f"?{search}")
    )
