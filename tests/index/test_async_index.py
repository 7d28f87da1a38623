"""Tests of the index for coroutines."""

import asyncio
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

import nearkin as nk
from tests.index.conftest import Clock
from tests.index.repeatable_calls import CALLS, fill, settings_of, verify


def test_coroutines_have_the_results_of_the_index(url: str) -> None:
    async def main() -> list[str]:
        async with await nk.AsyncIndex.open(url, threshold=0.7) as index:
            first = await index.upsert("a", "one two three four five six", "x")
            many = await index.upsert_many("a", ["one two three four five six seven"], ["y"])
            matches = await index.query("a", "one two three four five six")
            best = await index.match_many("a", ["one two three four five six", "no match"])
            assert best == [matches[0], None]
            text = "one two three four five six"
            misses = [
                await index.near_misses("a", f"{text} {ending}") for ending in ("m n", "o p", "q r")
            ]
            # 4 of the 6 shingles of both texts are the same
            assert {(miss.id, miss.similarity) for found in misses for miss in found} == {
                ("x", 4 / 6)
            }
            cluster = await index.cluster("a", "y")
            assert cluster is not None
            assert (await index.get("a", "x")) is not None
            assert (await index.explain("a", "x", "y")).verdict == "match"
            assert (await index.stats())["records"] == 2
            assert await index.expire() == {"records": 0, "postings": 0}
            assert await index.remove("a", "y")
            return [first.kind, many[0].kind, matches[0].id, cluster.representative]

    assert asyncio.run(main()) == ["new", "match", "x", "x"]


def test_an_index_that_is_opened_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread cannot be cancelled, so it may open an index that nobody waits for any more."""
    began = Event()
    goes_on = Event()
    closed = Event()

    def open_slowly(*_: object, **__: object) -> SimpleNamespace:
        began.set()
        goes_on.wait(10.0)
        return SimpleNamespace(close=closed.set)

    async def main() -> bool:
        opening = asyncio.create_task(nk.AsyncIndex.open("memory://"))
        await asyncio.to_thread(began.wait, 10.0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        goes_on.set()
        return await asyncio.to_thread(closed.wait, 10.0)

    monkeypatch.setattr(nk.Index, "open", open_slowly)
    assert asyncio.run(main())


@pytest.mark.parametrize("name", [name for name in CALLS if name != "parts"])
def test_a_cancelled_task_takes_effect_as_a_whole(name: str, url: str) -> None:
    """A thread cannot be interrupted, so the call goes on, and later calls find what it stored."""
    entered = Event()
    proceed = Event()

    async def main(index: nk.Index) -> None:
        def call() -> object:
            entered.set()
            proceed.wait(60)
            return CALLS[name](index)

        calls: Any = SimpleNamespace(stats=call)
        task = asyncio.create_task(nk.AsyncIndex(calls).stats())
        await asyncio.to_thread(entered.wait)
        task.cancel()
        proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        # the thread ends before the loop does
        await asyncio.get_running_loop().shutdown_default_executor()

    clock = Clock()
    with nk.Index.open(url, **settings_of(name, clock)) as index:
        fill(index, name, clock)
        asyncio.run(main(index))
        verify(index, name)
        CALLS[name](index)
        verify(index, name)
