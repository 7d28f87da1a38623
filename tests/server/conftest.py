"""Servers in this process, whose files are in the temporary folder of the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.server.app import create_app
from nearkin.server.settings import ServerSettings
from tests.services import wait_until, write_key

Serve = Callable[..., TestClient]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server with some settings and waits until it is ready."""
    with ExitStack() as stack:

        def start(**settings: Any) -> TestClient:
            write_key(tmp_path / "key")
            paths = {"key_file": str(tmp_path / "key"), "tokens": tmp_path / "tokens.json"}
            fields = {"store": "memory://", "source_rate": "1000000/second", **paths, **settings}
            app = create_app(ServerSettings.read(**fields))
            client = stack.enter_context(
                TestClient(app, "http://localhost", raise_server_exceptions=False)
            )
            wait_until(lambda: client.get("/readyz").status_code == 200, "the server is ready", 120)
            return client

        yield start
