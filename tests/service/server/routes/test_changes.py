"""The route that lists what happened to documents, of the scopes of a token."""

import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import nearkin as nk
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve, client_of

PATH = "/v1/changes"
FOREIGN = "A" * 32
"""A cursor of another index."""
TEXT = "the cat sat on the mat and looked at the {}"


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The headers of some tokens, by their names."""
    token_file = TokenFile(tmp_path / "tokens.json")
    principals = [
        Principal("app", ("shop",), ("read", "write")),
        Principal("other", ("elsewhere", "team-*"), ("read", "write")),
        Principal("all", ("*",), ("read",)),
        Principal("writer", ("*",), ("write",)),
    ]
    return {who.name: {"authorization": f"Bearer {token_file.create(who)}"} for who in principals}


def upsert(client: TestClient, headers: dict[str, str], scope: str, id: str, word: str) -> None:
    body = {"id": id, "text": TEXT.format(word)}
    answer = client.post(f"/v1/scopes/{scope}/documents", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def test_a_token_sees_only_changes_of_its_scopes(
    serve: Serve, tokens: dict[str, dict[str, str]]
) -> None:
    client = serve(index={"history": "1000"})
    upsert(client, tokens["app"], "shop", "own", "bird")
    upsert(client, tokens["other"], "elsewhere", "foreign", "bird")
    upsert(client, tokens["other"], "team-a", "teams", "bird")
    assert client.delete(
        "/v1/scopes/elsewhere/documents/foreign", headers=tokens["other"]
    ).is_success

    def list_ids(name: str, **params: Any) -> list[str]:
        answer = client.get(PATH, params=params, headers=tokens[name])
        assert answer.status_code == 200, answer.text
        assert name == "all" or "foreign" not in answer.text or name == "other"
        return [change["id"] for change in answer.json()["changes"]]

    assert list_ids("app") == ["own"]
    assert list_ids("app", scope="shop") == ["own"]
    assert list_ids("app", id="foreign") == []
    assert list_ids("other") == ["foreign", "teams", "foreign"]
    assert list_ids("all") == ["own", "foreign", "teams", "foreign"]
    assert list_ids("all", scope="elsewhere") == ["foreign", "foreign"]
    refused = [("app", "elsewhere"), ("app", "team-a"), ("other", "shop"), ("app", "none")]
    for name, scope in refused:
        answer = client.get(PATH, params={"scope": scope}, headers=tokens[name])
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert client.get(PATH, headers=tokens["writer"]).status_code == 403
    assert client.get(PATH).status_code == 401


def test_changes_name_the_token_and_never_its_secret(
    serve: Serve, tokens: dict[str, dict[str, str]]
) -> None:
    client = serve(index={"history": "1000"})
    upsert(client, tokens["app"], "shop", "one", "bird")
    decisions = [{"id_a": "one", "id_b": "two", "decision": "same"}]
    client.post(
        "/v1/scopes/shop/decisions", json={"decisions": decisions}, headers=tokens["app"]
    ).raise_for_status()
    client.post(
        "/v1/scopes/shop/removals", json={"ids": ["one"]}, headers=tokens["app"]
    ).raise_for_status()
    answer = client.get(PATH, headers=tokens["app"])
    changes = answer.json()["changes"]
    assert [(change["kind"], change["actor"]) for change in changes] == [
        ("inserted", "token app"),
        ("decided-same", "app"),
        ("decided-same", "app"),
        ("erased", "token app"),
    ]
    assert changes[0]["at"].endswith("Z")
    assert tokens["app"]["authorization"].split()[1] not in answer.text


def test_upserts_of_several_tokens_at_once_name_each(
    serve: Serve, tokens: dict[str, dict[str, str]]
) -> None:
    client = serve(index={"history": "1000"})
    names = [("other", f"other{i}") for i in range(12)]
    senders = [
        threading.Thread(target=upsert, args=(client, tokens[name], "team-a", id, id))
        for name, id in [*names, *(("writer", f"writer{i}") for i in range(12))]
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    changes = client.get(PATH, headers=tokens["all"]).json()["changes"]
    assert len(changes) == 24
    assert all(
        change["actor"] == f"token {change['id'].rstrip('0123456789')}" for change in changes
    )


def test_errors_say_what_to_do(serve: Serve) -> None:
    client = serve(index={"history": "1000"}, keyed=False)
    answer = client.get(PATH, params={"after": FOREIGN})
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    assert "start again from an export, with the cursor 'now'" in answer.json()["detail"]
    answer = client.get(PATH, params={"after": "not a cursor.x"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    for params in ({"limit": 0}, {"limit": 10_001}, {"after": "x" * 1001}):
        assert client.get(PATH, params=params).status_code == 422
    without = serve(keyed=False)
    answer = without.get(PATH)
    assert answer.status_code == 422
    assert "keeps no history; open it once with the setting" in answer.json()["detail"]


def test_a_client_follows(serve: Serve) -> None:
    server = serve(index={"history": "1000"}, keyed=False)
    with client_of(server) as client:
        client.upsert("shop", TEXT.format("bird"), "one")
        start = client.changes("now")
        client.upsert("shop", TEXT.format("bird"), "two")
        client.upsert("web", TEXT.format("fish"), "three")
        page = client.changes(start.next, limit=1)
        assert [(change.kind, change.id) for change in page.changes] == [("resolved", "two")]
        assert page.has_more
        assert isinstance(page.changes[0].at, float)
        last = client.changes(page.next)
        assert [change.id for change in last.changes] == ["three"]
        assert [change.id for change in client.changes(scope="web").changes] == ["three"]
        assert [change.id for change in client.changes(id="two").changes] == ["two"]
        with pytest.raises(nk.ServiceError) as gone:
            client.changes(FOREIGN)
        assert (gone.value.code, gone.value.status) == ("gone", 410)
