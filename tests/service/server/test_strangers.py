"""Requests without a token cost little work."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.service.server.console import assets, mount
from nearkin.service.server.http.middleware import METHODS
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve

READER = Principal("one", ("*",), ("read", "write"))


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> TestClient:
    TokenFile(tmp_path / "tokens.json").create(READER)
    return serve()


def scripts(client: TestClient) -> list[str]:
    """Returns the addresses of all scripts of a page, which need no token."""
    console = next(
        route.app for route in client.app.routes if getattr(route, "path", "") == "/console"
    )  # type: ignore
    return re.findall(r'src="([^"]*)"', console._dash._generate_scripts_html())


def test_scripts_are_compressed_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed: list[int] = []
    compress = gzip.compress

    def counting(content: bytes, *arguments: Any, **fields: Any) -> bytes:
        compressed.append(len(content))
        return compress(content, *arguments, **fields)

    monkeypatch.setattr(assets.gzip, "compress", counting)
    addresses = [
        *scripts(client),
        "/console/_dash-component-suites/plotly/package_data/plotly.min.js",
    ]
    for _ in range(3):
        for address in addresses:
            answer = client.get(address)
            assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip"), (
                address
            )
            assert len(answer.content) > 1000
    assert len(compressed) == len(addresses)


def test_browsers_may_cache_scripts(client: TestClient) -> None:
    script, plain = (
        scripts(client)[0],
        "/console/_dash-component-suites/plotly/package_data/plotly.min.js",
    )
    first = client.get(script)
    assert first.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert client.get(plain).headers["cache-control"] == "public, no-cache"
    again = client.get(script, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    whole = client.get(script, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in whole.headers
    assert whole.content == first.content


@pytest.mark.parametrize(
    "path",
    [
        "dash/nope.js",
        "dash/../../etc/passwd",
        "os/path.py",
        "nearkin/service/server/http/tokens.py",
        "dash/dcc/async-graph.js.map",
        "dash",
        "",
    ],
)
def test_only_files_of_pages_are_served(client: TestClient, path: str) -> None:
    answer = client.get(f"/console/_dash-component-suites/{path}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "no-such-path"


def test_sign_in_page_and_api_description_are_rendered_once(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/console/login", "/openapi.json"):
        assert client.get(path).status_code == 200
    monkeypatch.setattr(mount, "Environment", None)
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
        scripts(client)[0],
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
