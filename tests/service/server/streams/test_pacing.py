"""Tests of the pace of streams, with a clock that moves only while a stream sleeps."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from nearkin.service.server.http.callers import Caller
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.tokens import LOCAL_PRINCIPAL, Principal
from nearkin.service.server.streams.format import StreamPart
from nearkin.service.server.streams.pacing import StreamPacer

WRITER = Principal("writer", ("shop",), ("write",))
IDLE_TIMEOUT = 30.0


class Clock:
    """A clock, and two rates in which one document and one byte have room in each interval."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interval: float) -> None:
        self.now = 1000.0
        self.interval = interval
        self.next_documents = self.next_bytes = self.now
        self.counts: list[int] = []
        self.sizes: list[int] = []
        monkeypatch.setattr("time.monotonic", lambda: self.now)

        async def sleep(seconds: float) -> None:
            assert 0 < seconds <= 1
            self.now += seconds

        monkeypatch.setattr("nearkin.service.server.streams.pacing.asyncio.sleep", sleep)

    async def take_documents(self, principal: Principal, source: str, count: int) -> float:
        if self.now < self.next_documents:
            return self.next_documents - self.now
        self.next_documents = self.now + self.interval * count
        self.counts.append(count)
        return 0.0

    def take_bytes(self, caller: Caller, size: int) -> float:
        if self.now < self.next_bytes:
            return self.next_bytes - self.now
        self.next_bytes = self.now + self.interval * size
        self.sizes.append(size)
        return 0.0


def pacer_of(clock: Clock, step: int, current: Principal | None = WRITER) -> StreamPacer:
    authenticator: Any = SimpleNamespace(
        admission_step=lambda principal: step,
        take_documents=clock.take_documents,
        tokens=SimpleNamespace(
            session_mark=lambda name: f"mark of {name}",
            find_by_mark=lambda name, mark: current if mark == f"mark of {name}" else None,
        ),
    )
    service: Any = SimpleNamespace(
        byte_rates=SimpleNamespace(take=clock.take_bytes),
        settings=SimpleNamespace(idle_timeout=IDLE_TIMEOUT),
    )
    return StreamPacer(authenticator, service, WRITER, Caller("writer"), "192.0.2.1")


def part_of(rows: int, size: int = 1) -> StreamPart:
    return StreamPart(rows, size, list)


@pytest.mark.parametrize(
    ("rows", "steps"), [(0, []), (1, [1]), (4, [4]), (5, [4, 1]), (9, [4, 4, 1])]
)
def test_documents_of_a_part_are_counted_in_steps(
    rows: int, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, interval=0.25)
    asyncio.run(pacer_of(clock, step=4).admit(part_of(rows, 77)))
    assert clock.counts == steps
    assert clock.sizes == [77]


def test_part_waits_until_the_rates_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, interval=2.5)
    pacer = pacer_of(clock, step=1)

    async def admit_three() -> None:
        for _ in range(3):
            await pacer.admit(part_of(1))

    asyncio.run(admit_three())
    assert clock.counts == clock.sizes == [1, 1, 1]
    assert clock.now == pytest.approx(1005.0)


def test_part_without_room_within_the_idle_timeout_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch, interval=50.0)
    pacer = pacer_of(clock, step=1)

    async def admit_two() -> None:
        await pacer.admit(part_of(1))
        await pacer.admit(part_of(1))

    with pytest.raises(ProblemError, match="no room for more documents") as rejected:
        asyncio.run(admit_two())
    assert rejected.value.code == "rate-limited"
    assert rejected.value.retry_after == pytest.approx(1050.0 - clock.now)
    assert IDLE_TIMEOUT < clock.now - 1000.0 <= IDLE_TIMEOUT + 2


@pytest.mark.parametrize(
    ("current", "is_valid"),
    [
        (WRITER, True),
        (Principal("writer", ("*",), ("write",)), True),
        (Principal("writer", ("shop",), ("read",)), False),
        (Principal("writer", ("other",), ("write",)), False),
        (None, False),
    ],
    ids=["as it was", "more scopes", "without the right", "without the scope", "revoked"],
)
def test_stream_needs_a_token_that_may_still_write(
    current: Principal | None, is_valid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pacer = pacer_of(Clock(monkeypatch, interval=1.0), 1, current)
    if is_valid:
        pacer.require_token("shop")
        return
    with pytest.raises(ProblemError, match="not valid any more") as rejected:
        pacer.require_token("shop")
    assert rejected.value.status == 401


@pytest.mark.parametrize("is_open", [True, False])
def test_stream_without_a_token_needs_an_open_server(is_open: bool) -> None:
    authenticator: Any = SimpleNamespace(is_open=is_open)
    nothing: Any = None
    pacer = StreamPacer(authenticator, nothing, LOCAL_PRINCIPAL, Caller("local"), "local")
    if is_open:
        pacer.require_token("shop")
        return
    with pytest.raises(ProblemError, match="not valid any more"):
        pacer.require_token("shop")
