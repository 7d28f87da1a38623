"""Pauses before the answers to invalid requests.

A refusal costs little, so one client that sends nothing but invalid requests over many connections
could keep the event loop busy, while valid requests wait for the turn of their caller.
"""

import asyncio
from collections import Counter

from nearkin.service.server.http.callers import UNKNOWN_CALLER, Caller

PAUSE = 0.01
"""Seconds by which an answer waits for each invalid request of its caller that waits already."""
LONGEST = 1.0
"""The longest pause in seconds."""
INVALID = ("invalid-request", "not-json", "unsupported-media-type")
"""The codes of the problems of requests that are invalid whatever the server contains."""


class Pauses:
    """Lets the answers to invalid requests of one caller wait for each other.

    One connection never waits. Of many, about a hundred requests a second are answered.
    """

    def __init__(self) -> None:
        self._waiting: Counter[Caller] = Counter()

    async def wait(self, caller: Caller) -> None:
        """Waits before an invalid request of a caller is answered.

        The only caller of a server need not wait, nor does one that is not known yet.
        """
        if caller.unshared or caller == UNKNOWN_CALLER:
            return
        seconds = min(PAUSE * self._waiting[caller], LONGEST)
        self._waiting[caller] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting[caller] -= 1
            if not self._waiting[caller]:
                del self._waiting[caller]
