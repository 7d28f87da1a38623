"""Requests without a token cost little work."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.console import mount
from nearkin.service.server.http.middleware import METHODS
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve

READER = Principal("one", ("*",), ("read", "write"))


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> TestClient:
    TokenFile(tmp_path / "tokens.json").create(READER)
    return serve()


def test_browsers_may_cache_files(client: TestClient) -> None:
    answer = client.get("/console/static/console.js?v=1")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        "nope.js",
        "../../etc/passwd",
        "mount.py",
        "../templates/login.html",
        "login.html",
        "",
    ],
)
def test_only_files_of_pages_are_served(client: TestClient, path: str) -> None:
    answer = client.get(f"/console/static/{path}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "no-such-path"


def test_sign_in_page_and_api_description_are_rendered_once(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/console/login", "/openapi.json"):
        assert client.get(path).status_code == 200
    monkeypatch.setattr(mount, "render", None)
    monkeypatch.setattr("nearkin.service.server.app.describe_api", None)
    for path in ("/console/login", "/openapi.json"):
        assert client.get(path).status_code == 200


def test_unauthenticated_requests_have_a_rate(serve: Serve, tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "tokens.json").create(READER)
    client = serve(anonymous_rate="3/hour")
    paths = (
        "/console/login",
        "/console/static/console.css",
        "/openapi.json",
        "/console/static/console.js",
        "/console/login",
    )
    assert [client.get(path).status_code for path in paths] == [200, 200, 200, 429, 429]
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200, (
        "probes are not counted"
    )
    header = {"authorization": f"Bearer {token}"}
    assert client.get("/v1/spec", headers=header).status_code == 200, (
        "nor are requests with a token"
    )


def test_unknown_methods_share_one_label(client: TestClient) -> None:
    for at in range(5):
        client.request(f"MADEUP{at}", "/v1/spec")
    registry = client.app.state.exposition.registry  # type: ignore[attr-defined]
    methods = {
        sample.labels["method"]
        for found in registry.collect()
        for sample in found.samples
        if "method" in sample.labels
    }
    assert methods <= {*METHODS, "(other)"}
    assert "(other)" in methods
