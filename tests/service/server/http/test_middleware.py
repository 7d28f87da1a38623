"""Requests that take too long, and too many requests."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nearkin.index.index import Index
from tests.service.server.conftest import Serve
from tests.services import free_port, start_serving, wait_until

PATIENCE = 120.0
"""Seconds after which a test stops waiting for the server. It does not decide a result."""
URL = "/v1/scopes/a/documents"
TEXT = "a text that waits until somebody has time for it, {} or later"


@pytest.fixture
def barrier(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that blocks all indexes until it is set."""
    opened, really = threading.Event(), Index.upsert_many
    opened.set()

    def waits(index: Index, *arguments: Any, **more: Any) -> Any:
        assert opened.wait(60)
        return really(index, *arguments, **more)

    monkeypatch.setattr(Index, "upsert_many", waits)
    return opened


def depth(client: TestClient) -> float:
    """Returns the number of waiting documents, by the metrics of the server."""
    lines = client.get("/metrics").text.splitlines()
    return float(
        next(line.rsplit(" ", 1)[1] for line in lines if line.startswith("nearkin_queue_depth"))
    )


def test_timed_out_upsert_is_still_stored(serve: Serve, barrier: threading.Event) -> None:
    client = serve(timeout=0.3)
    barrier.clear()
    answer = client.post(URL, json={"id": "late", "text": TEXT})
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
        503,
        "timeout",
        "1",
    )
    barrier.set()
    wait_until(lambda: client.get(f"{URL}/late").status_code == 200, "the late document is stored")

    def is_answered_in_time() -> bool:
        answer = client.post(URL, json={"id": "late", "text": TEXT})
        return answer.status_code == 200 and answer.json()["kind"] == "exact"

    wait_until(is_answered_in_time, "the document is an exact duplicate of itself")


def test_full_queue_rejects_documents(serve: Serve, barrier: threading.Event) -> None:
    client = serve(queue=4)
    barrier.clear()
    with ThreadPoolExecutor(4) as pool:
        waiting = [
            pool.submit(client.post, URL, json={"id": str(i), "text": TEXT.format(i)})
            for i in range(4)
        ]
        wait_until(lambda: depth(client) >= 4, "four documents wait")
        refusal = client.post(URL, json={"id": "one too many", "text": TEXT})
        assert (refusal.status_code, refusal.json()["code"], refusal.headers["retry-after"]) == (
            503,
            "busy",
            "1",
        )
        barrier.set()
        assert [one.result().status_code for one in waiting] == [200] * 4
    assert depth(client) == 0
    assert client.post(URL, json={"id": "one too many", "text": TEXT}).status_code == 200


def until(connection: socket.socket, wanted: bytes) -> bytes:
    """Reads from a connection until a pattern appears."""
    came = b""
    while wanted not in came:
        some = connection.recv(1 << 16)
        assert some, f"closed after {came!r}"
        came += some
    return came


def test_pausing_stream_is_answered_until_idle_timeout(tmp_path: Path) -> None:
    port = free_port()
    process = start_serving(tmp_path, port, "--idle-timeout", "2")
    kind = "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked"
    head = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            connection.sendall(head.encode())
            for number, id in enumerate(("one", "two")):
                line = json.dumps({"id": id, "text": TEXT}).encode() + b"\n"
                connection.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                received = until(connection, f'"id":"{id}"'.encode())
                assert received.startswith(b"HTTP/1.1 200") == (number == 0)
                assert b"problem" not in received
            assert b"timeout" in until(connection, b"}}\n")
    finally:
        process.terminate()
        process.wait(60)


def test_only_streams_of_documents_may_exceed_max_body(serve: Serve) -> None:
    client = serve(max_body=2000)
    stream, plain = ("content-type", "application/x-ndjson"), ("content-type", "application/json")
    long = b'{"text": "' + b"x " * 2000 + b'"}'
    for path, headers, status in (
        ("/v1/scopes/a/documents", [stream], 200),
        ("/v1/scopes/a/query", [stream], 413),
        ("/v1/scopes/a/query", [plain, stream], 413),
        ("/v1/scopes/a/documents", [plain, stream], 413),
        ("/console/login", [stream, ("sec-fetch-site", "same-origin")], 413),
    ):
        assert client.post(path, content=long, headers=headers).status_code == status, path

    def slowly() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"token=" + b"x" * 1000

    answer = client.post(
        "/console/login", content=slowly(), headers=[("sec-fetch-site", "same-origin")]
    )
    assert answer.status_code == 413


def test_client_disconnect_is_not_logged_as_error(tmp_path: Path) -> None:
    port = free_port()
    process = start_serving(tmp_path, port, "--log-level", "info")
    log = tmp_path / "log"
    try:
        for number, path in enumerate((URL, "/v1/scopes/a/query", "/console/login"), 1):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
                kind = "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                connection.sendall(f"{head}{kind}Content-Length: 100\r\n\r\n{{".encode())
                # the server asks for the body, so the request is under way
                until(connection, b"100 Continue")
            wait_until(
                lambda number=number: log.read_text().count('"status":499') == number,
                f"the end of the connection to {path} is logged",
            )
    finally:
        process.terminate()
        process.wait(60)
    assert "internal" not in log.read_text()
