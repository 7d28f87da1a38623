"""Promises of docs/explanation/security.md about documents and bodies: a test for each, named
after it."""

import asyncio
import io
import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearkin.index.index import Index
from nearkin.service.server.cluster_listings import ClusterListings
from tests.service.server.exchange import (
    ARROW,
    HANG,
    JSON,
    NDJSON,
    App,
    Exchange,
    run,
    running,
    until,
)

TEXT = "a text of some words that is sent by one of two tokens and {}"


def arrow(text: str) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, pa.schema([("text", pa.string())])) as writer:
        writer.write_batch(pa.record_batch({"text": [text]}))
    return out.getvalue()


def problems(body: bytes, kind: str) -> list[str]:
    """Returns the codes of the problems in an answer."""
    if kind == JSON:
        return [json.loads(body)["code"]]
    if kind == NDJSON:
        return [
            line["problem"]["code"]
            for line in map(json.loads, body.splitlines())
            if "problem" in line
        ]
    rows = pa.ipc.open_stream(body).read_all().to_pylist()
    return [json.loads(row["problem"])["code"] for row in rows if row["problem"] is not None]


@pytest.mark.promise("Documents are bounded in size.")
@pytest.mark.parametrize("kind", [JSON, NDJSON, ARROW])
def test_huge_documents_are_bounded(tmp_path: Path, kind: str) -> None:
    """`max_body`, `max_line` and `max_message` bound it before parsing, then `max_document`."""

    async def test() -> None:
        bounds = {
            "max_body": 20_000,
            "max_line": 20_000,
            "max_message": 40_000,
            "index": {"max_document": "10000"},
        }
        async with running(tmp_path, "sender", **bounds) as app:
            for words, expected in (
                (1000, []),
                (3000, ["invalid-request"]),
                (5000, ["too-large"]),
                (50_000, None),
            ):
                text = "word " * words
                body = arrow(text) if kind == ARROW else json.dumps({"text": text}).encode()
                answer = await app.post("sender", "/v1/scopes/sender/documents", body, kind=kind)
                if expected:
                    assert problems(answer.body, kind) == expected, words
                elif expected is None:
                    assert problems(answer.body, kind)[0] in ("too-large", "invalid-request")
                else:
                    assert b'"new"' in answer.body or kind == ARROW

    run(test())


