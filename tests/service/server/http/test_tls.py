"""TLS handshakes that never complete.

The server must close them, and meanwhile it must answer other clients.
"""

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.service.server.http.sockets import read_until_closed
from tests.services import free_port, start_serving, wait_until

CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 "
    "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
)
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CONNECTIONS = 6
PATIENCE = 120.0
"""Seconds after which a test stops waiting for the server. It does not decide a result."""
FLAGS = (
    "--tls-cert",
    "cert.pem",
    "--tls-key",
    "key.pem",
    "--trusted-proxies",
    "192.0.2.1",
    "--head-timeout",
    "1",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate."""
    made = tmp_path_factory.mktemp("handshakes")
    subprocess.run(CERTIFICATE.split(), cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture(
    scope="module", params=["one process", pytest.param("workers", marks=pytest.mark.full)]
)
def port(folder: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A server over TLS with narrow bounds, for which this machine is an address as any other."""
    number = free_port()
    workers = ("--workers", "2") if request.param == "workers" else ()
    place = folder / request.param
    place.mkdir()
    for name in ("cert.pem", "key.pem"):
        (place / name).write_bytes((folder / name).read_bytes())
    process = start_serving(
        place, number, *FLAGS, "--source-connections", str(CONNECTIONS), *workers, scheme="https"
    )
    yield number
    process.terminate()
    process.wait(60)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def client_hello() -> bytes:
    """Returns the first message of a client."""
    context = ssl.create_default_context()
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def is_served(port: int) -> bool:
    """Returns whether another client of this address is answered."""
    context = ssl._create_unverified_context()
    try:
        with (
            connect(port) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            # in one write, so that the request comes with the last message of the handshake
            secure.sendall(GET)
            return secure.recv(1 << 16).startswith(b"HTTP/1.1 200")
    except (ConnectionError, ssl.SSLError):
        return False


BEGINNINGS = {"nothing": 0.0, "half a hello": 0.5, "a whole hello": 1.0}


def test_server_answers_over_tls(port: int, folder: Path) -> None:
    context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    answer = httpx2.get(f"https://127.0.0.1:{port}/healthz", verify=context, timeout=PATIENCE)
    assert answer.json()["status"] == "ok"


@pytest.mark.promise("TLS handshakes are bounded in time.")
def test_incomplete_handshakes_are_closed(port: int) -> None:
    hello = client_hello()
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in BEGINNINGS]
        for connection, share in zip(connections, BEGINNINGS.values(), strict=True):
            connection.sendall(hello[: int(len(hello) * share)])
        wait_until(lambda: is_served(port), "another client is served")
        for connection in connections:
            # ends when the server closes the connection
            read_until_closed(connection)
    wait_until(lambda: is_served(port), "another client is served")


def test_invalid_handshake_is_closed(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(GET)
        assert b"HTTP/1.1" not in read_until_closed(connection)
    wait_until(lambda: is_served(port), "another client is served")


def test_handshakes_are_counted_by_address(folder: Path) -> None:
    hello = client_hello()
    own = free_port()
    place = folder / "counted"
    place.mkdir()
    for file in ("cert.pem", "key.pem"):
        (place / file).write_bytes((folder / file).read_bytes())
    # the time is long, so that only the number can refuse
    flags = (*FLAGS[:-1], "600", "--source-connections", str(CONNECTIONS))
    process = start_serving(place, own, *flags, scheme="https")
    try:
        for name in ("nothing", "half a hello"):
            with ExitStack() as stack:
                wait_until(lambda: is_served(own), "earlier connections are not counted any more")
                for _ in range(CONNECTIONS):
                    connection = stack.enter_context(connect(own))
                    connection.sendall(hello[: int(len(hello) * BEGINNINGS[name])])
                assert not is_served(own), name
            wait_until(lambda: is_served(own), "closed handshakes are not counted any more")
    finally:
        process.terminate()
        process.wait(60)


def test_unreadable_certificate_is_reported_without_traceback(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    (tmp_path / "key.pem").write_bytes((folder / "key.pem").read_bytes())
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "serve",
        "--port",
        "0",
        "--tls-cert",
        "cert.pem",
        "--tls-key",
        "key.pem",
    ]
    ended = subprocess.run(
        line, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 2
    assert "cert.pem" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1
