"""The route that searches several scopes."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.index.reader import MAX_SCOPES
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve

TEXT = "a bird sat on the roof of the house and sang for all of the tenants"


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> TestClient:
    token_file = TokenFile(tmp_path / "tokens.json")
    principal = Principal("app", ("shop", "team-*"), ("read", "write"))
    headers = {"authorization": f"Bearer {token_file.create(principal)}"}
    client = serve(source_rate="200/minute")
    client.headers.update(headers)
    for scope in ("shop", "team-a"):
        body = {"id": f"in-{scope}", "text": TEXT}
        assert client.post(f"/v1/scopes/{scope}/documents", json=body).status_code == 200
    return client


def query(client: TestClient, scopes: Any, **options: Any) -> Any:
    return client.post("/v1/query", json={"scopes": scopes, "text": TEXT, **options})


def test_matches_of_all_scopes_name_their_scope(client: TestClient) -> None:
    answer = query(client, ["team-a", "shop", "team-b"]).json()
    assert [(match["scope"], match["id"]) for match in answer["matches"]] == [
        ("shop", "in-shop"),
        ("team-a", "in-team-a"),
    ]
    assert answer["matches"][0]["shared_bands"] is None
    (match,) = query(client, ["team-a", "shop"], top=1, members=True).json()["matches"]
    assert match["scope"] == "shop"


@pytest.mark.promise("A search of several scopes needs access to each, and tells nothing of them.")
def test_one_scope_without_access_refuses_the_whole_search(client: TestClient) -> None:
    client.app.state.service.index.upsert("secret", TEXT, "hidden")  # type: ignore[attr-defined]
    known = query(client, ["shop", "secret"])
    unknown = query(client, ["shop", "absent"])
    assert (known.status_code, unknown.status_code) == (403, 403)
    assert {**known.json(), "instance": ""} == {**unknown.json(), "instance": ""}
    assert "secret" not in known.text
    assert "in-shop" not in known.text


def test_lists_of_scopes_are_bounded_and_count_for_the_rate(client: TestClient) -> None:
    names = [f"team-{number}" for number in range(MAX_SCOPES + 1)]
    assert query(client, names).status_code == 422
    assert query(client, []).status_code == 422
    assert query(client, ["\x1fgolden"]).status_code == 422
    assert query(client, names[:MAX_SCOPES]).status_code == 200
    assert query(client, names[:MAX_SCOPES]).status_code == 429
