"""How much one token, and one source address, may ask for."""

import time
from functools import lru_cache

from limits import RateLimitItem, parse
from limits.aio.storage import Storage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import ConfigurationError
from limits.storage import storage_from_string

from nearkin.errors import UsageError


@lru_cache(1024)
def parse_rate(text: str) -> RateLimitItem:
    """A rate as `100/second` or `5000 per 10 minutes`.

    Examples:
        >>> parse_rate("100/second").amount
        100

    Raises:
        UsageError: It is none.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"rate {text!r} is not of the form 100/second or 5000/10 minutes") from error


class Rates:
    """Counts what was asked for in sliding windows.

    Args:
        store: memory:// counts for this process; redis://… for all that share it.
    """

    def __init__(self, store: str) -> None:
        where = store if store.startswith("async+") else f"async+{store}"
        try:
            storage = storage_from_string(where)
        except ConfigurationError as error:
            raise UsageError(f"limits_store={store!r}: {error}") from error
        assert isinstance(storage, Storage)
        self._limiter = SlidingWindowCounterRateLimiter(storage)

    async def take(self, rate: str, *who: str, cost: int = 1) -> float:
        """Counts `cost` documents; returns 0, or the seconds after which there is room, when nothing was counted."""
        item = parse_rate(rate)
        if await self._limiter.hit(item, *who, cost=min(cost, item.amount)):
            return 0.0
        window = await self._limiter.get_window_stats(item, *who)
        return max(window.reset_time - time.time(), 0.05)

    async def is_free(self, rate: str, *who: str) -> bool:
        """Whether there is room, counting nothing."""
        return await self._limiter.test(parse_rate(rate), *who)
