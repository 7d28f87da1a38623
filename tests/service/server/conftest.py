"""Servers in this process, whose files are in the temporary folder of the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

import nearkin as nk
from nearkin.service.server.app import create_app
from nearkin.service.server.settings import ServerSettings
from tests.services import wait_until, write_key

Serve = Callable[..., TestClient]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server with some settings and waits until it is ready."""
    with serve_in(tmp_path) as start:
        yield start


@contextmanager
def serve_in(folder: Path) -> Iterator[Serve]:
    """Starts servers whose files are in a folder, and ends them."""
    with ExitStack() as stack:

        def start(**settings: Any) -> TestClient:
            write_key(folder / "key")
            paths = {"key_file": str(folder / "key"), "tokens": folder / "tokens.json"}
            fields = {"store": "memory://", "source_rate": "1000000/second", **paths, **settings}
            app = create_app(ServerSettings.read(**fields))
            client = stack.enter_context(
                TestClient(app, "http://localhost", raise_server_exceptions=False)
            )
            wait_until(lambda: client.get("/readyz").status_code == 200, "the server is ready", 120)
            return client

        yield start


def client_of(server: TestClient) -> nk.Client:
    """Returns a client of the library whose requests go to a server in this process."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.raw_path.decode()
        found = server.request(
            request.method, path, content=request.content, headers=dict(request.headers)
        )
        return httpx2.Response(
            found.status_code, headers=dict(found.headers), content=found.content
        )

    return nk.Client("http://localhost", transport=httpx2.MockTransport(answer))
