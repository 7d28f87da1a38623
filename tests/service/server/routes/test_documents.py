"""Documents, queries and clusters over HTTP."""

import itertools
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.http.middleware import RequestMiddleware
from nearkin.settings.keys import HashKey
from tests.service.server.conftest import Serve
from tests.services import KEY

CAT = "the cat sat on the mat"
URL = "/v1/scopes/a/documents"


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve()


def test_upsert_returns_outcome(client: TestClient) -> None:
    first = client.post(URL, json={"id": "one", "text": CAT}).json()
    assert (first["kind"], first["representative"], first["duplicate"]) == ("new", "one", False)
    second = client.post(URL, json={"id": "two", "text": f"{CAT} today"}).json()
    assert (second["kind"], second["representative"], second["similarity"]) == ("match", "one", 0.8)
    again = client.post(URL, json={"id": "two", "text": f"{CAT} today"}).json()
    assert (again["kind"], again["layer"]) == ("resolved", "memory")
    assert client.post(URL, json={"id": "one", "text": CAT}).json()["kind"] == "exact"
    assert (
        client.post(
            URL, json={"id": "two", "text": "something else entirely, with other words"}
        ).json()["kind"]
        == "updated"
    )


def test_id_is_derived_from_content_by_default(client: TestClient) -> None:
    made = client.post(URL, json={"text": CAT}).json()["id"]
    assert client.post(URL, json={"text": CAT}).json()["id"] == made
    assert client.get(f"{URL}/{made}").json()["text"] == CAT


def test_documents_are_read_and_deleted(client: TestClient) -> None:
    client.post(URL, json={"id": "one", "text": CAT})
    response = client.get(f"{URL}/one").json()
    assert response["cluster"] == "one"
    assert response["signature"] is None
    assert client.get(f"{URL}/one", params={"include": "signature"}).json()["signature"]
    assert client.delete(f"{URL}/one").status_code == 204
    assert client.get(f"{URL}/one").status_code == 404
    assert client.delete(f"{URL}/one").status_code == 404


def test_queries_write_nothing(client: TestClient) -> None:
    client.post(URL, json={"id": "one", "text": CAT})
    found = client.post("/v1/scopes/a/query", json={"text": f"{CAT} today", "top": 5}).json()[
        "matches"
    ]
    assert [(match["id"], match["similarity"]) for match in found] == [("one", 0.8)]
    assert client.get("/v1/stats").json()["records"] == 1


def test_clusters_are_found_by_id_and_listed_in_order(client: TestClient) -> None:
    for at in range(3):
        client.post(URL, json={"id": f"cat{at}", "text": CAT})
    client.post(URL, json={"id": "dog", "text": "a dog lay on a rug all day"})
    response = client.get("/v1/scopes/a/clusters/cat2").json()
    assert (response["id"], response["size"], len(response["members"])) == ("cat0", 3, 3)
    page = client.get("/v1/scopes/a/clusters/cat2", params={"start": 1, "limit": 1}).json()
    assert [member["id"] for member in page["members"]] == ["cat1"]
    largest = client.get("/v1/scopes/a/clusters", params={"limit": 1}).json()
    assert [(head["id"], head["size"]) for head in largest["clusters"]] == [("cat0", 3)]
    rest = client.get(
        "/v1/scopes/a/clusters", params={"limit": 1, "cursor": largest["next"]}
    ).json()
    assert ([head["id"] for head in rest["clusters"]], rest["next"]) == (["dog"], None)
    newest = client.get("/v1/scopes/a/clusters", params={"order": "newest"}).json()
    assert newest["clusters"][0]["id"] == "dog"
    assert client.get("/v1/scopes/a/clusters/nobody").status_code == 404


def pages_of(
    client: TestClient, path: str, limit: int, between: Callable[[int], object], **params: str
) -> list[str]:
    """Returns the ids that the pages of a listing show, with something done between each two."""
    ids: list[str] = []
    cursor: str | None = "0"
    for number in itertools.count():
        if cursor is None:
            break
        page = client.get(path, params={"limit": limit, "cursor": cursor, **params}).json()
        ids += [
            row["representative" if "clusters" in page else "id"]
            for row in page.get("clusters", page.get("members"))
        ]
        cursor = page["next"]
        between(number)
    return ids


def texts_apart(count: int) -> list[str]:
    return [" ".join(f"w{number}x{at}" for at in range(12)) for number in range(count)]


