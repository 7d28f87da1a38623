"""Bounds on what all callers use together, and the share of each bound that one caller may hold.

A caller is a token, or an address on a server that needs no token. Memory, disk, places in a queue and threads are pools. One
caller holds at most a share of a pool, so that the rest is always left to others. A refused caller is answered at once and may
repeat the request; nothing waits in memory for a place in memory.
"""

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from nearkin.server.http.problems import ProblemError
from nearkin.server.http.rates import parse_rate

RETRY_AFTER = 1.0
IPV6_NETWORK = 64
"""Bits of an IPv6 address that name one customer's network; whoever has one has all 2^64 addresses of it."""
CALLERS_KEPT = 10_000
"""Callers whose byte rates are remembered. The one that was idle for longest is forgotten first."""


@dataclass(frozen=True)
class Caller:
    """The client for which a request is counted.

    Attributes:
        key: A name that is unique among callers.
        unshared: Whether the caller may hold the whole of a pool. True for the server's own tasks, and for programs of this
            machine on a server that only this machine can reach and that has no tokens.
    """

    key: str
    unshared: bool = False


SERVER_CALLER = Caller("server", unshared=True)
UNKNOWN = Caller("unknown")
CURRENT_CALLER: ContextVar[Caller] = ContextVar("caller", default=UNKNOWN)
"""The caller of the current request. The server's background tasks set it to SERVER."""


@lru_cache(4096)
def client_network(address: str) -> str:
    """Returns what connections of one origin have in common: an IPv4 address, or the /64 network of an IPv6 address.

    Examples:
        >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3::4")
        ('192.0.2.7', '2001:db8:1:2::/64')
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), IPV6_NETWORK), strict=False))


class Pool:
    """An amount from which callers take and to which they return: bytes of memory or disk, streams, documents that wait.

    Args:
        what: Name of the unit, for messages, in the plural.
        total: Amount that all callers may hold together.
        share: Share of the total that one caller may hold, in (0, 1].
    """

    def __init__(self, what: str, total: int, share: float) -> None:
        self.what, self.total = what, total
        self.part = max(1, int(total * share))
        self.used = 0
        self._held: Counter[str] = Counter()
        self._freed = asyncio.Event()

    def caller_limit(self, caller: Caller) -> int:
        """Returns how much a caller may hold."""
        return self.total if caller.unshared else self.part

    def has_room(self, caller: Caller, amount: int) -> bool:
        """Returns whether `take` would succeed."""
        return self.used + amount <= self.total and self._held[caller.key] + amount <= self.caller_limit(caller)

    def take(self, caller: Caller, amount: int) -> None:
        """Adds to what a caller holds.

        Raises:
            ProblemError: `rate-limited` if the caller's share would be exceeded, `busy` if the total would be.
        """
        if not self.has_room(caller, amount):
            if self.used + amount <= self.total:
                limit = f"{self.caller_limit(caller):,} {self.what} are the share of one caller"
                raise ProblemError(
                    "rate-limited", f"{limit}; wait until earlier requests are answered", retry_after=RETRY_AFTER
                )
            raise ProblemError("busy", f"{self.total:,} {self.what} are in use", retry_after=RETRY_AFTER)
        self.used += amount
        self._held[caller.key] += amount

    def release(self, caller: Caller, amount: int) -> None:
        """Releases what `take` added."""
        self.used -= amount
        self._held[caller.key] -= amount
        if not self._held[caller.key]:
            del self._held[caller.key]
        self._freed.set()

    async def wait(self, caller: Caller, amount: int, seconds: float) -> None:
        """Does what `take` does, but waits up to some seconds until there is room.

        Raises:
            ProblemError: The error of `take`, if there was no room in time.
        """
        until = time.monotonic() + seconds
        while not self.has_room(caller, amount) and time.monotonic() < until:
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await self._freed.wait()
        self.take(caller, amount)


class Reservation:
    """What one request holds of a pool: an amount that grows and shrinks.

    Args:
        pool: The pool.
        caller: The caller that it is counted for.
        patience: Seconds that `grow` waits for room.
    """

    def __init__(self, pool: Pool, caller: Caller, patience: float = 0.0) -> None:
        self._pool, self._caller, self._patience = pool, caller, patience
        self.size = 0

    def has_room(self, size: int) -> bool:
        """Returns whether the amount may be raised to `size` without waiting."""
        return size <= self.size or self._pool.has_room(self._caller, size - self.size)

    def add(self, amount: int) -> None:
        """Raises the amount without waiting.

        Raises:
            ProblemError: If there is no room.
        """
        self._pool.take(self._caller, amount)
        self.size += amount

    async def grow(self, size: int) -> None:
        """Raises the amount to at least `size`; waits for room.

        Raises:
            ProblemError: If there was no room in time.
        """
        more = size - self.size
        if more > 0:
            await self._pool.wait(self._caller, more, self._patience)
            self.size += more

    def shrink(self, size: int = 0) -> None:
        """Lowers the amount to at most `size`."""
        less = self.size - size
        if less > 0:
            self._pool.release(self._caller, less)
            self.size = size


class ByteRateLimiter:
    """Bytes of documents that each caller may send per time, counted by this process as token buckets.

    Args:
        rate: The rate, for example `100000000/second`.
        clock: Returns seconds.
    """

    def __init__(self, rate: str, clock: Callable[[], float] = time.monotonic) -> None:
        item = parse_rate(rate)
        self.burst = item.amount
        self._per_second = item.amount / item.get_expiry()
        self._clock = clock
        self._owed: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: Caller, size: int) -> float:
        """Counts bytes, and returns 0; or counts nothing, and returns the seconds until there is room.

        A single request may exceed the burst. What it took too much is waited for by the next one.
        """
        now = self._clock()
        owed, at = self._owed.pop(caller.key, (0.0, now))
        owed = max(0.0, owed - (now - at) * self._per_second)
        if owed + size > self.burst and owed > 0:
            self._owed[caller.key] = owed, now
            return max((owed + min(size, self.burst) - self.burst) / self._per_second, 0.05)
        self._owed[caller.key] = owed + size, now
        if len(self._owed) > CALLERS_KEPT:
            self._owed.popitem(last=False)
        return 0.0


class ReleaseReservations:
    """ASGI middleware that gives a request a stack of what it holds (`request.state.reservations`) and releases it at the end.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        with ExitStack() as reservations:
            scope.setdefault("state", {})["reservations"] = reservations
            await self._app(scope, receive, send)


