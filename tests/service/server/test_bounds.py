"""The share of one caller: in each test, one token tries to stop another one."""

import asyncio
import io
import json
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nearkin.index.index import Index
from nearkin.service.server.cluster_listings import ClusterListings
from nearkin.service.server.settings import ServerSettings
from scripts.server_tables import BOUNDS
from tests.service.server.exchange import ARROW, NDJSON, App, Exchange, run, running, until

MEGABYTE = 1_000_000
TEXT = "a text of some words that another one may resemble, number {}"


class Barrier:
    """A barrier that blocks the index for one scope until it is opened."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.opened = threading.Event()
        self.entered = 0

    def wait(self, scope: str) -> None:
        """Waits if the scope is blocked."""
        if scope.startswith(self.scope):
            self.entered += 1
            assert self.opened.wait(200)


@pytest.fixture
def barrier(monkeypatch: pytest.MonkeyPatch) -> Iterator[Barrier]:
    """Blocks upserts and queries of scopes that begin with `greedy`."""
    greedy_barrier = Barrier("greedy")
    for owner, name in ((Index, "upsert_many"), (Index, "query"), (ClusterListings, "listing")):
        really = getattr(owner, name)

        def waits(this: Any, scope: str, *arguments: Any, really: Any = really, **more: Any) -> Any:
            greedy_barrier.wait(scope)
            return really(this, scope, *arguments, **more)

        monkeypatch.setattr(owner, name, waits)
    yield greedy_barrier
    greedy_barrier.opened.set()


def line(number: int, words: int = 0) -> bytes:
    return (
        json.dumps({"id": str(number), "text": TEXT.format(number) + " more" * words}).encode()
        + b"\n"
    )


def arrow(*texts: str) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, pa.schema([("text", pa.string())])) as writer:
        writer.write_batch(pa.record_batch({"text": list(texts)}))
    return out.getvalue()


async def upserts(app: App, who: str, kind: str = "application/json") -> None:
    """Checks that the server accepts a document of a token."""
    path = f"/v1/scopes/{who}/documents"
    body = {NDJSON: line(1), ARROW: arrow(TEXT)}.get(kind, line(1))
    answer = await app.post(who, path, body, kind=kind)
    assert await answer.status() == 200
    assert b"problem" not in answer.body or kind == ARROW
    assert (not answer.body) is False


async def ended(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        await exchange.cancel()


def problem_of(exchange: Exchange) -> tuple[int, str]:
    """Returns status and code of a rejection, which must have a Retry-After header."""
    found = json.loads(exchange.body)
    assert int(exchange.headers["retry-after"]) >= 1
    return found["status"], found["code"]


@pytest.mark.promise("Every setting that bounds callers is documented and tested.")
def test_every_bound_of_the_documentation_has_a_test() -> None:
    """Each setting that bounds callers must also be documented as a bound."""
    source = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    missing = [bound.test for bound in BOUNDS if f"def {bound.test}(" not in source]
    assert not missing
    listed = {bound.default for bound in BOUNDS}
    names = {"streams", "requests", "queue", "batch", "spill", "timeout"}
    names |= {
        name
        for name in ServerSettings.model_fields
        if name.startswith("max_") or name.endswith(("_timeout", "connections"))
    }
    assert names - listed == {"max_top"}


# -- streams


@pytest.mark.parametrize("kind", [NDJSON, ARROW])
def test_idle_streams_use_no_thread(tmp_path: Path, kind: str) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", "other") as app:
            idle = [app.stream("greedy", kind) for _ in range(40)]
            for exchange in idle:
                exchange.send(arrow(TEXT)[:9] if kind == ARROW else line(0)[:9])
            await until(lambda: all(exchange.is_waiting for exchange in idle))
            assert app.service.stream_threads.running == app.service.threads.running == 0
            for each in (NDJSON, ARROW, "application/json"):
                await upserts(app, "other", each)
            await ended(idle)
            assert (
                app.service.open_streams.used
                == app.service.memory.used
                == app.service.requests.used
                == 0
            )

    run(test())


def test_many_streams_of_one_token_do_not_affect_others(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", "other") as app:
            some = [app.stream("greedy") for _ in range(300)]
            for exchange in some:
                exchange.send(b"{")
            codes = [await exchange.status() for exchange in some]
            assert (codes.count(200), codes.count(429)) == (64, 236)
            refused = next(exchange for exchange in some if exchange.headers.get("retry-after"))
            await refused.finish()
            assert problem_of(refused) == (429, "rate-limited")
            for each in (NDJSON, ARROW, "application/json"):
                await upserts(app, "other", each)
            await ended([exchange for exchange in some if not exchange.done.done()])

    run(test())


def test_active_streams_leave_threads_to_others(tmp_path: Path, barrier: Barrier) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", "other") as app:
            some = [app.stream("greedy") for _ in range(20)]
            for exchange in some:
                exchange.send(line(1), more=False)
            await until(lambda: barrier.entered)
            for each in (NDJSON, ARROW, "application/json"):
                await upserts(app, "other", each)
            barrier.opened.set()
            assert not any([b"problem" in await exchange.finish() for exchange in some])

    run(test())


@pytest.mark.promise("A revoked token ends an open stream.")
def test_revoked_token_ends_stream(tmp_path: Path) -> None:
    """A token that is revoked while its stream is open writes nothing more."""

    async def test() -> None:
        async with running(tmp_path, "sender", "other") as app:
            stream = app.stream("sender")
            stream.send(line(1))
            await until(lambda: b'"new"' in stream.body)
            assert app.app.state.authenticator.tokens.revoke("sender")
            stream.send(line(2))
            stream.send(line(3), more=False)
            last = json.loads((await stream.finish()).splitlines()[-1])
            assert (last["line"], last["problem"]["code"]) == (0, "unauthenticated")
            assert b'"id":"2"' not in stream.body
            await upserts(app, "other", NDJSON)

    run(test())


def test_server_stops_reading_from_client_that_does_not_read(tmp_path: Path) -> None:
    """Unread answers are bounded, and complete when the client reads again."""

    async def test() -> None:
        async with running(tmp_path, "greedy", "other", spill=1 << 20) as app:
            stream = app.stream("greedy")
            stream.reads.clear()
            lines = 0
            while app.service.spill.used < app.service.spill.caller_share - (1 << 16):
                stream.send(b"x\n" * 1000)
                lines += 1000
                await until(
                    lambda: (
                        stream.is_waiting
                        or app.service.spill.used > app.service.spill.caller_share - (1 << 16)
                    )
                )
            for _ in range(20):
                stream.send(b"x\n" * 1000)
                lines += 1000
            stream.send(b"", more=False)
            assert app.service.spill.used <= app.service.spill.caller_share
            await upserts(app, "other", NDJSON)
            stream.reads.set()
            answers = (await stream.finish()).splitlines()
            assert len(answers) == lines
            assert json.loads(answers[-1])["line"] == lines
            assert app.service.spill.used == 0

    run(test())


def test_unread_answers_are_counted(tmp_path: Path) -> None:
    """Documents and explanations hold texts: one token must not fill the memory with answers that
    it does not read."""

    async def test() -> None:
        async with running(tmp_path, "greedy", "other") as app:
            text = "word " * 200_000
            for id in ("one", "two"):
                await app.post(
                    "greedy",
                    "/v1/scopes/greedy/documents",
                    json.dumps({"id": id, "text": text + id}).encode(),
                )
            app.service.memory.caller_share = 50 * MEGABYTE
            unread = []
            for path, method, body in (
                ("/v1/scopes/greedy/documents/one", "GET", b""),
                (
                    "/v1/explain",
                    "POST",
                    json.dumps({"scope": "greedy", "a": "one", "b": "two"}).encode(),
                ),
            ):
                used = app.service.memory.used
                exchange = app.request("greedy", path, method=method, length=len(body))
                exchange.reads.clear()
                exchange.send(body, more=False)
                assert await exchange.status() == 200
                assert app.service.memory.used > used + MEGABYTE // 2
                assert len(exchange.body) == 0
                unread.append(exchange)
            app.service.memory.caller_share = app.service.memory.used
            refused = await app.post("greedy", "/v1/scopes/greedy/documents/one", b"", method="GET")
            assert problem_of(refused) == (429, "rate-limited")
            await upserts(app, "other")
            for exchange in unread:
                exchange.reads.set()
                assert json.loads(await exchange.finish())
            assert app.service.memory.used == 0

    run(test())


def test_stream_ends_if_client_never_reads(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", spill=1 << 20, idle_timeout=0.5) as app:
            stream = app.stream("greedy")
            stream.reads.clear()
            for _ in range(10):
                stream.send(b"x\n" * 1000)
            await stream.done
            assert (
                app.service.spill.used
                == app.service.open_streams.used
                == app.service.memory.used
                == 0
            )

    run(test())


def test_line_arriving_in_bytes_is_not_copied(tmp_path: Path) -> None:
    """The memory grows by one byte for each byte, and the line is answered."""

    async def test() -> None:
        async with running(tmp_path, "slow") as app:
            stream = app.stream("slow")
            whole = line(1, 300)
            for at in range(len(whole) - 1):
                stream.send(whole[at : at + 1])
            await until(lambda: stream.is_waiting)
            assert app.service.memory.used == len(whole) - 1
            stream.send(b"\n", more=False)
            assert json.loads(await stream.finish())["kind"] == "new"

    run(test())


@pytest.mark.parametrize("kind", [NDJSON, ARROW])
def test_slow_line_ends_the_stream(tmp_path: Path, kind: str) -> None:
    """Bytes that come now and then do not keep a stream open: the line or the batch must get on."""

    async def test() -> None:
        async with running(tmp_path, "slow", idle_timeout=0.5) as app:
            stream = app.stream("slow", kind)
            begun = line(1) if kind == NDJSON else arrow(TEXT)
            stream.send(begun[:8])
            sent = 8
            while not stream.done.done() and sent < len(begun) - 1:
                stream.send(begun[sent : sent + 1])
                sent += 1
                before = stream.asked
                await until(lambda before=before: stream.asked > before or stream.done.done())  # type: ignore[misc]
                # a byte each time that most of the allowed pause is over
                await wait(0.3)
            assert stream.done.done()
            assert b"timeout" in stream.body

    run(test())


async def wait(seconds: float) -> None:
    """Waits, like a slow client."""
    await asyncio.sleep(seconds)


def test_empty_lines_count_as_documents(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", source_rate="1000/hour", idle_timeout=0.2) as app:
            stream = app.stream("greedy")
            stream.send(b"\n" * 100_000, more=False)
            last = json.loads((await stream.finish()).splitlines()[-1])
            assert (last["line"], last["problem"]["code"]) == (0, "rate-limited")

    run(test())


# -- Arrow


def lying_batches() -> Iterator[tuple[str, bytes]]:
    """Streams of a few hundred bytes that announce very many rows."""
    for name, column in (
        (
            "vectors without numbers",
            pa.FixedSizeListArray.from_arrays(
                pa.array([], pa.float32()), type=pa.list_(pa.float32(), 1)
            ),
        ),
        ("texts", pa.array([], pa.string())),
        ("lists", pa.array([], pa.list_(pa.float32()))),
    ):
        out = io.BytesIO()
        batch = pa.record_batch({"text" if name == "texts" else "vector": column})
        with pa.ipc.new_stream(out, batch.schema) as writer:
            writer.write_batch(batch)
        body = bytearray(out.getvalue())
        # the batch's number of rows, and that of its columns, are 64-bit zeros in its metadata
        found = pa.ipc.MessageReader.open_stream(bytes(body))
        schema_size = len(found.read_next_message().serialize())
        metadata_size = struct.unpack_from("<i", body, schema_size + 4)[0]
        for at in range(schema_size + 8, schema_size + 8 + metadata_size - 7, 8):
            lie = bytearray(body)
            struct.pack_into("<q", lie, at, 1 << 40)
            yield f"{name} at {at}", bytes(lie)
    batch = pa.record_batch(
        {
            "vector": pa.Array.from_buffers(
                pa.list_(pa.float32(), 0),
                (1 << 31) - 1,
                [None],
                children=[pa.array([], pa.float32())],
            )
        }
    )
    out = io.BytesIO()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    yield "empty vectors", out.getvalue()


def test_arrow_stream_with_wrong_lengths_is_rejected(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "liar") as app:
            for name, body in lying_batches():
                stream = app.stream("liar", ARROW)
                stream.send(body, more=False)
                answers = pa.ipc.open_stream(await stream.finish()).read_all().to_pylist()
                assert len(answers) <= 1, name
                assert all(
                    json.loads(answer["problem"])["code"] == "invalid-request" for answer in answers
                ), name

    run(test())


def test_batches_without_rows_count_as_documents(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", source_rate="20/hour", idle_timeout=0.2) as app:
            out = io.BytesIO()
            batch = pa.record_batch({"text": pa.array([], pa.string())})
            with pa.ipc.new_stream(out, batch.schema) as writer:
                for _ in range(200):
                    writer.write_batch(batch)
            stream = app.stream("greedy", ARROW)
            stream.send(out.getvalue(), more=False)
            answers = pa.ipc.open_stream(await stream.finish()).read_all().to_pylist()
            assert json.loads(answers[-1]["problem"])["code"] == "rate-limited"

    run(test())


# -- bodies


def test_large_bodies_are_rejected_before_reading(tmp_path: Path) -> None:
    """Some of forty documents of 9.8 MB are accepted, others wait, and another token is served."""

    async def test() -> None:
        async with running(tmp_path, "greedy", "other", byte_rate="10000000000/second") as app:
            size = 9_800_000
            some = [
                app.request("greedy", "/v1/scopes/greedy/documents", length=size) for _ in range(40)
            ]
            await until(lambda: all(one.asked or one.done.done() for one in some))
            refused = [one for one in some if one.done.done()]
            reading = [one for one in some if not one.done.done()]
            assert app.service.memory.used == len(reading) * size <= app.service.memory.caller_share
            assert len(refused) == 32
            assert {problem_of(one) for one in refused} == {(429, "rate-limited")}
            assert not any(one.asked for one in refused)
            body = b'{"id": "large", "text": "' + b"some words " * 800_000 + b'"}'
            answer = await app.post("other", "/v1/scopes/other/documents", body)
            assert await answer.status() == 200
            await ended(reading)
            assert app.service.memory.used == 0

    run(test())


def test_chunked_bodies_are_counted_while_they_arrive(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", "other") as app:
            some = [app.request("greedy", "/v1/scopes/greedy/query") for _ in range(10)]
            for exchange in some:
                for _ in range(12):
                    exchange.send(b" " * MEGABYTE)
            await until(lambda: all(one.is_waiting or one.done.done() for one in some))
            assert app.service.memory.used <= app.service.memory.caller_share
            refused = [one for one in some if one.done.done()]
            assert {problem_of(one) for one in refused} == {(429, "rate-limited")}
            await upserts(app, "other")
            await ended([one for one in some if not one.done.done()])
            assert app.service.memory.used == 0

    run(test())


def test_waiting_documents_are_bounded_in_bytes(tmp_path: Path, barrier: Barrier) -> None:
    """A document is counted as long as it waits, also when its request was given up."""

    async def test() -> None:
        async with running(tmp_path, "greedy", "other", timeout=1.0) as app:
            body = b'{"text": "' + b"some words " * 400_000 + b'"}'
            some = [
                app.request("greedy", "/v1/scopes/greedy/documents", length=len(body))
                for _ in range(25)
            ]
            for exchange in some:
                exchange.send(body, more=False)
            codes = [await exchange.status() for exchange in some]
            assert set(codes) == {429, 503}
            await until(lambda: app.service.requests.used == 0)
            assert (
                app.service.places.used * len(body) / 2
                < app.service.memory.used
                <= app.service.memory.caller_share
            )
            await upserts(app, "other")
            barrier.opened.set()
            await until(lambda: app.service.memory.used == 0)

    run(test())


def test_one_token_cannot_fill_the_queue(tmp_path: Path, barrier: Barrier) -> None:
    async def test() -> None:
        async with running(tmp_path, "greedy", "other", queue=40) as app:
            some = [
                app.request("greedy", "/v1/scopes/greedy/documents", length=len(line(1)))
                for _ in range(30)
            ]
            for exchange in some:
                exchange.send(line(1), more=False)
            await until(lambda: sum(one.done.done() for one in some) == 20)
            assert {problem_of(one) for one in some if one.done.done()} == {(429, "rate-limited")}
            await upserts(app, "other")
            barrier.opened.set()
            codes = [await one.status() for one in some]
            assert (codes.count(200), codes.count(429)) == (10, 20)

    run(test())


def test_one_token_cannot_have_all_requests(tmp_path: Path) -> None:
    """Requests whose bodies do not come are held open, but not all that the server answers at
    once."""

    async def test() -> None:
        async with running(tmp_path, "greedy", "other", requests=40) as app:
            some = [app.request("greedy", "/v1/scopes/greedy/query", length=100) for _ in range(39)]
            await until(lambda: all(one.asked or one.done.done() for one in some))
            assert sum(one.done.done() for one in some) == 29
            await upserts(app, "other")
            await ended([one for one in some if not one.done.done()])

    run(test())


def test_addresses_without_token_are_separate_callers(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, host="192.0.2.1", allow_anonymous=True, requests=40) as app:
            some = [
                app.request("", "/v1/scopes/a/query", length=100, source="192.0.2.2")
                for _ in range(15)
            ]
            await until(lambda: all(one.asked or one.done.done() for one in some))
            assert sum(one.done.done() for one in some) == 5
            answer = await app.post("", "/v1/scopes/a/documents", line(1), source="192.0.2.3")
            assert await answer.status() == 200
            await ended([one for one in some if not one.done.done()])

    run(test())


def test_slow_body_times_out(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, "slow", timeout=0.5) as app:
            exchange = app.request("slow", "/v1/scopes/slow/documents", length=100)
            exchange.send(b"{")
            assert await exchange.status() == 503
            await exchange.finish()
            assert problem_of(exchange) == (503, "timeout")
            assert app.service.memory.used == app.service.requests.used == 0

    run(test())


def test_bytes_have_a_rate(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(
            tmp_path, "greedy", "other", byte_rate="1000/hour", idle_timeout=0.2
        ) as app:
            path = "/v1/scopes/greedy/query"
            body = json.dumps({"text": "word " * 150}).encode()
            assert await (await app.post("greedy", path, body)).status() == 200
            refused = await app.post("greedy", path, body)
            assert problem_of(refused) == (429, "rate-limited")
            stream = app.stream("greedy")
            stream.send(line(1, 300), more=False)
            assert b"rate-limited" in await stream.finish()
            await upserts(app, "other")

    run(test())


# -- threads


@pytest.mark.parametrize("path", ["documents", "query", "clusters"])
def test_work_of_one_token_leaves_threads_to_others(
    tmp_path: Path, barrier: Barrier, path: str
) -> None:
    """Batches of one scope are sequential; batches of different scopes are not."""

    async def test() -> None:
        async with running(tmp_path, "greedy", "other", scopes=("greedy*",)) as app:
            body = json.dumps({"text": TEXT}).encode()
            method = "GET" if path == "clusters" else "POST"
            some = [
                app.request(
                    "greedy", f"/v1/scopes/greedy{at}/{path}", length=len(body), method=method
                )
                for at in range(50)
            ]
            for exchange in some:
                exchange.send(body, more=False)
            await until(lambda: barrier.entered)
            await upserts(app, "other")
            for other, how in (("query", "POST"), ("clusters", "GET")):
                answer = await app.post("other", f"/v1/scopes/other/{other}", body, method=how)
                assert await answer.status() == 200
            barrier.opened.set()
            assert {await one.status() for one in some} == {200}

    run(test())
