"""Tests that errors of Google Cloud Storage are one line with the URL and a remedy."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.prepared_process import prepared_line

URL = "gs://kin-bucket/docs.jsonl"
MESSAGES = {
    401: "no permission to list gs://kin-bucket/docs.jsonl",
    403: "no permission to list gs://kin-bucket/docs.jsonl",
    404: "no files match gs://kin-bucket/docs.jsonl",
}


class StandIn(BaseHTTPRequestHandler):
    """A server that answers every request with the status of its class."""

    status = 404

    def do_GET(self) -> None:
        body = json.dumps({"error": {"code": self.status, "message": "refused"}}).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=sorted(MESSAGES))
def storage(request: pytest.FixtureRequest) -> Iterator[tuple[int, str]]:
    """Yields the status of every answer, and the address of the test server."""
    handler = type("Handler", (StandIn,), {"status": request.param})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield request.param, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_refusal_of_google_storage_is_one_sentence(
    storage: tuple[int, str], tmp_path: Path
) -> None:
    status, address = storage
    environment = {**os.environ, "STORAGE_EMULATOR_HOST": address, "HOME": str(tmp_path)}
    line = prepared_line("nearkin", "dedup", URL, "--out", str(tmp_path / "out"))
    ended = subprocess.run(
        line, capture_output=True, text=True, check=False, env=environment, timeout=300
    )
    assert ended.returncode == 2
    assert MESSAGES[status] in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    if status != 404:
        assert "GOOGLE_APPLICATION_CREDENTIALS" in ended.stderr
    assert not (tmp_path / "out.partial").exists()


@pytest.fixture
def without_network() -> list[str]:
    """Returns the beginning of a command line whose process has no network."""
    isolate = ["unshare", "--net"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*isolate, "true"], check=False).returncode
    ):
        pytest.skip("only root can start a process without a network")
    return isolate


def test_google_storage_without_credentials_and_network_is_one_sentence(
    without_network: list[str], tmp_path: Path
) -> None:
    line = [sys.executable, "-m", "nearkin", "dedup", "--quiet", URL, "-o", str(tmp_path / "out")]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GOOGLE_", "STORAGE_", "GCS"))
    }
    ended = subprocess.run(
        [*without_network, *line],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HOME": str(tmp_path)},
        timeout=300,
    )
    assert ended.returncode == 2, ended.stderr
    remedy = "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`"
    assert ended.stderr == f"nearkin: no credentials for {URL}; {remedy}\n"
    assert list(tmp_path.glob("out*")) == []