Then = Callable[["asyncio.Future[Any]"], None]


class _Job:
    """A call that waits for a thread, and what is called with its result."""

    __slots__ = ("caller", "then", "work")

    def __init__(self, caller: Caller, work: Callable[[], Any], then: Then) -> None:
        self.caller = caller
        self.work: Callable[[], Any] | None = work
        self.then = then

    def drop(self, _: object) -> None:
        """Forgets the call: its documents need not wait for the thread that would have skipped it."""
        self.work = None


def _deliver(done: "asyncio.Future[Any]", ended: "asyncio.Future[Any]") -> None:
    """Takes the result of one future over to another one, unless nobody waits for that any more."""
    error = None if ended.cancelled() else ended.exception()
    if done.done():
        return
    if ended.cancelled():
        done.cancel()
    elif error is not None:
        done.set_exception(error)
    else:
        done.set_result(ended.result())


class FairExecutor:
    """Threads that callers use in turn. A caller's calls start in order; callers with waiting calls take turns.

    Args:
        executor: The threads.
        threads: Calls that run at once.
        per_caller: Calls of one caller that run at once, except of one that is `unshared`.
    """

    def __init__(self, executor: Executor, threads: int, per_caller: int) -> None:
        self._executor, self._free, self._per_caller = executor, threads, per_caller
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._running: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return sum(self._running.values())

    def submit(self, caller: Caller, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Calls a function in a thread as soon as it is the caller's turn; returns its result."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        job = _Job(caller, work, partial(_deliver, done))
        done.add_done_callback(job.drop)
        self._add(job)
        return done

    def start(self, caller: Caller, work: Callable[[], Any], then: Then) -> None:
        """Does what `submit` does, but calls `then` with the result, without another turn of the event loop."""
        self._add(_Job(caller, work, then))

    def close(self) -> None:
        """Cancels the calls that wait."""
        cancelled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        waiting = [job for jobs in self._waiting.values() for job in jobs]
        self._waiting.clear()
        for job in waiting:
            job.then(cancelled)

    def _add(self, job: _Job) -> None:
        self._waiting.setdefault(job.caller.key, deque()).append(job)
        self._start()

    def _start(self) -> None:
        """Gives free threads to callers that are below their limit, one call each in turn."""
        skipped = 0
        while self._free and self._waiting and skipped < len(self._waiting):
            key, jobs = self._waiting.popitem(last=False)
            job = jobs[0]
            if self._running[key] >= self._per_caller and not job.caller.unshared:
                self._waiting[key] = jobs
                skipped += 1
                continue
            jobs.popleft()
            if jobs:
                self._waiting[key] = jobs
            if job.work is not None:
                self._run(key, job)
                skipped = 0

    def _run(self, key: str, job: _Job) -> None:
        assert job.work is not None
        self._free -= 1
        self._running[key] += 1
        running = asyncio.get_running_loop().run_in_executor(self._executor, job.work)
        running.add_done_callback(lambda ended: self._ended(key, job, ended))

    def _ended(self, key: str, job: _Job, ended: "asyncio.Future[Any]") -> None:
        self._free += 1
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        job.then(ended)
        self._start()
