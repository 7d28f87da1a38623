"""The route that deletes lists of documents."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.service.server import service
from nearkin.service.server.http.tokens import Principal, TokenFile
from nearkin.service.server.routes import documents
from nearkin.service.server.routes.models import MAX_REMOVALS
from tests.service.server.conftest import Serve

PATH = "/v1/scopes/shop/removals"
Headers = dict[str, dict[str, str]]


@pytest.fixture
def tokens(tmp_path: Path) -> Headers:
    """The headers of some tokens, by their names."""
    token_file = TokenFile(tmp_path / "tokens.json")
    principals = [
        Principal("app", ("shop",), ("read", "write")),
        Principal("reader", ("shop",), ("read",)),
        Principal("other", ("elsewhere",), ("read", "write")),
    ]
    return {who.name: {"authorization": f"Bearer {token_file.create(who)}"} for who in principals}


@pytest.fixture
def client(serve: Serve, tokens: Headers) -> Iterator[TestClient]:
    client = serve()
    client.headers.update(tokens["app"])
    for id in ("a", "b", "c"):
        body = {"id": id, "text": f"a bird of the kind {id} sat on the roof of the house"}
        assert client.post("/v1/scopes/shop/documents", json=body).status_code == 200
    return client


def remove(client: TestClient, *ids: Any, **options: Any) -> Any:
    return client.post(PATH, json={"ids": ids}, **options)


def test_documents_that_exist_are_removed(client: TestClient) -> None:
    assert remove(client, "a", "none", "c", "a").json() == {"removed": 2}
    assert remove(client, "a", "none", "c", "a").json() == {"removed": 0}
    stored = [client.get(f"/v1/scopes/shop/documents/{id}").status_code for id in "abc"]
    assert stored == [404, 200, 404]


@pytest.mark.parametrize(
    ("ids", "field"), [([], "/ids"), ([""], "/ids/0"), (["a", "\n"], "/ids"), ([1], "/ids/0")]
)
def test_invalid_lists_are_refused(client: TestClient, ids: list[Any], field: str) -> None:
    answer = remove(client, *ids)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert client.get("/v1/scopes/shop/documents/a").status_code == 200


def test_the_number_of_documents_of_a_request_is_bounded(client: TestClient) -> None:
    ids = [f"n{number}" for number in range(MAX_REMOVALS + 1)]
    assert remove(client, *ids, "a").status_code == 422
    assert remove(client, *ids[:-1]).json() == {"removed": 0}


def test_rights_and_scopes_are_checked(client: TestClient, tokens: Headers) -> None:
    for headers in (tokens["reader"], tokens["other"], {"authorization": ""}):
        assert remove(client, "a", headers=headers).status_code in (401, 403)
    elsewhere = "/v1/scopes/elsewhere/removals"
    answer = client.post(elsewhere, json={"ids": ["a"]}, headers=tokens["other"])
    assert answer.json() == {"removed": 0}
    assert client.get("/v1/scopes/shop/documents/a").status_code == 200


def test_each_document_counts_for_the_rate(serve: Serve, tokens: Headers) -> None:
    client = serve(source_rate="10/minute")
    client.headers.update(tokens["app"])
    ids = [f"n{number}" for number in range(11)]
    answer = remove(client, *ids)
    # to send it again later would not help
    assert (answer.status_code, answer.json()["field"]) == (413, "/ids")
    assert "send at most 10 in a request" in answer.json()["detail"]
    assert remove(client, *ids[:5]).status_code == 200
    assert remove(client, *ids[:10]).status_code == 429


def test_a_scope_is_deleted_in_requests_of_a_bounded_number_of_documents(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (service, documents):
        monkeypatch.setattr(module, "REMOVED_AT_ONCE", 2)
    answers = [client.delete("/v1/scopes/shop").json() for _ in range(3)]
    assert answers == [
        {"removed": 2, "complete": False},
        {"removed": 1, "complete": True},
        {"removed": 0, "complete": True},
    ]
    stored = [client.get(f"/v1/scopes/shop/documents/{id}").status_code for id in "abc"]
    assert stored == [404] * 3


def test_a_scope_is_deleted_by_tokens_that_may_write_to_it(
    client: TestClient, tokens: Headers
) -> None:
    for headers in (tokens["reader"], tokens["other"], {"authorization": ""}):
        assert client.delete("/v1/scopes/shop", headers=headers).status_code in (401, 403)
    # the answer is the same whether the scope exists or not
    unknown = client.delete("/v1/scopes/unknown", headers=tokens["other"]).json()
    known = client.delete("/v1/scopes/shop", headers=tokens["other"]).json()
    assert {**unknown, "instance": ""} == {**known, "instance": ""}
    assert client.get("/v1/scopes/shop/documents/a").status_code == 200


def test_a_deleted_scope_leaves_the_shadow_index_too(serve: Serve, tmp_path: Path) -> None:
    shadow = {
        "shadow_store": f"sqlite:///{tmp_path}/shadow.db",
        "shadow_bands": 32,
        "shadow_rows": 4,
    }
    client = serve(store=f"sqlite:///{tmp_path}/first.db", **shadow)
    for id in ("a", "b"):
        client.post("/v1/scopes/shop/documents", json={"id": id, "text": f"a bird {id}"})
    standby = client.app.state.service.shadow.standby  # type: ignore[attr-defined]
    wait_until(lambda: standby.get("shop", "b") is not None)
    assert client.delete("/v1/scopes/shop").json()["removed"] == 2
    wait_until(lambda: standby.get("shop", "a") is standby.get("shop", "b") is None)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
