"""Tests of `/readyz`, which checks the stores at most once a second."""

import asyncio

import pytest
from starlette.testclient import TestClient

from nearkin.errors import StoreError
from nearkin.service.server.readiness import Readiness
from tests.service.server.conftest import Serve


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve()


def test_readiness_checks_the_store_once_a_second(client: TestClient) -> None:
    service = client.app.state.service  # type: ignore[attr-defined]
    checks: list[int] = []
    now = [100.0]

    async def ask() -> None:
        checks.append(len(checks))

    client.app.state.readiness = Readiness(ask, lambda: now[0])  # type: ignore[attr-defined]
    for _ in range(20):
        assert client.get("/readyz").status_code == 200
    assert len(checks) == 1
    now[0] += 1.0
    assert client.get("/readyz").status_code == 200
    assert len(checks) == 2
    assert service.ready


def test_readiness_does_not_wait_for_a_store_that_hangs(client: TestClient) -> None:
    checks: list[asyncio.Event] = []

    async def hang() -> None:
        checks.append(asyncio.Event())
        await checks[0].wait()

    client.app.state.readiness = Readiness(hang, deadline=0.0)  # type: ignore[attr-defined]
    for _ in range(2):
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
    assert len(checks) == 1


def test_store_failure_is_reported_and_retried(client: TestClient) -> None:
    now = [100.0]
    answers = [StoreError("down"), None]
    checks: list[StoreError | None] = []

    async def ask() -> None:
        checks.append(answers[len(checks)])
        if checks[-1] is not None:
            raise checks[-1]

    client.app.state.readiness = Readiness(ask, lambda: now[0])  # type: ignore[attr-defined]
    assert [client.get("/readyz").json().get("code") for _ in range(5)] == ["store-unavailable"] * 5
    now[0] += 1.0
    assert client.get("/readyz").json() == {"status": "ready"}
    assert len(checks) == 2
