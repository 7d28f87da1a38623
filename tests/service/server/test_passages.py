"""Passages over HTTP: the answers of the library, in both clients' form, with its limits."""

import pytest
from starlette.testclient import TestClient

import nearkin as nk
from tests.service.server.conftest import Serve, client_of

TEXT = "one two three four five six seven eight nine ten"
URL = "/v1/scopes/a/passages"


@pytest.fixture
def client(serve: Serve) -> TestClient:
    client = serve(index={"passages": "4"}, max_top=5)
    client.post("/v1/scopes/a/documents", json={"id": "one", "text": TEXT}).raise_for_status()
    return client


def test_a_text_is_answered_with_the_documents_that_share_a_passage(client: TestClient) -> None:
    answer = client.post(URL, json={"text": "So: TWO three four five, and more"})
    passage = {"start": 4, "end": 23, "stored_start": 4, "stored_end": 23, "tokens": 4}
    assert answer.json() == {
        "documents": [
            {"id": "one", "cluster": "one", "tokens": 4, "passages": [passage], "found": 1}
        ],
        "candidates": 1,
        "compared": 1,
        "complete": True,
    }
    elsewhere = client.post("/v1/scopes/b/passages", json={"text": TEXT}).json()
    assert elsewhere == {"documents": [], "candidates": 0, "compared": 0, "complete": True}
    assert client.get("/v1/spec").json()["passages"] == 4


def test_clients_return_the_results_of_the_library(client: TestClient) -> None:
    caller = client_of(client)
    found = caller.passages("a", f"well, {TEXT}", 3)
    assert isinstance(found, nk.index_types.PassageMatches)
    assert found.documents[0].passages == (nk.index_types.MatchedPassage(6, 54, 0, 48, 10),)
    assert caller.spec().passages == 4


def test_requests_beyond_the_limits_are_refused(client: TestClient, serve: Serve) -> None:
    assert client.post(URL, json={"text": TEXT, "top": 6}).status_code == 422
    assert client.post(URL, json={"text": TEXT, "top": 0}).status_code == 422
    assert client.post(URL, json={}).status_code == 422
    without = serve()
    refused = without.post(URL, json={"text": TEXT})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
    assert "created without" in refused.json()["detail"]
    assert "passages" not in without.get("/v1/spec").json()
