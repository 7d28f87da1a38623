"""A server, and both clients behind one interface so that each test asks both."""

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

import nearkin as nk
from tests.services import nearkin_server

SHORT_RETRIES = nk.index_types.Retries(attempts=4, first=0.001, longest=0.01)
CAT = "the cat sat on the mat and looked at the moon"
ClientMaker = Callable[..., Any]
DONE = {
    "kind": "new",
    "layer": "search",
    "id": "a",
    "cluster": "a",
    "representative": "a",
    "similarity": 1.0,
    "later": 1,
}
"""An outcome with a member that this version of the client does not know."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nearkin_server(
        tmp_path_factory.mktemp("served"), "--store", "memory://", "--batch", "16"
    ) as found:
        yield found


class BlockingAsyncClient:
    """An AsyncClient whose methods block until they are done."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.inner = nk.AsyncClient(*arguments, **fields)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **fields: Any) -> Any:
            result = getattr(self.inner, name)(*arguments, **fields)
            return self.loop.run_until_complete(
                result if inspect.isawaitable(result) else _collect(result)
            )

        return call


async def _collect(values: Any) -> list[Any]:
    return [value async for value in values]


@pytest.fixture(params=["sync", "async"])
def make_client(request: pytest.FixtureRequest) -> Iterator[ClientMaker]:
    """Returns a function that opens a client of each kind; all are closed at the end."""
    clients: list[Any] = []

    def build(*arguments: Any, **fields: Any) -> Any:
        kind = nk.Client if request.param == "sync" else BlockingAsyncClient
        clients.append(kind(*arguments, **fields))
        return clients[-1]

    yield build
    for client in clients:
        client.close()
        if isinstance(client, BlockingAsyncClient):
            client.loop.close()


@pytest.fixture
def client(make_client: ClientMaker, address: str) -> Any:
    return make_client(address)


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> str:
    # a scope is a segment of a path, in which the server accepts no slash
    return f"scope of {request.node.name}?".replace("/", " ")


def texts(count: int, seed: int) -> list[str]:
    """Returns texts of twelve random words.

    Args:
        count: Number of texts.
        seed: Seed of the words.
    """
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{number}" for number in rng.integers(0, 10**6, 12)) for _ in range(count)]


class ScriptedServer:
    """A transport that gives prepared responses one after the other, and records requests.

    Args:
        *responses: Responses, or errors of the connection that are raised.
    """

    def __init__(self, *responses: "httpx2.Response | Exception") -> None:
        self._responses = list(responses)
        self.requests: list[tuple[float, httpx2.Request]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append((time.monotonic(), request))
        response = self._responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    @property
    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self)


def problem(status: int, code: str, **headers: str) -> httpx2.Response:
    """Returns the response of a server that refuses a request."""
    return httpx2.Response(
        status, json={"code": code, "detail": "why", "status": status}, headers=headers
    )


def lines_of(*rows: dict[str, Any]) -> httpx2.Response:
    """Returns a response in JSON lines."""
    return httpx2.Response(200, content=b"".join(json.dumps(row).encode() + b"\n" for row in rows))
