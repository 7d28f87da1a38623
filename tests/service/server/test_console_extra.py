"""Tests of a server without the library of the console."""

import logging
import sys
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

HINT = 'the console requires itsdangerous; run pip install ".[console]" in your clone of nearkin'


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the library of sessions, and the modules that have imported it."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "itsdangerous" or name.startswith(
            "nearkin.service.server.console"
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "itsdangerous", None)


@pytest.mark.usefixtures("without_library")
def test_server_without_library_has_the_api_and_says_what_the_console_needs(
    serve: Callable[..., TestClient], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "nearkin.server"):
        client = serve()
    for path in ("/console", "/console/live"):
        answer = client.get(path)
        assert answer.status_code == 404
    assert HINT in client.get("/console").json()["detail"]
    assert client.get("/v1/spec").status_code == 200
    assert [one.reason for one in caplog.records if hasattr(one, "reason")] == [HINT]  # type: ignore[attr-defined]
