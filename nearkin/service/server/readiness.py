"""A check whether the store responds.

The result is reused for a second, so that frequent health checks cost little.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from nearkin.errors import StoreError

RESULT_LIFETIME = 1.0
"""Seconds for which the result of a check is reused."""
DEADLINE = 2.0
"""Seconds within which the store must respond. The threads may all wait for it."""


class Readiness:
    """A cached check of the store. At most one check runs at a time.

    Args:
        clock: Returns the current time in seconds.
    """

    def __init__(
        self,
        check: Callable[[], Awaitable[object]],
        clock: Callable[[], float] = time.monotonic,
        deadline: float = DEADLINE,
    ) -> None:
        self._check = check
        self._deadline = deadline
        self._clock = clock
        self._valid_until = -1.0
        self._failure: str | None = None
        self._running: asyncio.Task[None] | None = None

    async def require(self) -> None:
        """Requires that the store responds, or did so less than a second ago."""
        if self._clock() >= self._valid_until:
            running = self._running or asyncio.create_task(self._run_check())
            self._running = running
            # a request that is cancelled must not cancel the check that others wait for
            await asyncio.wait({running}, timeout=self._deadline)
            if not running.done():
                raise StoreError(f"the store did not respond within {self._deadline:g} s")
            running.result()
        if self._failure is not None:
            raise StoreError(self._failure)

    async def _run_check(self) -> None:
        try:
            await self._check()
            self._failure = None
        except StoreError as error:
            # only the text is stored, because an exception would keep the frames of its traceback
            self._failure = str(error)
        finally:
            self._valid_until = self._clock() + RESULT_LIFETIME
            self._running = None
