"""Requests of a browser for pages of the console."""

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


def sent(client: TestClient, page: str, **values: str) -> str:
    """Returns the answer of a page to values that a form of it has sent, by name."""
    answer = client.post(f"/console/{page}", json=values, headers=SAME_ORIGIN)
    assert answer.status_code == 200
    return answer.text


def page_content(client: TestClient, page: str) -> str:
    """Returns a page."""
    answer = client.get(f"/console/{page}", follow_redirects=False)
    assert answer.status_code == 200
    return answer.text
