"""Limits on connections: each test exceeds one of them over a socket."""

import asyncio
import gc
import json
import socket
import struct
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from nearkin.service.server.http.connections import (
    FREE_PIECES,
    MAX_URL,
    ConnectionLimits,
    LimitedConnection,
)
from nearkin.service.server.http.middleware import RequestMiddleware
from nearkin.service.server.http.problems import SECURITY_HEADERS, ProblemError
from nearkin.service.server.processes import SHUTDOWN_GRACE
from nearkin.service.server.settings import ServerSettings
from nearkin.service.server.telemetry import Instruments
from tests.service.server.http.sockets import read_until_closed
from tests.services import free_port, start_serving, wait_until

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/scopes/a/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: "
    b"eHh4eHh4eHh4eHh4eHh4eA==\r\nSec-WebSocket-Version: 13"
)
CONNECTIONS = 12
PATIENCE = 120.0
"""Seconds after which a test stops waiting for the server. It does not decide a result."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with narrow bounds, for which this machine is an address as any other."""
    number = free_port()
    bounds = {
        "head-timeout": "1",
        "max-head": "4096",
        "source-connections": str(CONNECTIONS),
        "idle-timeout": "2",
    }
    flags = [part for name, value in bounds.items() for part in (f"--{name}", value)]
    folder: Path = tmp_path_factory.mktemp("connections")
    process = start_serving(folder, number, "--trusted-proxies", "192.0.2.1", *flags)
    yield number
    process.terminate()
    process.wait(60)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def is_served(port: int) -> bool:
    """Returns whether another client of this address is answered."""
    with connect(port) as connection:
        try:
            connection.sendall(GET)
            return connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        except (ConnectionResetError, BrokenPipeError):
            return False


HALVES = {
    "nothing": b"",
    "half a line": b"GET /healthz HT",
    "half a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "empty lines": b"\r\n\r\n",
}


def test_incomplete_heads_are_closed(port: int) -> None:
    with ExitStack() as stack:
        connections = {name: stack.enter_context(connect(port)) for name in HALVES}
        for name, connection in connections.items():
            connection.sendall(HALVES[name])
        for name, connection in connections.items():
            assert read_until_closed(connection) == b"", name


def test_incomplete_second_heads_are_closed(port: int) -> None:
    with ExitStack() as stack:
        connections = {half: stack.enter_context(connect(port)) for half in (b"\r\n", b"GET /")}
        for half, connection in connections.items():
            connection.sendall(GET)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            connection.sendall(half)
        for half, connection in connections.items():
            assert b"HTTP/1.1" not in read_until_closed(connection), half


@pytest.mark.promise("Heads of requests are bounded in time.")
def test_slow_head_is_closed(port: int) -> None:
    with connect(port) as connection:
        connection.settimeout(0.2)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        closed = False
        for _ in range(1000):
            try:
                connection.sendall(b"x")
                closed = not connection.recv(1 << 16)
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                closed = True
            if closed:
                break
        assert closed


@pytest.mark.promise("Heads of requests are bounded in size.")
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        + b"".join(b"X-%d: y\r\n" % at for at in range(2000))
        + b"\r\n",
        b"GET /healthz?"
        + b"&".join(b"a=%d" % at for at in range(2000))
        + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["long path", "long header", "many headers", "many parameters"],
)
def test_large_head_is_rejected(port: int, sent: bytes) -> None:
    with connect(port) as connection:
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(sent)
        assert read_until_closed(connection)[:12] in (b"HTTP/1.1 400", b"")
    assert is_served(port)


HOSTILE_HEADS = {
    "query parameters": b"GET /healthz?" + b"&" * 100 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "headers": GET[:-2] + b"X-A: y\r\n" * 100 + b"\r\n",
    "cookies": GET[:-2] + b"Cookie: " + b"a=b;" * 101 + b"\r\n\r\n",
    "digits": POST + b"Content-Length: " + b"0" * 20 + b"\r\n\r\n",
    "not valid HTTP": b"GET\r\n\r\n",
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (FREE_PIECES + 1),
}


