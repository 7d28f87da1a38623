"""The check whether the store answers, made at most once a second however many probes come."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from nearkin.errors import StoreError

KEPT = 1.0
"""Seconds for which an answer of the store is repeated."""


class Readiness:
    """An answer that is kept for a second, and asked for by one request at a time.

    Args:
        ask: Asks the store. Raises StoreError if it does not answer.
        clock: Seconds.
    """

    def __init__(self, ask: Callable[[], Awaitable[object]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._clock = ask, clock
        self._until = -1.0
        self._failure: str | None = None
        self._asking: asyncio.Task[None] | None = None

    async def require(self) -> None:
        """Requires that the store answers, or did so less than a second ago.

        Raises:
            StoreError: If it does not.
        """
        if self._clock() >= self._until:
            if self._asking is None:
                self._asking = asyncio.create_task(self._look())
            # a probe that gives up must not cancel what others wait for
            await asyncio.shield(self._asking)
        if self._failure is not None:
            raise StoreError(self._failure)

    async def _look(self) -> None:
        try:
            await self._ask()
            self._failure = None
        except StoreError as error:
            # its text alone: an exception would keep the frames that it passed through
            self._failure = str(error)
        finally:
            self._until = self._clock() + KEPT
            self._asking = None
