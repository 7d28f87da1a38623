"""A token of some scopes cannot read others. All answers of routes and pages are read."""

import pytest
from starlette.testclient import TestClient

from tests.service.server.console.pages import SAME_ORIGIN
from tests.service.server.two_scopes import (
    OTHER,
    OTHER_ID,
    OTHER_WORD,
    OWN_WORD,
    bearer,
    client,
    every_form,
    every_route,
    folder,
    tokens,
)

__all__ = ["client", "folder", "tokens"]


def foreign(request: str) -> list[str]:
    """Returns what an answer must not contain: the other scope's name, ids and words."""
    return [needle for needle in (OTHER, OTHER_ID, OTHER_WORD) if needle not in request]


@pytest.mark.promise("A token sees nothing of another scope, on no route, page or callback.")
def test_token_cannot_access_other_scopes(client: TestClient, tokens: dict[str, str]) -> None:
    answers = [*every_form(client, tokens["own"]), *every_route(client, tokens["own"])]
    leaks = [
        (request, answer)
        for request, answer in answers
        if any(needle in answer for needle in foreign(request))
    ]
    assert not leaks, f"{len(leaks)} answers, first: {leaks[0]}"
    own = [answer for _, answer in answers if OWN_WORD in answer]
    assert len(own) > 10, "its own documents are shown"
    buckets = [
        answer
        for request, answer in answers
        if "/console/buckets" in request and "Largest first" in answer
    ]
    assert buckets, "the hot buckets of its own scope are shown"


def test_walk_over_all_routes_finds_leaks(client: TestClient, tokens: dict[str, str]) -> None:
    """The same walk with a token of all scopes meets the other scope's name, id and text in many
    answers."""
    boss = tokens["boss"]
    answers = [*every_form(client, boss), *every_route(client, boss)]
    for needle in (OTHER, OTHER_ID, OTHER_WORD):
        assert sum(needle in answer for request, answer in answers if needle not in request) > 1, (
            needle
        )
    statuses = {answer[:3] for _, answer in answers}
    assert "200" in statuses


@pytest.mark.parametrize("page", ["live", "shadow", "audit"])
def test_pages_about_all_scopes_need_a_token_of_all_scopes(
    client: TestClient, tokens: dict[str, str], page: str
) -> None:
    for name, message in (("own", "needs a token with the scope *"), ("boss", "")):
        client.post("/console/login", data={"token": tokens[name]}, headers=SAME_ORIGIN)
        answer = client.get(f"/console/{page}")
        assert message in answer.text
        client.post("/console/logout", headers=SAME_ORIGIN)


@pytest.mark.promise("What counts over all scopes needs a token of all scopes.")
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/stats"), ("GET", "/metrics"), ("GET", "/v1/shadow"), ("POST", "/v1/shadow")],
)
def test_global_endpoints_require_all_scopes(
    client: TestClient, tokens: dict[str, str], method: str, path: str
) -> None:
    body = {"live": "primary"} if method == "POST" else None
    assert client.request(method, path, json=body, headers=bearer(tokens["own"])).status_code == 403
    assert (
        client.request(method, path, json=body, headers=bearer(tokens["boss"])).status_code == 200
    )
