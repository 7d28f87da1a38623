"""Threads that callers use in turn."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from nearkin.service.server.http.callers import SERVER_CALLER, Caller
from nearkin.service.server.http.fair_executor import FairExecutor
from tests.service.server.exchange import run, until

A, B = Caller("a"), Caller("b")


def test_callers_take_turns_in_threads() -> None:
    async def test() -> None:
        barrier, order = threading.Event(), list[str]()

        def work(name: str) -> str:
            barrier.wait(60)
            order.append(name)
            return name

        with ThreadPoolExecutor(1) as executor:
            threads = FairExecutor(executor, 1, 1)
            jobs = [threads.submit(A, lambda: work("a")) for _ in range(5)]
            jobs += [threads.submit(B, lambda: work("b")) for _ in range(2)]
            barrier.set()
            assert await asyncio.gather(*jobs) == ["a"] * 5 + ["b"] * 2
        assert order == ["a", "b", "a", "b", "a", "a", "a"] or order == [
            "a",
            "a",
            "b",
            "a",
            "b",
            "a",
            "a",
        ]

    run(test())


def test_fair_executor_limits_threads_of_one_caller() -> None:
    async def test() -> None:
        events = {"a": threading.Event(), "b": threading.Event()}
        events["b"].set()
        with ThreadPoolExecutor(4) as executor:
            threads = FairExecutor(executor, 4, 2)
            waiting = [threads.submit(A, lambda: events["a"].wait(60)) for _ in range(50)]
            assert threads.running == 2
            assert await threads.submit(B, lambda: events["b"].wait(60))
            own = [threads.submit(SERVER_CALLER, lambda: events["a"].wait(60)) for _ in range(2)]
            assert threads.running == 4
            waiting[10].cancel()
            events["a"].set()
            results = await asyncio.gather(*waiting, *own, return_exceptions=True)
            assert results.count(True) == 51
            await until(lambda: threads.running == 0)

    run(test())


def test_cancelled_call_releases_its_documents() -> None:
    async def test() -> None:
        barrier, called = threading.Event(), list[int]()
        with ThreadPoolExecutor(1) as executor:
            threads = FairExecutor(executor, 1, 1)
            first = threads.submit(A, lambda: barrier.wait(60))
            second = threads.submit(A, lambda: called.append(1))
            second.cancel()
            await asyncio.sleep(0)
            assert threads._waiting["a"][0].work is None
            barrier.set()
            assert await first
            await threads.submit(A, lambda: None)
        assert not called

    run(test())
