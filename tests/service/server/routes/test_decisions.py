"""The routes that write and list decisions about documents of a scope."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.http.tokens import Principal, TokenFile
from nearkin.service.server.routes.models import MAX_DECISIONS
from tests.service.server.conftest import Serve

TEXT = "the cat sat on the mat and looked at the {}"
PATH = "/v1/scopes/shop/decisions"


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The headers of some tokens, by their names."""
    token_file = TokenFile(tmp_path / "tokens.json")
    principals = [
        Principal("app", ("shop",), ("read", "write")),
        Principal("reader", ("shop",), ("read",)),
        Principal("other", ("elsewhere",), ("read", "write")),
    ]
    return {who.name: {"authorization": f"Bearer {token_file.create(who)}"} for who in principals}


@pytest.fixture
def client(serve: Serve, tokens: dict[str, dict[str, str]]) -> Iterator[TestClient]:
    client = serve(index={"shingle": "words:1"})
    client.headers.update(tokens["app"])
    for id in ("a", "b"):
        body = {"id": id, "text": TEXT.format(f"{id} bird on the roof of the house")}
        assert client.post("/v1/scopes/shop/documents", json=body).status_code == 200
    return client


def decide(client: TestClient, *decisions: dict[str, Any], **options: Any) -> Any:
    return client.post(PATH, json={"decisions": decisions}, **options)


def cluster_of(client: TestClient, id: str) -> str:
    representative: str = client.get(f"/v1/scopes/shop/documents/{id}").json()["representative"]
    return representative


def listed(client: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get(PATH, params={**parameters, **cursor}).json()
        found += page["decisions"]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


def test_decisions_are_followed_and_listed_with_who_and_when(client: TestClient) -> None:
    assert cluster_of(client, "b") == "a"
    began = datetime.now(UTC)
    answer = decide(client, {"id_a": "b", "id_b": "a", "decision": "different", "by": "ada"})
    assert answer.json() == {"stored": 1}
    assert cluster_of(client, "b") == "b"
    (first,) = listed(client)
    at = datetime.fromisoformat(first.pop("at"))
    assert began <= at <= datetime.now(UTC)
    assert first == {"id_a": "a", "id_b": "b", "decision": "different", "by": "ada via app"}
    later = (at + timedelta(hours=1)).isoformat()
    assert decide(client, {"id_a": "a", "id_b": "b", "decision": "same", "at": later}).json() == {
        "stored": 1
    }
    assert cluster_of(client, "b") == cluster_of(client, "a")
    (second,) = listed(client)
    assert (second["decision"], second["by"]) == ("same", "app")
    assert datetime.fromisoformat(second["at"]) == at + timedelta(hours=1)


@pytest.mark.parametrize("time", [{}, {"at": "2026-05-01T10:00:00+02:00"}])
def test_a_repeated_request_changes_nothing(client: TestClient, time: dict[str, str]) -> None:
    decision = {"id_a": "a", "id_b": "b", "decision": "different", **time}
    assert decide(client, decision).json() == {"stored": 1}
    before = listed(client)
    assert decide(client, decision).json() == {"stored": 0}
    assert listed(client) == before
    if time:
        earlier = {**decision, "decision": "same", "at": "2026-05-01T07:59:59Z"}
        assert decide(client, earlier).json() == {"stored": 0}
        assert listed(client) == before
        assert before[0]["at"] == "2026-05-01T08:00:00.000000Z"


def test_contradictions_are_refused_and_nothing_of_the_request_is_stored(
    client: TestClient,
) -> None:
    same = {"id_a": "a", "id_b": "b", "decision": "same"}
    assert decide(client, same).status_code == 200
    before = listed(client)
    answer = decide(
        client,
        {"id_a": "x", "id_b": "y", "decision": "same"},
        {"id_a": "b", "id_b": "c", "decision": "same"},
        {"id_a": "c", "id_b": "a", "decision": "different"},
    )
    assert answer.status_code == 422
    assert "correct one of these decisions" in answer.json()["detail"]
    assert listed(client) == before


def test_pages_list_each_decision_once(client: TestClient) -> None:
    new = [{"id_a": f"n{number}", "id_b": "é", "decision": "different"} for number in range(7)]
    assert decide(client, *new).json() == {"stored": 7}
    pages = listed(client, limit=3)
    assert [row["id_a"] for row in pages] == [f"n{number}" for number in range(7)]
    assert pages == listed(client)
    cursor = client.get(PATH, params={"limit": 3}).json()["next"]
    other = client.get("/v1/scopes/shop/clusters", params={"cursor": cursor})
    assert (other.status_code, other.json()["field"]) == (422, "/cursor")


def test_a_decision_that_is_sent_again_names_one_token(client: TestClient) -> None:
    names = ["ada", "ada via app", "ada via another via app", "app", " via x", None]
    for number, by in enumerate(names):
        pair = {"id_a": f"n{number}", "id_b": "x", "decision": "different"}
        assert decide(client, pair if by is None else {**pair, "by": by}).json() == {"stored": 1}
    assert [row["by"] for row in listed(client)] == ["ada via app"] * 3 + ["app"] * 3


def test_pages_end_at_pairs_of_the_longest_ids(client: TestClient) -> None:
    new = [{"id_a": '"' * 1024, "id_b": "\\" * 1023 + end, "decision": "same"} for end in "ab"]
    assert decide(client, *new).json() == {"stored": 2}
    assert len(listed(client, limit=1)) == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id_a": ""}, "/decisions/0/id_a"),
        ({"id_a": "\x1fdecided:"}, "/id_a"),
        ({"id_a": "é" * 1000}, "/id_a"),
        ({"id_b": "a"}, None),
        ({"decision": "unsure"}, "/decisions/0/decision"),
        ({"by": "a\nb"}, "/by"),
        ({"by": "x" * 257}, "/decisions/0/by"),
        ({"at": "2026-05-01T10:00:00"}, "/decisions/0/at"),
        ({"at": "9999-12-31T23:59:59.999999Z"}, "/decisions/0/at"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "/decisions/0/at"),
        ({"name": "x"}, "/decisions/0/name"),
    ],
    ids=str,
)
def test_invalid_decisions_are_refused(
    client: TestClient, change: dict[str, str], field: str | None
) -> None:
    answer = decide(client, {"id_a": "a", "id_b": "b", "decision": "same", **change})
    assert answer.status_code == 422
    assert answer.json().get("field") == field
    assert listed(client) == []


