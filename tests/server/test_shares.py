"""Shares of callers in what all of them use."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearkin.server.http.callers import SERVER_CALLER, Caller, client_network
from nearkin.server.http.fair_executor import FairExecutor
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.shares import ByteRateLimiter, Reservation, ResourcePool
from tests.server.exchange import run, until

A, B = Caller("a"), Caller("b")


def test_pool_limits_each_caller_to_its_share() -> None:
    pool = ResourcePool("bytes", 100, 0.25)
    pool.take(A, 25)
    with pytest.raises(ProblemError, match="one caller may hold") as refused:
        pool.take(A, 1)
    assert (refused.value.code, refused.value.status, refused.value.retry_after) == (
        "rate-limited",
        429,
        1.0,
    )
    pool.take(B, 25)
    pool.take(SERVER_CALLER, 50)
    with pytest.raises(ProblemError, match="in use") as refused:
        pool.take(Caller("c"), 1)
    assert (refused.value.code, refused.value.status) == ("busy", 503)
    pool.release(A, 25)
    pool.take(Caller("c"), 25)
    for caller, amount in ((B, 25), (SERVER_CALLER, 50), (Caller("c"), 25)):
        pool.release(caller, amount)
    assert pool.used == 0


def test_reservation_waits_for_room_until_timeout() -> None:
    async def test() -> None:
        pool = ResourcePool("bytes", 100, 1.0)
        patient, hasty = Reservation(pool, A, 200.0), Reservation(pool, B, 0.0)
        pool.take(B, 90)
        waiting = asyncio.create_task(patient.grow(50))
        with pytest.raises(ProblemError):
            await hasty.grow(50)
        assert not waiting.done()
        pool.release(B, 90)
        await waiting
        assert (patient.size, pool.used) == (50, 50)
        patient.shrink(20)
        patient.shrink(30)
        assert pool.used == 20
        patient.shrink()
        assert pool.used == 0

    run(test())


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
        gates = {"a": threading.Event(), "b": threading.Event()}
        gates["b"].set()
        with ThreadPoolExecutor(4) as executor:
            threads = FairExecutor(executor, 4, 2)
            held = [threads.submit(A, lambda: gates["a"].wait(60)) for _ in range(50)]
            assert threads.running == 2
            assert await threads.submit(B, lambda: gates["b"].wait(60))
            own = [threads.submit(SERVER_CALLER, lambda: gates["a"].wait(60)) for _ in range(2)]
            assert threads.running == 4
            held[10].cancel()
            gates["a"].set()
            done = await asyncio.gather(*held, *own, return_exceptions=True)
            assert sum(one is True for one in done) == 51
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


def test_bytes_are_counted_by_caller() -> None:
    now = [0.0]
    rates = ByteRateLimiter("1000/second", lambda: now[0])
    assert rates.take(A, 600) == 0
    assert rates.take(A, 600) == pytest.approx(0.2)
    assert rates.take(B, 5000) == 0, "one that is larger than the rate passes"
    assert rates.take(B, 1) > 0
    now[0] = 0.21
    assert rates.take(A, 600) == 0
    now[0] = 3.9
    assert rates.take(B, 1) > 0, "and is waited for by the next one"
    now[0] = 4.1
    assert rates.take(B, 1) == 0


def test_addresses_of_one_network_are_one_caller() -> None:
    assert (
        client_network("2001:db8:1:2:3::4")
        == client_network("2001:db8:1:2:ffff::1")
        != client_network("2001:db8:1:3::1")
    )
    assert (
        client_network("::ffff:192.0.2.7")
        == client_network("192.0.2.7")
        != client_network("192.0.2.8")
    )
    assert client_network("testclient") == "testclient"
