"""The promises of docs/explanation/security.md that no other file of this folder tests, each by its
name.

Others: a stranger costs no more than a refusal (test_strangers); the console is confined to a
    token's scopes (test_scopes);
once a token was made one is always needed (test_protection); logs name nobody (test_logs); one
client stops no other (test_bounds).
"""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nearkin.errors import StoreError
from nearkin.service.server.http.problems import PROBLEM_KINDS
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve
from tests.service.server.console.pages import SAME_ORIGIN, page_content

TEXT = " ".join(f"word{at}" for at in range(50))


def counted(
    client: TestClient, name: str, label: str, header: dict[str, str] | None = None
) -> dict[str, float]:
    """Returns the values of a counter by one of its labels, as Prometheus reads them."""
    text = client.get("/metrics", headers=header or {}).text
    found = re.findall(
        rf'^{name}_total{{[^}}]*{label}="([^"]*)"[^}}]*}} (\S+)$', text, re.MULTILINE
    )
    return {value: float(count) for value, count in found}


@pytest.mark.promise("Every refusal is counted.")
def test_problems_are_counted(serve: Serve, tmp_path: Path) -> None:
    """Also those of the console, of paths that are not there, and of bodies that are not as
    described."""
    token_file = TokenFile(tmp_path / "tokens.json")
    boss = {"authorization": f"Bearer {token_file.create(Principal('boss', ('*',), ('admin',)))}"}
    reader = {
        "authorization": f"Bearer {token_file.create(Principal('reader', ('a',), ('read',)))}"
    }
    token = token_file.create(Principal("slow", ("*",), ("read",), rate="1/hour"))
    slow = {"authorization": f"Bearer {token}"}
    client = serve(max_body=2000)
    document = "/v1/scopes/a/documents"
    refused = [
        client.get("/v1/spec"),
        client.get("/v1/stats", headers=reader),
        client.get("/nowhere", headers=boss),
        client.put("/v1/spec", headers=boss),
        client.get(f"{document}/nobody", headers=boss),
        client.post(document, json={"text": 5}, headers=boss),
        client.post(document, content=b"{", headers=boss),
        client.post(document, content=b"x" * 3000, headers=boss),
        client.post(f"{document}", content=b"x", headers={**boss, "content-type": "text/csv"}),
        client.post("/v1/shadow", json={"live": "shadow"}, headers=boss),
        client.get("/v1/scopes/a/clusters?limit=x", headers=boss),
        *(client.get("/v1/spec", headers=slow) for _ in range(2)),
        client.post("/console/login", data={"token": "wrong"}, headers=SAME_ORIGIN),
        client.post("/console/login", data={"token": "wrong"}),
        client.get("/console/nowhere"),
        client.get("/console/static/nowhere"),
        client.post("/console/try", json={}, headers=SAME_ORIGIN),
    ]
    expected: dict[str, int] = {}
    for answer in refused:
        if answer.status_code >= 400:
            code = (
                answer.json()["code"]
                if "json" in answer.headers["content-type"]
                else "unauthenticated"
            )
            expected[code] = expected.get(code, 0) + 1
    assert sum(expected.values()) == len(refused) - 1, "all but the first request of the slow token"
    assert set(expected) <= set(PROBLEM_KINDS)
    counts = counted(client, "nearkin_refused", "code", boss)
    counts.pop("not-ready", None)  # of the probes while the server started
    assert counts == expected


def test_problems_of_the_console_are_counted(serve: Serve) -> None:
    client = serve()
    assert "Not found" in page_content(client, "clusters?scope=a&id=nobody")
    assert counted(client, "nearkin_refused", "code").get("not-found") == 1


@pytest.mark.promise("Failures of the store are counted.")
def test_store_failures_are_counted(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are counted for requests, for the console and for background tasks."""
    client = serve()
    service = client.app.state.service  # type: ignore[attr-defined]

    def fail(*_: object, **__: object) -> None:
        raise StoreError("down")

    for name in ("entries", "counts", "scan", "members", "postings"):
        monkeypatch.setattr(service.index._session.store, name, fail)
    assert client.get("/v1/scopes/a/documents/x").status_code == 503
    assert client.post("/v1/scopes/a/query", json={"text": TEXT}).status_code == 503
    page_content(client, "clusters?scope=a&id=x")
    counts = counted(client, "nearkin_store_errors", "operation")
    assert {"GET", "POST", "console"} <= set(counts)
    assert counts["metrics"] >= 1
    assert "nearkin_records " not in client.get("/metrics").text, (
        "an old count is not told as the present one"
    )


@pytest.mark.promise("Evictions are counted.")
def test_evictions_are_counted(serve: Serve) -> None:
    """Postings that leave a full bucket: documents that are found with less recall from then on."""
    client = serve(index={"bucket_capacity": "5", "postings": "all"})
    for at in range(12):
        client.post(
            "/v1/scopes/a/documents", json={"id": f"d{at}", "text": TEXT}
        ).raise_for_status()
    evicted = client.get("/v1/stats").json()["evicted"]
    assert evicted > 0
    assert f"nearkin_evicted {float(evicted)}" in client.get("/metrics").text


@pytest.mark.promise("Copies of a text add no postings.")
def test_copies_add_no_postings(serve: Serve) -> None:
    """Copies under other ids are one cluster; copies without an id are one record."""
    client = serve()
    client.post("/v1/scopes/a/documents", json={"id": "first", "text": TEXT}).raise_for_status()
    before = client.get("/v1/stats").json()
    lines = "".join(f'{{"id": "copy{at}", "text": "{TEXT}"}}\n' for at in range(300))
    header = {"content-type": "application/x-ndjson"}
    assert (
        client.post("/v1/scopes/a/documents", content=lines, headers=header).text.count(
            '"representative":"first"'
        )
        == 300
    )
    after = client.get("/v1/stats").json()
    assert (after["postings"], after["leaders"]) == (before["postings"], before["leaders"])
    lines = f'{{"text": "{TEXT}"}}\n' * 300
    client.post("/v1/scopes/a/documents", content=lines, headers=header)
    assert client.get("/v1/stats").json()["records"] == after["records"] + 1


@pytest.mark.parametrize(
    ("settings", "content_type"),
    [
        ({"max_body": 5000}, "application/json"),
        ({"max_line": 5000}, "application/x-ndjson"),
        ({"index": {"max_document": "5000"}}, "application/json"),
    ],
)
def test_huge_documents_are_rejected(
    serve: Serve, settings: dict[str, object], content_type: str
) -> None:
    client = serve(**settings)
    body = f'{{"id": "huge", "text": "{"x" * 10_000}"}}\n'
    answer = client.post(
        "/v1/scopes/a/documents", content=body, headers={"content-type": content_type}
    )
    assert "too-large" in answer.text or "invalid-request" in answer.text
    assert client.get("/v1/scopes/a/documents/huge").status_code == 404