@pytest.mark.parametrize("reason", HOSTILE_HEADS)
def test_hostile_request_is_refused_with_a_problem(port: int, reason: str) -> None:
    with connect(port) as connection:
        connection.sendall(HOSTILE_HEADS[reason])
        answer = read_until_closed(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    for name, value in SECURITY_HEADERS:
        assert b"\r\n%s: %s" % (name, value) in head
    problem = json.loads(body)
    assert problem["code"] == "malformed-request"
    assert reason in problem["detail"]
    assert is_served(port)


def test_long_url_is_refused_within_a_larger_head() -> None:
    protocol = LimitedConnection.__new__(LimitedConnection)
    protocol.url = b""
    protocol._parsed_head_size = 0
    protocol.on_url(b"/" * MAX_URL)
    with pytest.raises(ValueError, match="the URL has more than 8,192 bytes"):
        protocol.on_url(b"/")


def test_body_in_the_chunk_of_the_head_does_not_count_as_head(port: int) -> None:
    """Requests of 30,000 bytes, each sent at once. The head may have 4,096 bytes."""
    body = b'{"text": "' + b"word " * 6000 + b'"}'
    with connect(port) as connection:
        for _ in range(50):
            connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            came = b""
            while b'"matches"' not in came:
                some = connection.recv(1 << 16)
                assert some
                came += some
            assert came.startswith(b"HTTP/1.1 200")


def test_endless_trailers_are_rejected(port: int) -> None:
    with connect(port) as connection:
        try:
            connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
            for at in range(5000):
                connection.sendall(b"X-Trailer-%d: %s\r\n" % (at, b"y" * 100))
        except (ConnectionResetError, BrokenPipeError):
            pass
        read_until_closed(connection)
    assert is_served(port)


@pytest.mark.promise("Lines after the head of a request are bounded in size.")
@pytest.mark.parametrize(
    "begin", [b"0\r\nX-Trailer: ", b"5;name=", b"0" * 4096], ids=["trailer", "extension", "size"]
)
def test_endless_line_after_the_head_is_rejected(port: int, begin: bytes) -> None:
    """The parser collects a line until its end comes, which takes ever longer."""
    with connect(port) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n" + begin)
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < 64 << 20:
                connection.sendall(b"0" * (1 << 16))
                sent += 1 << 16
        # a client may send the rest of a body of 16 MB, and the sockets of both sides buffer more
        assert sent < 32 << 20
    assert is_served(port)


def test_number_of_pipelined_requests_is_limited(port: int) -> None:
    """The connection is closed if more than eight requests wait."""
    with connect(port) as connection:
        connection.sendall(GET * 5)
        came = b""
        while came.count(b"HTTP/1.1 200") < 5:
            came += connection.recv(1 << 16)
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(POST + b"Content-Length: 10\r\n\r\n" + b'{"text":1}' + GET * 5000)
        assert read_until_closed(connection).count(b"HTTP/1.1 200") < 5000
    assert is_served(port)


@pytest.mark.promise("Connections of one address are bounded in number.")
def test_connections_of_one_address_are_limited(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(connect(port))
            connection.sendall(GET)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert not is_served(port)
    wait_until(lambda: is_served(port), "closed connections are not counted any more")


@pytest.mark.promise("Connections are bounded in number.")
def test_number_of_connections_is_limited(short: int) -> None:
    """The limit holds for all addresses together, those of proxies included."""
    wait_until(lambda: is_served(short), "earlier connections are not counted any more")
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(connect(short))
            connection.sendall(GET)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert not is_served(short)
    wait_until(lambda: is_served(short), "closed connections are not counted any more")


@pytest.mark.promise("A client that does not read its answers is disconnected.")
def test_connection_is_closed_if_client_does_not_read(port: int) -> None:
    """This holds for a client whose requests are short, too."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        closed = False
        try:
            for _ in range(1_000_000):
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except OSError:
            closed = True
        assert closed
    assert is_served(port)


def test_upgrade_request_is_answered(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_stalled_body_times_out(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(POST + b"Content-Length: 100\r\n\r\n{")
        came = b""
        while b"}" not in came:
            some = connection.recv(1 << 16)
            assert some
            came += some
        assert came.startswith(b"HTTP/1.1 503")
        assert json.loads(came[came.index(b"{") :])["code"] == "timeout"


UNREAD = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server that accepts only short requests, and few connections from all addresses.

    This machine is a proxy for it, so the limit of an address does not hold.
    """
    number = free_port()
    bounds = {"timeout": "2", "max-body": "100000", "connections": str(CONNECTIONS)}
    flags = [part for name, value in bounds.items() for part in (f"--{name}", value)]
    process = start_serving(tmp_path_factory.mktemp("short"), number, *flags)
    yield number
    process.terminate()
    process.wait(60)


@pytest.mark.parametrize("head", [b"Content-Length: 90000", b"Transfer-Encoding: chunked"])
def test_slow_rest_of_rejected_body_is_closed(short: int, head: bytes) -> None:
    """The answer does not wait for the body, and the rest of the body does not hold the connection
    for ever."""
    with connect(short) as connection:
        connection.settimeout(0.2)
        connection.sendall(UNREAD + head + b"\r\n\r\n")
        came, closed = b"", False
        for _ in range(1000):
            try:
                connection.sendall(b"1\r\nx\r\n")
                some = connection.recv(1 << 16)
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                some = b""
            came += some
            closed = not some
            if closed:
                break
        assert closed
        assert came.startswith(b"HTTP/1.1 404")
        assert came.count(b"HTTP/1.1") == 1


@pytest.mark.promise("The rest of a refused body is bounded.")
def test_endless_rest_of_rejected_body_is_closed(short: int) -> None:
    with connect(short) as connection:
        connection.sendall(UNREAD + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < 1 << 30:
                connection.sendall(b"10000\r\n" + b"x" * (1 << 16) + b"\r\n")
                sent += 1 << 16
        assert sent < 1 << 30
    assert is_served(short)


@pytest.mark.promise("A refusal reaches a client that sends its whole body first.")
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 8388608", b"Transfer-Encoding: chunked"], ids=["length", "chunks"]
)
def test_answer_reaches_client_that_closes_and_sends_everything_first(
    port: int, framing: bytes
) -> None:
    """The body is larger than what the sockets of both sides hold."""
    body = b"x" * (8 << 20)
    if b"chunked" in framing:
        body = (b"10000\r\n" + b"x" * (1 << 16) + b"\r\n") * 128 + b"0\r\n\r\n"
    with connect(port) as connection:
        connection.sendall(UNREAD + b"Connection: close\r\n" + framing + b"\r\n\r\n" + body)
        answer = read_until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"}")


def test_answer_reaches_client_whose_body_is_too_large(port: int) -> None:
    """Clients such as urllib send all of it before they read, whatever its size is."""
    size = ServerSettings().max_body * 3 // 2
    head = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size
    with connect(port) as connection:
        connection.sendall(UNREAD + head + b"x" * size)
        assert read_until_closed(connection).startswith(b"HTTP/1.1 413")


def test_answer_reaches_client_whose_head_is_refused(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(HOSTILE_HEADS["digits"] + b"x" * (8 << 20))
        assert read_until_closed(connection).startswith(b"HTTP/1.1 400")


def test_stream_is_ended_some_time_after_the_signal_to_stop() -> None:
    class Loop:
        """Records what is to be called later."""

        def __init__(self) -> None:
            self.later: list[tuple[float, object]] = []

        def call_later(self, seconds: float, callback: object) -> None:
            self.later.append((seconds, callback))

    loop = Loop()
    connection: Any = LimitedConnection.__new__(LimitedConnection)
    connection.loop = loop
    connection.cycle = SimpleNamespace(response_complete=False, keep_alive=True)
    connection._at_shutdown = None
    connection.shutdown()
    assert loop.later == []
    connection._call_at_shutdown(print)
    connection.shutdown()
    assert loop.later == [(ConnectionLimits().stream_grace, print)]
    assert ConnectionLimits().stream_grace < SHUTDOWN_GRACE


def test_rejected_complete_body_keeps_connection_open(short: int) -> None:
    with connect(short) as connection:
        for _ in range(3):
            connection.sendall(UNREAD + b"Content-Length: 50000\r\n\r\n" + b"x" * 50_000)
            came = b""
            while b"}" not in came:
                some = connection.recv(1 << 16)
                assert some
                came += some
            assert came.startswith(b"HTTP/1.1 404")
        connection.sendall(GET)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_connection_reset_is_not_logged_as_error(tmp_path: Path) -> None:
    """The event loop may see the end of a connection before the request does."""
    own = free_port()
    process = start_serving(tmp_path, own)
    body = b'{"text": "' + b"word " * 200_000 + b'"}'
    try:
        for at in range(60):
            connection = connect(own)
            connection.sendall(
                POST + b"Content-Length: %d\r\n\r\n" % len(body) + body + GET * (at % 4)
            )
            if at % 3 == 0:
                connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert is_served(own)
    finally:
        process.terminate()
        process.wait(60)
    log = (tmp_path / "log").read_text()
    assert "internal error" not in log
    assert "without completing response" not in log


def test_no_write_to_lost_connection() -> None:
    """There is no error, even if the loss was not reported yet."""
    sent: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "http.request"}

    for is_lost in (True, False):
        state = {"is_lost": lambda is_lost=is_lost: is_lost}
        scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "state": state}
        guard = RequestMiddleware(
            app, Instruments(), max_body=1, max_stream=1, requests=1, timeout=60, idle_timeout=60
        )
        asyncio.run(guard(scope, receive, send))
        assert sent == ([] if is_lost else ["http.response.start"])


