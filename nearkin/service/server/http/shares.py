"""Limits on shared resources, and the share of each that one caller may hold.

Memory, disk, open streams and places in a queue are pools. One caller holds at most a share of a
pool, so that the rest is always left to others. A rejected caller receives a response at once and
may retry; nothing waits in memory for memory.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from nearkin.service.server.http.callers import Caller
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.rates import MIN_WAIT, parse_rate

RETRY_AFTER = 1.0
"""Seconds after which a rejected caller may retry."""
MAX_REMEMBERED_CALLERS = 10_000
"""Maximum number of callers whose byte rates are remembered. The caller that was idle for longest
is forgotten first."""


class ResourcePool:
    """A limited amount of a resource, from which callers take and to which they return."""

    def __init__(self, unit: str, total: int, share: float) -> None:
        self.unit = unit
        self.total = total
        self.caller_share = max(1, int(total * share))
        self.used = 0
        self._held_by_caller: Counter[str] = Counter()
        self._released = asyncio.Event()

    def caller_limit(self, caller: Caller) -> int:
        """Returns the amount that a caller may hold."""
        return self.total if caller.unshared else self.caller_share

    def has_room(self, caller: Caller, amount: int) -> bool:
        """Returns True if `take` would succeed."""
        if self.used + amount > self.total:
            return False
        return self._held_by_caller[caller.key] + amount <= self.caller_limit(caller)

    def take(self, caller: Caller, amount: int) -> None:
        """Adds to the amount that a caller holds."""
        if not self.has_room(caller, amount):
            if self.used + amount <= self.total:
                raise ProblemError(
                    "rate-limited",
                    (
                        f"one caller may hold {self.caller_limit(caller):,} {self.unit}; wait "
                        f"until "
                        f"earlier requests are answered"
                    ),
                    retry_after=RETRY_AFTER,
                )
            raise ProblemError(
                "busy",
                f"all {self.total:,} {self.unit} are in use; retry later",
                retry_after=RETRY_AFTER,
            )
        self.used += amount
        self._held_by_caller[caller.key] += amount

    def release(self, caller: Caller, amount: int) -> None:
        """Returns an amount that `take` added."""
        self.used -= amount
        self._held_by_caller[caller.key] -= amount
        if not self._held_by_caller[caller.key]:
            del self._held_by_caller[caller.key]
        self._released.set()

    async def take_within(self, caller: Caller, amount: int, seconds: float) -> None:
        """Takes an amount like `take`, but waits until there is room.

        Args:
            seconds: Maximum number of seconds to wait.
        """
        deadline = time.monotonic() + seconds
        while not self.has_room(caller, amount) and time.monotonic() < deadline:
            self._released.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._released.wait()
        self.take(caller, amount)


class Reservation:
    """The amount of a pool that one request holds. It can grow and shrink.

    Args:
        patience: Maximum number of seconds that `grow` waits for room.
    """

    def __init__(self, pool: ResourcePool, caller: Caller, patience: float = 0.0) -> None:
        self._pool = pool
        self._caller = caller
        self._patience = patience
        self.size = 0

    def has_room(self, size: int) -> bool:
        """Returns True if the reservation can grow to `size` without waiting."""
        return size <= self.size or self._pool.has_room(self._caller, size - self.size)

    def add(self, amount: int) -> None:
        """Increases the reservation without waiting."""
        self._pool.take(self._caller, amount)
        self.size += amount

    async def grow(self, size: int) -> None:
        """Increases the reservation to at least `size`, and waits until there is room."""
        missing = size - self.size
        if missing > 0:
            await self._pool.take_within(self._caller, missing, self._patience)
            self.size += missing

    def shrink(self, size: int = 0) -> None:
        """Decreases the reservation to at most `size`."""
        surplus = self.size - size
        if surplus > 0:
            self._pool.release(self._caller, surplus)
            self.size = size


class ByteRateLimiter:
    """A limit on the bytes that each caller may send, counted as token buckets.

    Args:
        clock: Returns the current time in seconds.
    """

    def __init__(self, rate: str, clock: Callable[[], float] = time.monotonic) -> None:
        limit = parse_rate(rate)
        self.burst = limit.amount
        self._per_second = limit.amount / limit.get_expiry()
        self._clock = clock
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: Caller, size: int) -> float:
        """Counts the bytes of a request if the rate has room for them.

        A single request may exceed the burst. The next request waits for the excess.

        Args:
            caller: The caller that the bytes are counted for.
            size: Number of bytes.

        Returns:
            0 if the bytes were counted; otherwise the seconds until there is room.
        """
        now = self._clock()
        debt, counted_at = self._debts.pop(caller.key, (0.0, now))
        debt = max(0.0, debt - (now - counted_at) * self._per_second)
        if debt + size > self.burst and debt > 0:
            self._debts[caller.key] = debt, now
            return max((debt + min(size, self.burst) - self.burst) / self._per_second, MIN_WAIT)
        self._debts[caller.key] = debt + size, now
        if len(self._debts) > MAX_REMEMBERED_CALLERS:
            self._debts.popitem(last=False)
        return 0.0


class ReleaseReservations:
    """ASGI middleware that releases what a request holds when it ends.

    It stores an `ExitStack` in `request.state.reservations`, to which handlers add callbacks.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        with ExitStack() as reservations:
            scope.setdefault("state", {})["reservations"] = reservations
            await self._app(scope, receive, send)
