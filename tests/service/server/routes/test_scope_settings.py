"""The routes of the settings of a scope, and answers about its quotas."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.http.tokens import RIGHTS, Principal, TokenFile
from tests.service.server.conftest import Serve

Headers = dict[str, dict[str, str]]
SHOP = "/v1/scopes/shop"


@pytest.fixture
def tokens(tmp_path: Path) -> Headers:
    """The headers of some tokens, by their names."""
    token_file = TokenFile(tmp_path / "tokens.json")
    principals = [
        Principal("boss", ("*",), RIGHTS),
        Principal("app", ("shop",), RIGHTS),
        Principal("other", ("elsewhere",), ("read", "write")),
    ]
    return {who.name: {"authorization": f"Bearer {token_file.create(who)}"} for who in principals}


@pytest.fixture
def client(serve: Serve, tokens: Headers, tmp_path: Path) -> TestClient:
    client = serve(store=f"sqlite:///{tmp_path}/kin.db")
    client.headers.update(tokens["app"])
    return client


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def upsert(client: TestClient, id: str, **options: Any) -> Any:
    body = {"id": id, "text": f"a text of {id} that is like no other {id * 3}"}
    return client.post(f"{SHOP}/documents", json=body, **options)


def test_settings_are_stored_and_shown(client: TestClient, tokens: Headers) -> None:
    settings = {"threshold": 0.9, "record_ttl": 100.0, "max_documents": 2, "max_bytes": "1MB"}
    stored = client.put(SHOP, json=settings, headers=tokens["boss"]).json()
    stored = {**stored, "settings": without_none(stored["settings"])}
    expected = {"settings": {**settings, "max_bytes": 1_000_000}}
    assert stored == {**expected, "used_documents": 0, "used_bytes": 0}
    shown = client.get(SHOP).json()
    assert {**shown, "settings": without_none(shown["settings"])} == stored
    client.put(SHOP, json={}, headers=tokens["boss"]).raise_for_status()
    empty = client.get(SHOP).json()
    assert without_none({**empty, **empty["settings"]}) == {"settings": empty["settings"]}


@pytest.mark.promise("Only a token of all scopes sets the quota of a scope.")
def test_a_tenant_cannot_raise_its_own_quota(client: TestClient, tokens: Headers) -> None:
    client.put(SHOP, json={"max_documents": 0}, headers=tokens["boss"]).raise_for_status()
    for name in ("app", "other"):
        for body in ({}, {"max_documents": 9}):
            assert client.put(SHOP, json=body, headers=tokens[name]).status_code == 403
    assert client.delete(SHOP).json() == {"removed": 0, "complete": True}
    assert client.get(SHOP).json()["settings"]["max_documents"] == 0
    known = client.get(SHOP, headers=tokens["other"])
    unknown = client.get("/v1/scopes/none", headers=tokens["other"])
    assert {**known.json(), "instance": ""} == {**unknown.json(), "instance": ""}
    assert known.status_code == 403


@pytest.mark.parametrize(
    "body",
    [{"threshold": 0.1}, {"threshold": 2}, {"max_bytes": "x"}, {"max_documents": -1}, {"bands": 1}],
)
def test_invalid_settings_are_refused(
    client: TestClient, tokens: Headers, body: dict[str, Any]
) -> None:
    answer = client.put(SHOP, json=body, headers=tokens["boss"])
    assert answer.status_code == 422
    assert next(iter(body)) in answer.text


def test_documents_beyond_the_quota_are_refused_and_others_served(
    client: TestClient, tokens: Headers
) -> None:
    client.put(SHOP, json={"max_documents": 5}, headers=tokens["boss"]).raise_for_status()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda number: upsert(client, f"d{number}"), range(12)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200] * 5 + [403] * 7
    problem = next(answer for answer in answers if answer.status_code == 403).json()
    assert problem["code"] == "quota-exceeded"
    assert "5 are stored, and 1 more exceed it" in problem["detail"]
    assert client.get(SHOP).json()["used_documents"] == 5
    elsewhere = client.post(
        "/v1/scopes/elsewhere/documents", json={"text": "a"}, headers=tokens["other"]
    )
    assert elsewhere.status_code == 200
    client.delete(SHOP).raise_for_status()
    assert upsert(client, "again").status_code == 200


def test_lines_of_a_stream_that_fit_are_stored(client: TestClient, tokens: Headers) -> None:
    client.put(SHOP, json={"max_documents": 3}, headers=tokens["boss"]).raise_for_status()
    lines = [json.dumps({"id": f"d{i}", "text": f"a text of the line {i} {i}"}) for i in range(5)]
    answer = client.post(
        f"{SHOP}/documents",
        content="\n".join([*lines, lines[0]]),
        headers={"content-type": "application/x-ndjson"},
    )
    rows = [json.loads(line) for line in answer.text.splitlines()]
    codes = [(row.get("problem") or {}).get("code") for row in rows]
    assert codes == [None, None, None, "quota-exceeded", "quota-exceeded", None]