@pytest.mark.parametrize("order", ["newest", "largest"])
def test_cluster_pages_neither_skip_nor_repeat_clusters(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """The list is counted again before each page, as another worker would.

    Clusters come and go between the pages.
    """
    monkeypatch.setattr(
        "nearkin.service.server.cluster_listings._valid_until", lambda began, ended: began
    )
    texts = texts_apart(40)
    for number, text in enumerate(texts[:20]):
        client.post(URL, json={"id": f"d{number:02d}", "text": text})

    def between(number: int) -> None:
        client.post(URL, json={"id": f"new{number}", "text": texts[20 + number]})
        client.delete(f"{URL}/d{19 - number:02d}" if order == "newest" else f"{URL}/d{number:02d}")

    before = {f"d{number:02d}" for number in range(20)}
    shown = pages_of(client, "/v1/scopes/a/clusters", 4, between, order=order)
    assert len(shown) == len(set(shown))
    stayed = {name for name in before if client.get(f"{URL}/{name}").status_code == 200}
    assert stayed
    assert stayed <= set(shown)


def test_member_pages_list_each_member_once(client: TestClient) -> None:
    names = [f"cat{number:02d}" for number in range(20)]
    for name in names:
        client.post(URL, json={"id": name, "text": CAT})

    def between(number: int) -> None:
        for name in names[number * 3 + 1 : number * 3 + 3]:
            client.delete(f"{URL}/{name}")

    shown = pages_of(client, "/v1/scopes/a/clusters/cat00", 3, between)
    assert len(shown) == len(set(shown))
    assert {name for name in names if client.get(f"{URL}/{name}").status_code == 200} <= set(shown)


def test_changed_cursors_and_cursors_of_other_listings_are_rejected(client: TestClient) -> None:
    for scope in ("a", "b"):
        for number, text in enumerate([*texts_apart(3), *texts_apart(1)]):
            client.post(f"/v1/scopes/{scope}/documents", json={"id": f"d{number}", "text": text})
    clusters, members = "/v1/scopes/a/clusters", "/v1/scopes/a/clusters/d0"
    of_clusters = client.get(clusters, params={"limit": 1}).json()["next"]
    of_members = client.get(members, params={"limit": 1}).json()["next"]
    assert client.get(clusters, params={"cursor": of_clusters}).status_code == 200
    assert client.get(members, params={"cursor": of_members}).status_code == 200
    changed = ("B" if of_clusters[4] == "A" else "A").join((of_clusters[:4], of_clusters[5:]))
    for path, params in (
        (clusters, {"cursor": of_members}),
        (members, {"cursor": of_clusters}),
        (clusters, {"cursor": of_clusters, "order": "newest"}),
        (clusters.replace("/a/", "/b/"), {"cursor": of_clusters}),
        (members.replace("/a/", "/b/"), {"cursor": of_members}),
        *(
            (path, {"cursor": cursor})
            for path in (clusters, members)
            for cursor in (changed, of_clusters[:-3], "1", "é", "a" * 99)
        ),
    ):
        answer = client.get(path, params=params)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
        assert "start again" in answer.json()["detail"]


def test_explanation_tuning_and_spec_are_returned(client: TestClient) -> None:
    client.post(URL, json={"id": "one", "text": CAT})
    client.post(URL, json={"id": "two", "text": f"{CAT} today"})
    why = client.post("/v1/explain", json={"scope": "a", "a": "one", "b": "two"}).json()
    assert why["similarity"] == 0.8
    points = client.post("/v1/tune", json={"threshold": 0.7, "recall": 0.9, "points": 3}).json()[
        "points"
    ]
    assert len(points) == 3
    assert all(point["recall"] >= 0.9 for point in points)
    facts = client.get("/v1/spec").json()
    assert facts["threshold"] == 0.8
    assert facts["spec"]["base_hash"] == "siphash", "an index that the server made is keyed"


def test_problem_names_the_fields_of_the_request(client: TestClient) -> None:
    answer = client.post("/v1/tune", json={"threshold": 0.2, "recall": 0.999999, "k": 8})
    assert answer.status_code == 422
    assert 'raise "k" or lower "recall"' in answer.json()["detail"]


def test_vectors_are_upserted_and_queried(serve: Serve) -> None:
    client = serve(kind="vector", index={"dimensions": "8", "threshold": "0.9"})
    assert client.post(URL, json={"id": "one", "vector": [1.0] * 8}).json()["kind"] == "new"
    assert (
        client.post(URL, json={"id": "two", "vector": [1.0] * 7 + [0.9]}).json()["representative"]
        == "one"
    )
    wrong = client.post(URL, json={"vector": [1.0] * 7})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-request")
    assert "8 numbers" in wrong.json()["detail"]
    assert client.post(URL, json={"text": CAT}).status_code == 422
    spec = client.get("/v1/spec").json()["spec"]
    assert spec["scheme"] == "keyed-hyperplanes", "an index that the server made is keyed"
    assert spec["key_id"] == HashKey(bytes.fromhex(KEY)).id


def test_vector_index_can_be_unkeyed(serve: Serve) -> None:
    client = serve(kind="vector", index={"dimensions": "8", "threshold": "0.9"}, keyed=False)
    assert client.get("/v1/spec").json()["spec"]["scheme"] == "hyperplanes"


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"{", 400, "not-json", None),
        (b'{"id": "one"}', 422, "invalid-request", None),
        (b'{"text": "x", "vector": [1]}', 422, "invalid-request", None),
        (b'{"txt": "x"}', 422, "invalid-request", "/txt"),
        (b'{"text": 5}', 422, "invalid-request", "/text"),
        (b'{"text": "x", "id": ""}', 422, "invalid-request", "/id"),
        (b'{"text": "x", "id": "a\\u0000b"}', 422, "invalid-request", "/id"),
        (b'{"text": "x", "id": "a\\u001fb"}', 422, "invalid-request", "/id"),
    ],
)
def test_invalid_member_is_named(
    client: TestClient, body: bytes, status: int, code: str, field: str | None
) -> None:
    answer = client.post(URL, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    )
    problem = answer.json()
    assert (problem["code"], problem.get("field"), problem["status"]) == (code, field, status)
    assert problem["type"].endswith(code)
    assert problem["instance"].endswith(answer.headers["x-request-id"])


