"""Batches of single documents that arrive at the same time."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearkin.errors import StoreError, UsageError
from nearkin.index.entry import Outcome
from nearkin.service.server.http.fair_executor import FairExecutor
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import ResourcePool
from nearkin.service.server.micro_batcher import MicroBatcher


class Recorder:
    """An upsert function that records its batches, and waits until it is released."""

    def __init__(self, bad: str = "", broken: bool = False) -> None:
        self.batches: list[tuple[str, list[str]]] = []
        self.released = threading.Event()
        self.released.set()
        self.bad = bad
        self.broken = broken

    def __call__(
        self, scope: str, documents: Sequence[object], ids: Sequence[str | None]
    ) -> list[Outcome]:
        assert self.released.wait(300)
        names = [str(name) for name in ids]
        self.batches.append((scope, names))
        if self.broken:
            raise StoreError("gone")
        if self.bad in names:
            raise UsageError(f"{self.bad} is not a document")
        return [Outcome("new", "search", name, name, name, 1.0) for name in names]


def room_of(recorder: Recorder, executor: ThreadPoolExecutor, most: int, room: int) -> MicroBatcher:
    """Returns a batcher in which one caller may hold all places."""
    memory = ResourcePool("bytes", 1 << 30, share=1.0)
    return MicroBatcher(
        recorder,
        FairExecutor(executor, 4, 4),
        most,
        ResourcePool("documents", room, share=1.0),
        memory,
    )


def run(
    recorder: Recorder, names: list[tuple[str, str]], most: int = 8, room: int = 100
) -> list[Outcome | BaseException]:
    async def main() -> list[Outcome | BaseException]:
        with ThreadPoolExecutor(4) as executor:
            waiting = room_of(recorder, executor, most, room)
            jobs = [waiting.upsert(scope, "text", name) for scope, name in names]
            done = await asyncio.gather(*jobs, return_exceptions=True)
            await waiting.drain()
            assert waiting.depth == 0
            return done

    return asyncio.run(main())


def test_documents_that_arrive_during_a_batch_form_the_next() -> None:
    recorder = Recorder()
    done = run(recorder, [("a", str(i)) for i in range(20)])
    assert [outcome.id for outcome in done if isinstance(outcome, Outcome)] == [
        str(i) for i in range(20)
    ]
    assert [len(names) for _, names in recorder.batches] == [1, 8, 8, 3]
    assert [name for _, names in recorder.batches for name in names] == [str(i) for i in range(20)]


def test_scopes_do_not_share_batches() -> None:
    recorder = Recorder()
    run(recorder, [("ab"[i % 2], str(i)) for i in range(10)])
    for scope in "ab":
        mine = [name for one, names in recorder.batches if one == scope for name in names]
        assert mine == [str(i) for i in range(10) if "ab"[i % 2] == scope]


def test_invalid_document_does_not_fail_its_batch() -> None:
    recorder = Recorder(bad="5")
    done = run(recorder, [("a", str(i)) for i in range(9)])
    assert isinstance(done[5], UsageError)
    assert [i for i, one in enumerate(done) if isinstance(one, Outcome)] == [0, 1, 2, 3, 4, 6, 7, 8]


def test_store_failure_fails_the_batch() -> None:
    done = run(Recorder(broken=True), [("a", str(i)) for i in range(3)])
    assert all(isinstance(one, StoreError) for one in done)


def test_documents_beyond_the_limits_are_rejected_at_once() -> None:
    done = run(Recorder(), [("a", str(i)) for i in range(8)], room=5)
    refused = [one for one in done if isinstance(one, ProblemError)]
    assert [one.code for one in refused] == ["busy"] * 3
    assert all(one.retry_after for one in refused)


def test_cancelled_request_does_not_delay_others() -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            recorder = Recorder()
            recorder.released.clear()
            waiting = room_of(recorder, executor, 8, 100)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await waiting.upsert("a", "text", "1")
            recorder.released.set()
            outcome = await waiting.upsert("a", "text", "2")
            assert outcome.id == "2"
            await waiting.drain()
            assert waiting.depth == 0

    asyncio.run(main())
