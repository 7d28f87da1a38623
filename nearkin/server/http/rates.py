"""How much one token, and one source address, may ask for."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from limits import RateLimitItem, parse_many
from limits.aio.storage import Storage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import ConfigurationError, StorageError
from limits.storage import storage_from_string

from nearkin.errors import StoreError, UsageError


@lru_cache(1024)
def parse_rate(text: str) -> RateLimitItem:
    """A rate as `100/second` or `5000 per 10 minutes`: one, of at least a document.

    Examples:
        >>> parse_rate("100/second").amount
        100

    Raises:
        UsageError: It is none.
    """
    try:
        found = parse_many(text)
    except ValueError:
        found = []
    if len(found) != 1 or found[0].amount < 1:
        raise UsageError(f"rate {text!r} is not of the form 100/second or 5000/10 minutes")
    return found[0]


class RateLimiter:
    """Counts what was asked for in sliding windows.

    Args:
        store: memory:// counts for this process; redis://… for all that share it.
    """

    def __init__(self, store: str) -> None:
        where = store if store.startswith("async+") else f"async+{store}"
        try:
            storage = storage_from_string(where, implementation="redispy", wrap_exceptions=True)
        except ConfigurationError as error:
            raise UsageError(
                f"limits_store={store!r} names no place to count in: {error}; give memory:// or redis://…"
            ) from error
        except ValueError:
            # its reason may repeat a part of the password
            raise UsageError(f"limits_store={store!r} is not a valid URL; percent-encode the password") from None
        assert isinstance(storage, Storage)
        self._limiter = SlidingWindowCounterRateLimiter(storage)

    async def take(self, rate: str, *who: str, cost: int = 1) -> float:
        """Counts `cost` documents, no more than the rate allows at once; returns 0, or, when nothing was counted, the seconds
        after which there is room.

        Raises:
            StoreError: Where they are counted does not answer; then nobody is let in uncounted.
        """
        return await self._until_room(self._limiter.hit, parse_rate(rate), who, cost)

    async def seconds_until_room(self, rate: str, *who: str, cost: int = 1) -> float:
        """Returns what `take` would return, and counts nothing.

        Raises:
            StoreError: If the place where rates are counted does not answer.
        """
        return await self._until_room(self._limiter.test, parse_rate(rate), who, cost)

    async def _until_room(
        self, ask: Callable[..., Awaitable[bool]], item: RateLimitItem, who: Sequence[str], cost: int
    ) -> float:
        try:
            if await ask(item, *who, cost=cost):
                return 0.0
            window = await self._limiter.get_window_stats(item, *who)
        except StorageError as error:
            raise StoreError(f"rates cannot be counted: {error.storage_error}") from error
        return max(window.reset_time - time.time(), 0.05)
