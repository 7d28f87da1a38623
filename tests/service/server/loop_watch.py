"""Measures how long an event loop was blocked, in a unit that does not depend on the machine."""

import asyncio
import time
from types import TracebackType
from typing import Any, Self


def unit_of_work() -> float:
    """Returns the CPU seconds of this thread that a fixed computation takes: about 15 ms of Python
    on a current machine."""
    seconds = []
    for _ in range(5):
        began = time.thread_time()
        sum(range(1_000_000))
        seconds.append(time.thread_time() - began)
    return sorted(seconds)[2]


class LoopWatch:
    """Watches the steps of an event loop of asyncio, inside a `with` block in a coroutine.

    A step is what happens between two moments at which other requests may go on. The CPU time of
    the loop's thread is counted, so that other processes do not matter; it is divided by a unit of
    work, so that the speed of the machine does not either.

    Attributes:
        longest: The longest step, in units of work; known after the block.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._seconds = 0.0

    def __enter__(self) -> Self:
        self._unit = unit_of_work()
        self._really = asyncio.Handle._run
        really = self._really

        def timed(handle: Any) -> None:
            began = time.thread_time()
            really(handle)
            self._seconds = max(self._seconds, time.thread_time() - began)

        asyncio.Handle._run = timed  # type: ignore[method-assign]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.Handle._run = self._really  # type: ignore[method-assign]
        self.longest = self._seconds / max(self._unit, unit_of_work())
