"""A server with documents in two scopes, and every request for its routes and pages."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.index.migration import cutover
from nearkin.service.server.console.mount import NAVIGATION
from nearkin.service.server.http.tokens import RIGHTS, Principal, TokenFile
from tests.service.server.conftest import Serve, serve_in
from tests.service.server.console.pages import AUDIT, SAME_ORIGIN

OWN, OTHER = "own-scope", "zebra-scope"
OWN_ID, OTHER_ID = "own-id", "quagga-id"
OWN_WORD, OTHER_WORD = "aardvark", "okapi"
SHARED = " ".join(f"word{at}" for at in range(60))
COPIES = 40
"""Enough documents in one bucket for the page of hot buckets to show it."""
SCOPES, IDS = (OWN, OTHER), (OWN_ID, OTHER_ID)
TEXTS = (f"{OWN_WORD} {SHARED}", SHARED)
BODIES: dict[str, list[Any]] = {
    "POST /v1/scopes/{scope}/documents": [
        {"id": "new", "text": TEXTS[0]},
        {"text": SHARED},
        {"id": "\x1f", "text": "x"},
        {},
    ],
    "POST /v1/scopes/{scope}/query": [
        {"text": text, "top": 100, "members": members}
        for text in TEXTS
        for members in (False, True)
    ]
    + [{"text": ""}, {}],
    "POST /v1/scopes/{scope}/near-misses": [*({"text": text, "top": 100} for text in TEXTS), {}],
    "POST /v1/scopes/{scope}/passages": [*({"text": text, "top": 100} for text in TEXTS), {}],
    "PATCH /v1/scopes/{scope}/documents/{id}": [{"text": SHARED}],
    "POST /v1/scopes/{scope}/decisions": [
        {"decisions": [{"id_a": "new", "id_b": other, "decision": "different"}]}
        for other in ("other", "new")
    ],
    # no documents of its own, so that there is something to learn afterwards
    "POST /v1/scopes/{scope}/removals": [{"ids": [OTHER_ID, "unknown"]}, {"ids": []}, {}],
    "POST /v1/scopes/{scope}/documents/{id}:close": [None],
    "PUT /v1/scopes/{scope}": [{"max_documents": 10**6}, {}],
    "POST /v1/query": [
        *({"scopes": scopes, "text": SHARED, "top": 100} for scopes in ([OWN], [OTHER], SCOPES)),
        {"scopes": [], "text": SHARED},
        {},
    ],
    "POST /v1/explain": [
        {"scope": scope, "a": a, "b": b} for scope in SCOPES for a in IDS for b in IDS
    ],
    "POST /v1/tune": [{}, {"threshold": 0.99, "recall": 0.999, "k": 8}],
    "POST /v1/shadow": [{"live": "shadow"}, {"live": "primary"}],
}
"""Bodies by route. A new route with a body must be added here."""
QUERIES: dict[str, list[str]] = {
    "GET /v1/scopes/{scope}/documents/{id}": ["", "?include=signature"],
    "GET /v1/scopes/{scope}/clusters/{id}": ["", "?start=1&limit=1"],
    "GET /v1/scopes/{scope}/decisions": ["", "?limit=1"],
    "GET /v1/changes": [
        *("", "?after=now", "?after=x", f"?id={OTHER_ID}"),
        *(f"?scope={scope}" for scope in SCOPES),
    ],
    "GET /v1/scopes/{scope}/clusters": [
        "",
        "?order=newest&limit=1",
        "?cursor=0",
        "?cursor=999999999",
        "?cursor=x",
    ],
}
PAGES = ("", "live", "try", "clusters", "review", "tuning", "buckets", "shadow", "audit")
PAGE_QUERIES = [
    "",
    *(f"?scope={scope}" for scope in SCOPES),
    *(f"?scope={scope}&id={id}" for scope in SCOPES for id in IDS),
]
SENT: dict[str, dict[str, list[str]]] = {
    "live": {},
    "try": {"scope": SCOPES, "text": TEXTS},
    "clusters": {"scope": SCOPES, "text": [*TEXTS, *IDS, "word", OTHER_WORD]},
    "review": {
        "answer": ["same"],
        "state": [
            json.dumps(
                {"scope": scope, "pairs": [[OWN_ID, f"{OWN_ID}-2"], list(IDS)], "position": 0}
            )
            for scope in SCOPES
        ],
    },
    "tuning": {
        "scope": SCOPES,
        "threshold": ["0.8"],
        "recall": ["0.9", "2"],
        "k": ["128"],
        "size": ["2", "1000000"],
    },
}
"""The values that forms of the console send, by page. A new form must be added here."""


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two-scopes")


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[str, str]:
    token_file = TokenFile(folder / "tokens.json")
    every = {"boss": Principal("boss", ("*",), RIGHTS), "own": Principal("own", (OWN,), RIGHTS)}
    return {name: token_file.create(principal) for name, principal in every.items()}


@pytest.fixture(scope="module")
def client(tokens: dict[str, str], folder: Path) -> Iterator[TestClient]:
    """A server with everything that it can show: golden pairs, a shadow, an audit, full buckets in
    two scopes."""
    with serve_in(folder) as serve, pytest.MonkeyPatch.context() as patches:
        # switches wait for other processes to see them, and here there are none
        patches.setattr(cutover, "REFRESH_SECONDS", 0.1)
        yield fill_server(serve, tokens, folder)


def fill_server(serve: Serve, tokens: dict[str, str], folder: Path) -> TestClient:
    (folder / "golden.jsonl").write_text(
        json.dumps({"a": f"{OTHER_WORD} {SHARED}", "b": SHARED}) + "\n"
    )
    (folder / "audit.json").write_text(json.dumps(AUDIT))
    second = {
        "shadow_store": f"sqlite:///{folder}/shadow.db",
        "shadow_bands": 32,
        "shadow_rows": 4,
    }
    client = serve(
        store=f"sqlite:///{folder}/first.db",
        index={"postings": "all", "passages": "4", "history": "1000000"},
        golden=folder / "golden.jsonl",
        audit=folder / "audit.json",
        **second,
    )
    for scope, id, word in ((OWN, OWN_ID, OWN_WORD), (OTHER, OTHER_ID, OTHER_WORD)):
        for at in range(COPIES):
            new = {"id": f"{id}-{at}" if at else id, "text": f"{word} {SHARED} end{at}"}
            client.post(
                f"/v1/scopes/{scope}/documents", json=new, headers=bearer(tokens["boss"])
            ).raise_for_status()
        same = {"decisions": [{"id_a": id, "id_b": f"{id}-1", "decision": "same"}]}
        client.post(
            f"/v1/scopes/{scope}/decisions", json=same, headers=bearer(tokens["boss"])
        ).raise_for_status()
    return client


def every_route(client: TestClient, token: str) -> Iterator[tuple[str, str]]:
    """Asks every operation of the description for both scopes.

    Yields the request and the answer with its headers.
    """
    operations = [
        (method.upper(), path)
        for path, found in client.get("/openapi.json").json()["paths"].items()
        for method in found
    ]
    # what deletes comes last, so that there is something to learn until then
    for method, path in sorted(operations, key=lambda operation: operation[0] == "DELETE"):
        route = f"{method} {path}"
        bodies = BODIES[route] if method in ("POST", "PATCH", "PUT") else [None]
        places = itertools.product(
            SCOPES if "{scope}" in path else [""], IDS if "{id}" in path else [""]
        )
        for (scope, id), query, body in itertools.product(places, QUERIES.get(route, [""]), bodies):
            if (scope, id) == (OWN, OTHER_ID) and (method == "PATCH" or path.endswith(":close")):
                # it would create a document of that id in its own scope, which later answers name
                continue
            address = path.format(scope=scope, id=id) + query
            answer = client.request(method, address, json=body, headers=bearer(token))
            assert answer.status_code != 500, (route, answer.text)
            yield (
                f"{method} {address} {json.dumps(body)}",
                f"{answer.status_code} {answer.headers} {answer.text}",
            )


def every_form(client: TestClient, token: str) -> Iterator[tuple[str, str]]:
    """Opens every page of the console with every query, and sends every form with all values."""
    client.post("/console/login", data={"token": token}, headers=SAME_ORIGIN).raise_for_status()
    assert {page.path for page in NAVIGATION if page.answer is not None} == set(SENT)
    for page, query in itertools.product(PAGES, PAGE_QUERIES):
        answer = client.get(f"/console/{page}{query}")
        yield f"/console/{page}{query}", f"{answer.status_code} {answer.headers} {answer.text}"
    for page, fields in SENT.items():
        for combination in itertools.product(*fields.values()):
            values = dict(zip(fields, combination, strict=True))
            answer = client.post(f"/console/{page}", json=values, headers=SAME_ORIGIN)
            request = f"/console/{page} {json.dumps(values)}"
            yield request, f"{answer.status_code} {answer.headers} {answer.text}"