def test_rejected_request_is_not_kept_in_memory() -> None:
    """Its memory is freed without the garbage collector, which a server runs rarely."""

    class Body(bytearray):
        """Answers with many bytes."""

    kept: list[weakref.ref[Body]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = Body()
        kept.append(weakref.ref(body))
        raise ProblemError("rate-limited", "too much", retry_after=1.0)

    async def send(message: Message) -> None:
        pass

    async def receive() -> Message:
        return {"type": "http.request"}

    gc.disable()
    try:
        guard = RequestMiddleware(
            app, Instruments(), max_body=1, max_stream=1, requests=1, timeout=60, idle_timeout=60
        )
        asyncio.run(
            guard(
                {"type": "http", "method": "GET", "path": "/healthz", "headers": []}, receive, send
            )
        )
        assert kept[0]() is None
    finally:
        gc.enable()


def test_proxies_are_trusted_by_address_and_network() -> None:
    bounds = ConnectionLimits(trusted="192.0.2.1, 198.51.100.0/24")
    assert bounds.is_trusted_proxy("192.0.2.1")
    assert bounds.is_trusted_proxy("198.51.100.7")
    assert not bounds.is_trusted_proxy("192.0.2.2")
    assert ConnectionLimits(trusted="*").is_trusted_proxy("192.0.2.2")
