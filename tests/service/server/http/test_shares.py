"""Limits on shared resources, and the share of each caller."""

import asyncio

import pytest

from nearkin.service.server.http.callers import SERVER_CALLER, Caller
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.shares import ByteRateLimiter, Reservation, ResourcePool
from tests.service.server.exchange import run

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
        patient = Reservation(pool, A, 200.0)
        hasty = Reservation(pool, B, 0.0)
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


def test_bytes_are_counted_by_caller() -> None:
    now = [0.0]
    rates = ByteRateLimiter("1000/second", lambda: now[0])
    assert rates.take(A, 600) == 0
    assert rates.take(A, 600) == pytest.approx(0.2)
    assert rates.take(B, 5000) == 0, "a request above the rate passes"
    assert rates.take(B, 1) > 0
    now[0] = 0.21
    assert rates.take(A, 600) == 0
    now[0] = 3.9
    assert rates.take(B, 1) > 0, "the next request waits for it"
    now[0] = 4.1
    assert rates.take(B, 1) == 0
