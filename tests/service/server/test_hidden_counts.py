"""Routes hide from all but administrators how nearly two documents share a bucket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.api_operations import TEXT, example_request, operations
from tests.service.server.conftest import Serve

HIDDEN = frozenset({"agreeing", "estimate", "shared_bands", "signature"})
"""The members of answers that tell it, or from which it can be computed."""
RIGHTS = {"reader": ("read",), "writer": ("read", "write"), "boss": ("admin",)}
SCOPE = "/v1/scopes/shop"
FAR = f"{TEXT.format('town')} where nobody went"
"""A text whose similarity is just below the threshold."""


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of all members of a JSON value, nested ones included."""
    if isinstance(value, dict):
        yield from value.items()
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from members(item)


def shown_counts(answer: str) -> set[str]:
    """Returns the hidden members that an answer shows. It may consist of several lines."""
    lines = [line for line in answer.splitlines() if line.startswith(("{", "["))]
    return {
        name
        for line in lines
        for name, value in members(json.loads(line))
        if name in HIDDEN and value is not None
    }


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The headers of tokens, by name."""
    file = TokenFile(tmp_path / "tokens.json")
    made = {name: file.create(Principal(name, ("*",), rights)) for name, rights in RIGHTS.items()}
    return {name: {"authorization": f"Bearer {token}"} for name, token in made.items()}


@pytest.fixture
def client(serve: Serve, tmp_path: Path, tokens: dict[str, dict[str, str]]) -> TestClient:
    """A server with two similar documents."""
    bands = {"bands": "64", "rows": "1"}  # documents that are far apart share some
    client = serve(tokens=tmp_path / "tokens.json", index={"passages": "4", **bands})
    store_documents(client, tokens["boss"])
    return client


def store_documents(client: TestClient, headers: dict[str, str]) -> None:
    """Stores the two documents of the examples."""
    for id, word in (("one", "woods"), ("two", "valley")):
        body = {"id": id, "text": TEXT.format(word)}
        client.post(f"{SCOPE}/documents", json=body, headers=headers).raise_for_status()


def test_no_route_shows_how_nearly_a_search_misses(
    client: TestClient, tokens: dict[str, dict[str, str]]
) -> None:
    shown: dict[str, set[str]] = {who: set() for who in RIGHTS}
    requests: tuple[tuple[str, Any], ...] = (
        (f"{SCOPE}/query", {"text": TEXT.format("town"), "members": True}),
        (f"{SCOPE}/near-misses", {"text": FAR}),
        ("/v1/explain", {"scope": "shop", "a": "one", "b": "two"}),
    )
    asked = 0
    for who, headers in tokens.items():
        # the last examples deleted them
        store_documents(client, tokens["boss"])
        for path, body in requests:
            answer = client.post(path, json=body, headers=headers)
            assert answer.is_success, path
            assert any(answer.json().values()), path
            shown[who] |= shown_counts(answer.text)
        for method, path, operation in operations(client):
            answer = client.request(method, **example_request(path, operation), headers=headers)
            asked += answer.is_success
            shown[who] |= shown_counts(answer.text)
    assert asked > len(tokens)
    store_documents(client, tokens["boss"])
    assert shown == {"reader": set(), "writer": set(), "boss": {*HIDDEN} - {"signature"}}
    answer = client.get(f"{SCOPE}/documents/one?include=signature", headers=tokens["boss"])
    assert shown_counts(answer.text) == {"signature"}
    for who in ("reader", "writer"):
        answer = client.get(f"{SCOPE}/documents/one?include=signature", headers=tokens[who])
        assert answer.status_code == 403


def test_answers_to_streams_do_not_show_it(
    client: TestClient, tokens: dict[str, dict[str, str]]
) -> None:
    lines = [{"id": "three", "text": FAR}, {"id": "four", "text": TEXT.format("town")}]
    answer = client.post(
        f"{SCOPE}/documents",
        content="\n".join(map(json.dumps, lines)),
        headers={**tokens["writer"], "content-type": "application/x-ndjson"},
    )
    assert [json.loads(line)["line"] for line in answer.text.splitlines()] == [1, 2]
    assert shown_counts(answer.text) == set()


def test_bands_of_vectors_are_hidden_like_those_of_texts(
    serve: Serve, tmp_path: Path, tokens: dict[str, dict[str, str]]
) -> None:
    client = serve(
        tokens=tmp_path / "tokens.json",
        index={"vector_dimensions": "3", "vector_threshold": "0.9", "threshold": "0.7"},
    )
    for id, word, last in (("one", "woods", 3.0), ("two", "valley", 3.1)):
        body = {"id": id, "text": TEXT.format(word), "vector": [1.0, 2.0, last]}
        client.post(f"{SCOPE}/documents", json=body, headers=tokens["boss"]).raise_for_status()
    pair = {"scope": "shop", "a": "one", "b": "two"}
    query = {"text": TEXT.format("town"), "vector": [1.0, 2.0, 3.2]}
    for who, headers in tokens.items():
        explained = client.post("/v1/explain", json=pair, headers=headers)
        found = client.post(f"{SCOPE}/query", json=query, headers=headers)
        assert (explained.json()["vectors"]["shared_bands"] is None) == (who != "boss")
        assert bool(shown_counts(explained.text) & shown_counts(found.text)) == (who == "boss")
        assert who == "boss" or not shown_counts(explained.text) | shown_counts(found.text)
