"""No request of a client blocks the event loop, which answers the others."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nearkin.service.server.streams.ndjson import LineSplitter
from tests.service.server.exchange import App, run, running, until
from tests.service.server.hostile_json import HOSTILE
from tests.service.server.loop_watch import LoopWatch

UNITS = 10
"""Units of work that a step of the event loop may take: what 10,000,000 additions in Python
take."""


def test_loop_watch_measures_long_steps() -> None:
    async def test() -> None:
        with LoopWatch() as watch:
            await asyncio.sleep(0)
        assert watch.longest < 1
        with LoopWatch() as watch:
            await asyncio.sleep(0)
            sum(range(30_000_000))
            await asyncio.sleep(0)
        assert watch.longest > UNITS

    run(test())


async def posted(app: App, path: str, body: bytes) -> None:
    """Sends a body in pieces of the size that a socket delivers."""
    exchange = app.request("sender", path, length=len(body))
    for start in range(0, len(body), 1 << 18):
        exchange.send(body[start : start + (1 << 18)], more=start + (1 << 18) < len(body))
    await exchange.finish()
    assert await exchange.status() in (200, 400, 404, 413, 422)


def json_of(name: str) -> Callable[[App], Awaitable[None]]:
    """Sends hostile JSON to every route that reads JSON."""

    async def send(app: App) -> None:
        for path in ("scopes/sender/documents", "scopes/sender/query", "explain", "tune"):
            await posted(app, f"/v1/{path}", HOSTILE[name])

    return send


async def long_text(app: App) -> None:
    """Sends a text of escapes that is nearly as long as a body may be."""
    await posted(
        app, "/v1/scopes/sender/query", b'{"text": "' + b"\\u00e9\\ud83d\\ude00" * 800_000 + b'"}'
    )


async def large_tune(app: App) -> None:
    """The largest signature that may be asked about, at thresholds for which there are many
    operating points."""
    for threshold in (0.8, 0.95, 1.0):
        await posted(
            app, "/v1/tune", json.dumps({"threshold": threshold, "recall": 0.5, "k": 1024}).encode()
        )


async def empty_lines(app: App) -> None:
    """Sends a stream of empty lines, 250,000 at a time."""
    stream = app.stream("sender")
    for _ in range(8):
        stream.send(b"\n" * (1 << 18))
    stream.send(b"", more=False)
    assert await stream.finish() == b""


async def byte_by_byte(app: App) -> None:
    """Sends a long line byte by byte."""
    stream = app.stream("sender")
    stream.send(b'{"text": "' + b"word " * 350_000)
    await until(lambda: stream.is_waiting)
    for _ in range(20_000):
        stream.send(b"x")
    stream.send(b'"}\n', more=False)
    await stream.finish()


async def long_lines(app: App) -> None:
    """Sends lines of the maximum length, and longer ones."""
    stream = app.stream("sender")
    for size in (1_900_000, 2_100_000, 1_900_000):
        whole = b'{"text": "' + b"y" * size + b'"}\n'
        for start in range(0, len(whole), 1 << 18):
            stream.send(whole[start : start + (1 << 18)])
    stream.send(b"", more=False)
    await stream.finish()


async def bad_lines(app: App) -> None:
    """Sends lines that are each answered with a problem."""
    stream = app.stream("sender")
    for _ in range(4):
        stream.send(b"{}\n" * 2000)
    stream.send(b"", more=False)
    await stream.finish()


SENT = {f"JSON of {name}": json_of(name) for name in HOSTILE} | {
    send.__name__: send
    for send in (long_text, large_tune, empty_lines, byte_by_byte, long_lines, bad_lines)
}


@pytest.mark.parametrize("name", SENT)
def test_large_requests_do_not_block_the_event_loop(tmp_path: Path, name: str) -> None:
    async def test() -> None:
        async with running(tmp_path, "sender", byte_rate="100000000000/second") as app:
            with LoopWatch() as watch:
                await SENT[name](app)
            assert watch.longest < UNITS, (
                f"a step of the event loop took {watch.longest:.1f} units of work"
            )

    run(test())


def test_line_arriving_in_bytes_takes_linear_time() -> None:
    """Four times as many bytes take four times as long, not sixteen times."""

    def seconds(count: int) -> float:
        found = []
        for _ in range(3):
            splitter = LineSplitter(10_000_000)
            splitter.add(b"x" * 50 * count)
            began = time.thread_time()
            for _ in range(count):
                splitter.add(b"x")
            found.append(time.thread_time() - began)
        return min(found)

    assert seconds(80_000) < 10 * seconds(20_000)
