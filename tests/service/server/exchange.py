"""Requests to an application in this process.

A test decides when bytes arrive and when answers are read.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from nearkin.service.server.app import create_app
from nearkin.service.server.http.tokens import Principal, TokenFile
from nearkin.service.server.service import Service
from nearkin.service.server.settings import ServerSettings
from tests.services import write_key

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
HANG = 240.0
"""Seconds after which a test that waits for a condition is given up.

No test of the quick form takes a fraction of that.
"""


def run(test: Coroutine[Any, Any, None], hang: float | None = HANG) -> None:
    """Runs a test in an event loop, and fails if it hangs.

    Args:
        test: The test.
        hang: Seconds after which the test is given up. None if each of its steps has a limit of
            its own.
    """

    async def limited() -> None:
        async with asyncio.timeout(hang):
            await test

    asyncio.run(limited())


async def until(condition: Callable[[], object]) -> None:
    """Runs the event loop until a condition holds."""
    while not condition():
        await asyncio.sleep(0.005)


class Exchange:
    """A request and its answer.

    Args:
        app: The application.
        path: Path of the request.
        token: Token that is sent.
        kind: Content type of the body.
        length: Announced bytes of the body; None for a chunked one.
        source: Address of the client.
        method: Method of the request.
        encoding: Content encoding of the body, or None.
    """

    def __init__(
        self,
        app: ASGIApp,
        path: str,
        token: str | None = None,
        *,
        kind: str = JSON,
        length: int | None = None,
        source: str = "192.0.2.1",
        method: str = "POST",
        encoding: str | None = None,
    ) -> None:
        headers = [(b"host", b"localhost"), (b"content-type", kind.encode())]
        if encoding is not None:
            headers.append((b"content-encoding", encoding.encode()))
        if token is not None:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": (source, 50_000),
            "server": ("localhost", 80),
        }
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.reads = asyncio.Event()
        """An event that is set while the client reads its answers."""
        self.reads.set()
        self.asked = 0
        """The number of times that the server waited for bytes."""
        self.body = bytearray()
        self.headers: dict[str, str] = {}
        self.done = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        self.asked += 1
        return await self._incoming.get()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.reads.wait()
        else:
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._answer.set_result(message["status"])
        self.body += message.get("body", b"")

    @property
    def is_waiting(self) -> bool:
        """Returns whether the server has read all bytes and waits for more."""
        return self.asked > 0 and self._incoming.empty()

    def send(self, data: bytes, *, more: bool = True) -> None:
        """Sends bytes."""
        self._incoming.put_nowait({"type": "http.request", "body": data, "more_body": more})

    async def status(self) -> int:
        """Waits for the status of the answer."""
        return await asyncio.shield(self._answer)

    async def finish(self) -> bytes:
        """Waits for the end of the answer, and returns its body."""
        await self.done
        return bytes(self.body)

    async def cancel(self) -> None:
        """Ends the request, like a client that disconnects."""
        self._incoming.put_nowait({"type": "http.disconnect"})
        self.reads.set()
        await self.done


class App:
    """A running application and its tokens.

    Attributes:
        app: The application.
        tokens: A token for each name that was asked for; it sees the scope of its name, and
            `shared`.
    """

    def __init__(self, app: FastAPI, tokens: dict[str, str]) -> None:
        self.app, self.tokens = app, tokens

    @property
    def service(self) -> Service:
        """The service of the application."""
        found: Service = self.app.state.service
        return found

    def request(self, who: str, path: str, **options: Any) -> Exchange:
        """Starts a request with a token."""
        return Exchange(self.app, path, self.tokens.get(who), **options)

    def stream(
        self, who: str, kind: str = NDJSON, scope: str | None = None, **options: Any
    ) -> Exchange:
        """Starts a stream of documents into the scope of a token, or another one."""
        return self.request(who, f"/v1/scopes/{scope or who}/documents", kind=kind, **options)

    async def post(self, who: str, path: str, body: bytes, **options: Any) -> Exchange:
        """Sends a whole request, and waits for its answer."""
        exchange = self.request(who, path, length=len(body), **options)
        exchange.send(body, more=False)
        await exchange.finish()
        return exchange


@asynccontextmanager
async def running(
    folder: Path, *names: str, scopes: tuple[str, ...] = (), **settings: Any
) -> AsyncIterator[App]:
    """Runs an application with some tokens until the end of the block.

    Ready when the block begins.
    """
    write_key(folder / "key")
    token_file = TokenFile(folder / "tokens.json")
    tokens = {
        name: token_file.create(Principal(name, (name, "shared", *scopes), ("read", "write")))
        for name in names
    }
    fields = {
        "store": "memory://",
        "source_rate": "1000000000/second",
        "console": False,
        **settings,
    }
    app = create_app(
        ServerSettings.read(key_file=str(folder / "key"), tokens=folder / "tokens.json", **fields)
    )
    async with app.router.lifespan_context(app):
        running_app = App(app, tokens)
        await until(lambda: running_app.service.ready)
        yield running_app