@pytest.mark.promise("Streams that never end are processed as they come.")
def test_endless_bodies_are_bounded(tmp_path: Path) -> None:
    """Whatever goes on and on ends with a reason, and takes no more memory than its bound
    meanwhile."""

    async def endless(app: App, path: str, kind: str, chunk: bytes) -> tuple[bytes, int]:
        exchange = app.request("sender", path, kind=kind)
        most = 0
        while not exchange.done.done():
            before = exchange.asked
            exchange.send(chunk)
            await until(lambda before=before: exchange.asked > before or exchange.done.done())  # type: ignore[misc]
            most = max(most, app.service.memory.used)
        return await exchange.finish(), most

    async def test() -> None:
        bounds = {
            "max_body": 1_000_000,
            "max_line": 100_000,
            "max_message": 1_000_000,
            "max_stream": 5_000_000,
        }
        async with running(tmp_path, "sender", **bounds) as app:
            chunk = 50_000
            body, most = await endless(app, "/v1/scopes/sender/query", JSON, b" " * chunk)
            assert json.loads(body)["code"] == "too-large"
            assert most <= 1_000_000 + chunk
            body, most = await endless(app, "/v1/scopes/sender/documents", NDJSON, b"x" * chunk)
            assert json.loads(body.splitlines()[-1])["problem"]["code"] == "too-large"
            assert most <= 100_000 + chunk
            body, most = await endless(
                app, "/v1/scopes/sender/documents", NDJSON, (b"x" * 999 + b"\n") * 50
            )
            assert json.loads(body.splitlines()[-1])["problem"]["code"] == "too-large"
            assert most <= (4 << 20) + 2 * chunk
            schema = arrow("")[: -len(arrow("")) // 2]
            body, most = await endless(app, "/v1/scopes/sender/documents", ARROW, schema)
            assert problems(body, ARROW)[-1] == "invalid-request"
            assert app.service.memory.used == 0

    run(test())


class Hold:
    """A barrier that blocks all work on the scopes of one token until the end of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.entered = 0
        for owner, name in ((Index, "upsert_many"), (Index, "query"), (ClusterListings, "listing")):
            self._hold(monkeypatch, owner, name)

    def _hold(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        really = getattr(owner, name)

        def waits(this: Any, scope: str, *arguments: Any, **more: Any) -> Any:
            if scope.startswith("greedy"):
                self.entered += 1
                assert self.opened.wait(200)
            return really(this, scope, *arguments, **more)

        monkeypatch.setattr(owner, name, waits)


@pytest.mark.promise("One token does not slow other scopes.")
def test_other_scopes_are_not_slowed_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token takes all resources that it may take, and none of its work ends.

    Every route still answers another one.
    """
    hold = Hold(monkeypatch)

    async def test() -> None:
        async with running(
            tmp_path, "greedy", "other", scopes=("greedy*",), queue=400, requests=2000
        ) as app:
            exchanges: list[Exchange] = []
            body = json.dumps({"text": TEXT}).encode()
            for at in range(100):
                scope = f"/v1/scopes/greedy{at}"
                for path in ("documents", "query"):
                    exchanges.append(app.request("greedy", f"{scope}/{path}", length=len(body)))
                    exchanges[-1].send(body, more=False)
                exchanges.append(app.request("greedy", f"{scope}/clusters", method="GET"))
                exchanges[-1].send(b"", more=False)
                for kind in (NDJSON, ARROW):
                    exchanges.append(app.stream("greedy", kind, f"greedy{at}"))
                    exchanges[-1].send(body + b"\n" if kind == NDJSON else arrow(TEXT))
                exchanges.append(app.request("greedy", f"{scope}/documents", length=9_800_000))
            await until(lambda: hold.entered >= 5)

            documents = "/v1/scopes/other/documents"
            for kind in (JSON, NDJSON, ARROW):
                sent = (
                    arrow(TEXT)
                    if kind == ARROW
                    else json.dumps({"id": "one", "text": TEXT}).encode()
                )
                answer = await app.post("other", documents, sent, kind=kind)
                assert await answer.status() == 200
                assert kind == JSON or problems(answer.body, kind) == []
            for path, method, status in (
                ("query", "POST", 200),
                ("documents/one", "GET", 200),
                ("clusters/one", "GET", 200),
                ("clusters", "GET", 200),
                ("documents/one", "DELETE", 204),
            ):
                answer = await app.post("other", f"/v1/scopes/other/{path}", body, method=method)
                assert await answer.status() == status, path
            for path, sent in (
                ("tune", b"{}"),
                ("explain", b'{"scope": "other", "a": "x", "b": "y"}'),
            ):
                answer = await app.post("other", f"/v1/{path}", sent)
                assert await answer.status() in (200, 404, 422), path
            hold.opened.set()
            await asyncio.gather(*(one.cancel() for one in exchanges))

    run(test())


@pytest.mark.promise("A body is not read before its token is known.")
def test_body_of_unauthenticated_request_is_not_read(tmp_path: Path) -> None:
    """A request without a token is rejected, however large the announced or sent body is."""

    async def test() -> None:
        async with running(tmp_path, "owner") as app:
            for path in ("scopes/owner/documents", "scopes/owner/query", "explain", "tune"):
                for kind in (JSON, NDJSON, ARROW):
                    exchange = app.request("stranger", f"/v1/{path}", kind=kind)
                    exchange.send(b" " * 1_000_000)
                    assert await exchange.status() == 401
                    await exchange.finish()
                    assert exchange.asked == 0
            pools = (
                app.service.memory,
                app.service.requests,
                app.service.open_streams,
                app.service.places,
            )
            assert [pool.used for pool in pools] == [0, 0, 0, 0]

    run(test())


def test_many_copies_use_bounded_memory(tmp_path: Path, full: bool) -> None:
    """Copies of one text without ids are one record.

    With ids, one of its documents stands in buckets.
    """
    count = 1_000_000 if full else 4000

    async def test() -> None:
        async with running(tmp_path, "copier") as app:
            stats = []
            for line in (lambda at: {"text": TEXT}, lambda at: {"id": str(at), "text": TEXT}):
                for start in range(0, count, 4000):
                    stream = app.stream("copier")
                    for at in range(start, start + 4000):
                        stream.send(json.dumps(line(at)).encode() + b"\n")
                    stream.send(b"", more=False)
                    async with asyncio.timeout(HANG):
                        assert b"problem" not in await stream.finish()
                stats.append(app.service.index._session.store.counts())
            assert stats[0]["records"] == 1
            assert stats[1]["postings"] == stats[0]["postings"]

    run(test(), hang=None)