def test_invalid_requests_are_answered_with_problems(client: TestClient) -> None:
    for answer, code in (
        (client.get("/nowhere"), "no-such-path"),
        (client.put(URL), "method-not-allowed"),
        (
            client.post(URL, content=b"x", headers={"content-type": "text/plain"}),
            "unsupported-media-type",
        ),
        (client.get("/v1/scopes/a/clusters", params={"limit": 0}), "invalid-request"),
        (client.post("/v1/scopes/%1Fserver/query", json={"text": "x"}), "invalid-request"),
    ):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == code


def test_requests_beyond_the_limits_of_size_are_rejected(serve: Serve) -> None:
    client = serve(max_body=2048, index={"max_document": "1500"})
    assert client.post(URL, json={"text": "x" * 3000}).json()["code"] == "too-large"

    def chunks():  # type: ignore[no-untyped-def]
        for _ in range(10):
            yield b" " * 1000

    assert (
        client.post(URL, content=chunks(), headers={"content-type": "application/json"}).json()[
            "code"
        ]
        == "too-large"
    )
    problem = client.post(URL, json={"text": "x" * 1600}).json()
    assert (problem["code"], "max_document" in problem["detail"]) == ("invalid-request", True)


def test_responses_have_security_headers_and_the_request_id(client: TestClient) -> None:
    mine = "0b7e3c1e-6a3c-4a57-8f0b-6d4f0c1f9a11"
    answer = client.get("/v1/spec", headers={"x-request-id": mine})
    assert answer.headers["x-request-id"] == mine
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    other = client.get("/v1/spec", headers={"x-request-id": "forged line"}).headers["x-request-id"]
    assert other != "forged line"


def test_document_arrives_in_parts(client: TestClient) -> None:
    whole = "the cat sat on the mat and looked at the dog on the rug"
    client.post(URL, json={"id": "whole", "text": whole})
    first = client.patch(
        f"{URL}/parts", json={"text": "the cat sat on the mat and looked at"}
    ).json()
    assert first["id"] == "parts"
    again = client.patch(
        f"{URL}/parts", json={"text": "the cat sat on the mat and looked at"}
    ).json()
    assert again == first
    more = client.patch(
        f"{URL}/parts", json={"tokens": ["looked", "at", "the", "dog", "on", "the", "rug"]}
    ).json()
    assert more["shingles"] > first["shingles"]
    assert client.get(f"{URL}/parts").status_code == 404
    closed = client.post(f"{URL}/parts:close").json()
    assert (closed["kind"], closed["representative"], closed["similarity"]) == (
        "match",
        "whole",
        1.0,
    )
    assert client.post(f"{URL}/parts:close").status_code == 404
    assert (
        client.patch(f"{URL}/parts", json={"text": "a", "tokens": ["a"]}).json()["code"]
        == "invalid-request"
    )


def test_ids_may_contain_slashes(client: TestClient) -> None:
    name = "https://example.org/a/b?c=d"
    client.post(URL, json={"id": name, "text": CAT})
    path = f"{URL}/{quote(name, safe='')}"
    assert client.get(path).json()["id"] == name
    assert (
        client.get(f"/v1/scopes/a/clusters/{quote(name, safe='')}").json()["representative"] == name
    )
    client.patch(f"{URL}/{quote('x/y', safe='')}", json={"text": CAT})
    assert client.post(f"{URL}/{quote('x/y', safe='')}:close").json()["representative"] == name
    assert client.delete(path).status_code == 204


def test_too_many_concurrent_requests_are_rejected(serve: Serve) -> None:
    client = serve(requests=1)
    layer: Any = client.app.middleware_stack  # type: ignore[attr-defined]
    while not isinstance(layer, RequestMiddleware):
        layer = layer.app
    layer._active_requests = 1
    refusal = client.get("/v1/spec")
    assert (refusal.status_code, refusal.json()["code"]) == (503, "busy")
    assert client.get("/healthz").status_code == 200
