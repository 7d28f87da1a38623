"""The page Review: what it offers, what it stores, and who may use it."""

import json
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.console.mount import COOKIE
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve
from tests.service.server.console.pages import SAME_ORIGIN, page_content, sent

TEXT = "the river rose two metres overnight and flooded the old mill near the bridge of the town"
RELATED = TEXT.replace("overnight", "on Monday").replace("old mill", "new school")
PAIRS = [["a", "b"], ["a", "c"]]


@pytest.fixture
def client(serve: Serve) -> TestClient:
    opened = serve(keyed=False, index={"related": "0.3", "bands": "64", "rows": "1"})
    for id, text in (("a", TEXT), ("b", TEXT + " again"), ("c", RELATED)):
        upsert(opened, id, text)
    return opened


def upsert(client: TestClient, id: str, text: str) -> str:
    answer = client.post("/v1/scopes/s/documents", json={"id": id, "text": text})
    assert answer.status_code == 200
    return str(answer.json()["representative"])


def press(client: TestClient, button: str, **state: object) -> str:
    """Presses a button of the page, and returns the response."""
    data = {"scope": "s", "pairs": PAIRS, "position": 0, **state}
    return sent(client, "review", answer=button, state=json.dumps(data))


def test_page_offers_pairs_on_both_sides_of_the_threshold(client: TestClient) -> None:
    page = unescape(page_content(client, "review?scope=s"))
    assert "2 pairs of 3 documents." in page
    assert '"pairs":[["a","b"],["a","c"]]' in page
    assert 'aria-keyshortcuts="s"' in page
    assert '"pairs":[["b","c"],["a","b"],["a","c"]]' in unescape(
        page_content(client, "review?scope=s&a=b&b=c")
    )


def test_decisions_are_stored_and_followed(client: TestClient) -> None:
    assert "Pair 2 of 2" in press(client, "different")
    assert upsert(client, "b", TEXT) == "b"
    assert "These were all pairs" in press(client, "same", position=1)
    assert upsert(client, "c", RELATED) == "a"
    assert "0 pairs" in page_content(client, "review?scope=s")
    # no pair is shown any more
    assert "These were all pairs" in press(client, "different", position=2)
    decisions = client.app.state.service.index.decisions("s")  # type: ignore[attr-defined]
    assert {one.pair: (str(one.verdict), one.by) for one in decisions} == {
        ("a", "b"): ("different", "local"),
        ("a", "c"): ("same", "local"),
    }


def test_an_unsure_answer_stores_nothing(client: TestClient) -> None:
    assert "Pair 2 of 2" in press(client, "unsure")
    assert "2 pairs" in page_content(client, "review?scope=s")


def test_a_contradiction_is_reported_and_the_pair_is_asked_again(client: TestClient) -> None:
    press(client, "same")
    press(client, "same", position=1)
    answer = press(client, "different", pairs=[["c", "b"]])
    assert "The decision was not stored" in answer
    assert "Pair 1 of 1" in answer
    assert upsert(client, "c", RELATED) == "a"


@pytest.mark.parametrize(
    "state",
    [
        {"pairs": PAIRS * 26},
        {"pairs": [["a"]]},
        {"pairs": [["a", "b\0"]]},
        {"pairs": [[1, 2]]},
        {"pairs": None},
        {"position": 3},
        {"position": -1},
        {"position": "x"},
        {"pairs": [["a", "x" * 5000]]},
        {"pairs": [["a", "\ud800"]]},
        {"position": float("inf")},
        {"scope": "\x1fdecided:x"},
        {"scope": None},
    ],
)
def test_a_state_that_no_page_sends_is_refused(
    client: TestClient, state: dict[str, object]
) -> None:
    assert 'role="alert"' in press(client, "same", **state)
    assert len(client.app.state.service.index.decisions("s")) == 0  # type: ignore[attr-defined]


def test_long_texts_are_cut(client: TestClient) -> None:
    upsert(client, "long", "word " * 100_000)
    assert len(press(client, "unsure", pairs=[["a", "b"], ["a", "long"]])) < 100_000


@pytest.mark.parametrize(
    ("rights", "scopes", "allowed"),
    [
        (("read", "write"), ("s",), True),
        (("read",), ("s",), False),
        (("write",), ("s",), False),
        (("read", "write"), ("t",), False),
        (("admin",), ("*",), True),
    ],
)
def test_answers_need_the_scope_and_the_rights_to_read_and_write(
    serve: Serve, tmp_path: Path, rights: tuple[str, ...], scopes: tuple[str, ...], allowed: bool
) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    token = tokens.create(Principal("ada", scopes, rights))
    client = serve(keyed=False, tokens=tokens.path)
    answer = client.post("/console/login", data={"token": token}, headers=SAME_ORIGIN)
    client.cookies.set(COOKIE, answer.cookies.get(COOKIE) or client.cookies[COOKIE])
    response = press(client, "same")
    decisions = client.app.state.service.index.decisions("s")  # type: ignore[attr-defined]
    assert [one.by for one in decisions] == (["ada"] if allowed else [])
    assert ("alert" in response) != allowed
    if not allowed and scopes == ("s",):
        heading = page_content(client, "review?scope=s")
        assert "Pair 1" not in heading


def test_another_site_cannot_send_answers(client: TestClient) -> None:
    values = {"answer": "same", "state": json.dumps({"scope": "s", "pairs": PAIRS, "position": 0})}
    answer = client.post("/console/review", json=values, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