def test_the_number_of_decisions_of_a_request_is_bounded(client: TestClient) -> None:
    new = [
        {"id_a": f"n{number}" + "x" * 100, "id_b": "m", "decision": "different"}
        for number in range(MAX_DECISIONS + 1)
    ]
    assert decide(client).status_code == 422
    assert decide(client, *new).status_code == 422
    assert listed(client) == []
    assert decide(client, *new[:-1]).json() == {"stored": MAX_DECISIONS}
    limit = client.get(PATH, params={"limit": MAX_DECISIONS + 1})
    assert limit.status_code == 422


def test_rights_and_scopes_are_checked(
    client: TestClient, tokens: dict[str, dict[str, str]]
) -> None:
    decision = {"id_a": "a", "id_b": "b", "decision": "different"}
    assert decide(client, decision, headers=tokens["reader"]).status_code == 403
    assert client.get(PATH, headers=tokens["reader"]).status_code == 200
    for headers in (tokens["other"], {"authorization": ""}):
        assert decide(client, decision, headers=headers).status_code in (401, 403)
        assert client.get(PATH, headers=headers).status_code in (401, 403)
    elsewhere = client.get("/v1/scopes/elsewhere/decisions", headers=tokens["other"])
    assert elsewhere.json() == {"decisions": [], "next": None}
    assert listed(client) == []


def test_each_decision_counts_for_the_rate(serve: Serve, tokens: dict[str, dict[str, str]]) -> None:
    client = serve(source_rate="10/minute")
    client.headers.update(tokens["app"])
    new = [{"id_a": f"n{number}", "id_b": "m", "decision": "different"} for number in range(11)]
    answer = decide(client, *new)
    # to send it again later would not help
    assert (answer.status_code, answer.json()["field"]) == (413, "/decisions")
    assert "send at most 10 in a request" in answer.json()["detail"]
    assert decide(client, *new[:5]).status_code == 200
    assert decide(client, *new[:10]).status_code == 429
