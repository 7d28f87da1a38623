"""Requests without a token are answered before the application sees them."""

from pathlib import Path

import pytest
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from nearkin.service.server.http.problems import SECURITY_HEADERS
from nearkin.service.server.http.rates import RateLimiter
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.service.server.conftest import Serve

REQUESTS = [
    ("GET", "/healthz", 200),
    ("GET", "/healthz?" + "%41=%42&" * 90, 200),
    ("HEAD", "/healthz", 200),
    ("GET", "/readyz?a=b", 200),
    ("GET", "/docs", 200),
    ("GET", "/docs.js", 200),
    ("GET", "/openapi.json", 200),
    ("GET", "/", 307),
    ("GET", "/console", 307),
    ("GET", "/console/", 303),
    ("GET", "/console/review?scope=a", 303),
    ("GET", "/console/login", 200),
    ("GET", "/console/static/console.css", 200),
    ("GET", "/console/static/console.js", 200),
    ("GET", "/console/unknown", 404),
    ("POST", "/console/", 403),
    ("POST", "/console/try", 403),
    ("GET", "/v1/spec", 401),
    ("GET", "/v1/unknown", 401),
    ("POST", "/v1/scopes/a/documents", 401),
    ("PUT", "/v1/scopes/a/documents/1", 401),
    ("MADEUP", "/v1/spec", 401),
    ("GET", "/metrics", 401),
    ("GET", "/unknown", 404),
    ("GET", "/docs/", 404),
    ("POST", "/healthz", 405),
    ("DELETE", "/docs", 405),
]


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that have entered the application."""
    paths = list[str]()
    really = Router.__call__

    async def counting(router: Router, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            paths.append(scope["path"])
        await really(router, scope, receive, send)

    monkeypatch.setattr(Router, "__call__", counting)
    return paths


def create_token(folder: Path) -> str:
    return TokenFile(folder / "tokens.json").create(Principal("one", ("*",), ("read", "write")))


@pytest.mark.promise("Requests without a token are refused before the application sees them.")
def test_requests_without_a_token_do_not_enter_the_application(
    serve: Serve, tmp_path: Path, entered: list[str]
) -> None:
    token = create_token(tmp_path)
    client = serve()
    wrong = {"authorization": "Bearer nk_one_" + "x" * 43, "cookie": "nearkin-session=a; b=c"}
    for method, path, status in REQUESTS:
        for headers in ({}, wrong) if status != 401 else ({},):
            answer = client.request(method, path, headers=headers, follow_redirects=False)
            assert answer.status_code == status, (method, path)
            missing = {name.decode() for name, _ in SECURITY_HEADERS} - {*answer.headers}
            assert not missing, (method, path)
    assert entered == []
    assert client.get("/v1/spec", headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert entered == ["/v1/spec"]


@pytest.mark.promise("Every request without a token counts towards the rate of its address.")
def test_every_request_without_a_token_is_counted(serve: Serve, tmp_path: Path) -> None:
    token = create_token(tmp_path)
    client = serve()
    authenticator = client.app.state.authenticator  # type: ignore[attr-defined]
    authenticator.unauthenticated_rate = "1/hour"
    for method, path, status in REQUESTS:
        authenticator._local_rates = RateLimiter("memory://")
        is_probe = path.startswith(("/healthz", "/readyz"))
        for expected in (status, status if is_probe else 429):
            answer = client.request(method, path, follow_redirects=False)
            assert answer.status_code == expected, (method, path)
    assert client.get("/v1/spec", headers={"authorization": f"Bearer {token}"}).status_code == 200


def test_allowed_methods_are_named(serve: Serve) -> None:
    assert serve().post("/docs").headers["allow"] == "GET, HEAD"


@pytest.mark.promise("What needs no token is rendered once.")
@pytest.mark.parametrize("path", ["/docs", "/docs.js", "/openapi.json"])
def test_pages_are_rendered_once(serve: Serve, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve()
    first = client.get(path)
    monkeypatch.setattr("nearkin.service.server.app.describe_api", None)
    monkeypatch.setattr("nearkin.service.server.app.render_docs", None)
    monkeypatch.setattr("nearkin.service.server.app.read_script", None)
    assert client.get(path).content == first.content


@pytest.mark.promise("What needs no token is read once, also without compression.")
def test_files_without_compression_are_read_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve()
    plain = {"accept-encoding": "identity"}
    path = "/console/static/console.js"
    first = client.get(path, headers=plain)
    monkeypatch.setattr("nearkin.service.server.console.mount.Path.read_bytes", None)
    assert client.get(path, headers=plain).content == first.content
