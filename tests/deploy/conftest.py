"""A server that is configured as in deploy/, and the metrics that it exposes."""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.services import free_port, start_process, wait_for, wait_until, write_key

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
WORDS = "the quick brown fox jumps over the lazy dog and runs away from everything that it has seen"
QUANTILES = ("_bucket", "_count", "_sum")


class Live(NamedTuple):
    """A server."""

    url: str
    token: str
    admin: str
    folder: Path

    def client(self, token: str | None = None) -> httpx2.Client:
        """A client of the server."""
        return httpx2.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token or self.admin}"},
            timeout=300,
        )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A process of its own over an SQLite file, with tokens and golden pairs."""
    folder, port = tmp_path_factory.mktemp("live"), free_port()
    tokens = TokenFile(folder / "nearkin-tokens.json")
    admin = tokens.create(Principal("admin", ("*",), ("admin",)))
    writer = tokens.create(Principal("writer", ("shop",), ("read", "write")))
    golden = {"a": WORDS, "b": f"{WORDS} today", "similar": True}
    (folder / "golden.jsonl").write_text(json.dumps(golden) + "\n")
    write_key(folder / "nearkin.key")
    options = (
        "--port",
        str(port),
        "--memory-budget",
        "1000000000",
        "--golden",
        "golden.jsonl",
        "--golden-every",
        "1",
        "--live-probe-every",
        "0.2",
    )
    line = [sys.executable, "-m", "nearkin", "serve", *options]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NEARKIN_")}
    if "NEARKIN_CACHE_DIR" in os.environ:
        clean["NEARKIN_CACHE_DIR"] = os.environ["NEARKIN_CACHE_DIR"]
    process = start_process(line, folder / "log", env=clean, cwd=folder)
    try:
        wait_for(port, process, 120)
        found = Live(f"http://127.0.0.1:{port}", writer, admin, folder)
        with found.client() as client:
            wait_until(
                lambda: client.get("/readyz").status_code == 200,
                "the server is ready",
                300,
                process,
            )
        yield found
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def exposed(live: Live) -> Mapping[str, set[str]]:
    """Names of samples that the server exposes once everything has happened to it, with their
    labels."""
    with live.client() as client:
        for number in range(3):
            document = {"id": f"fed-{number}", "text": f"{WORDS} {number}"}
            assert client.post("/v1/scopes/fed/documents", json=document).status_code == 200
        assert client.post("/v1/scopes/fed/query", json={"text": WORDS}).status_code == 200
        assert client.get("/v1/scopes/fed/documents/nobody").status_code == 404
        wait_until(lambda: "nearkin_live_recall" in _samples(client), "live scopes are probed", 60)
        with sqlite3.connect(live.folder / "nearkin.db") as database:
            database.execute("ALTER TABLE entries RENAME TO hidden")
        assert client.get("/v1/scopes/fed/documents/nobody").status_code == 503
        found = _samples(client)
        with sqlite3.connect(live.folder / "nearkin.db") as database:
            database.execute("ALTER TABLE hidden RENAME TO entries")
    return found


def _samples(client: httpx2.Client) -> dict[str, set[str]]:
    """Returns the labels by name of the sample."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found
