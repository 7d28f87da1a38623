"""Rate limits for tokens and for client addresses."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from limits import RateLimitItem, parse_many
from limits.aio.storage import Storage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import ConfigurationError, StorageError
from limits.storage import storage_from_string

from nearkin.errors import StoreError, UsageError

MIN_WAIT = 0.05
"""Minimum number of seconds that a rejected caller is asked to wait."""


@lru_cache(1024)
def parse_rate(text: str) -> RateLimitItem:
    """Parses a rate such as `100/second` or `5000 per 10 minutes`. The amount must be at least 1.

    Examples:
        >>> parse_rate("100/second").amount
        100
    """
    try:
        rates = parse_many(text)
    except ValueError:
        rates = []
    if len(rates) != 1 or rates[0].amount < 1:
        raise UsageError(f"rate {text!r} is not of the form 100/second or 5000/10 minutes")
    return rates[0]


def hide_url(url: str) -> str:
    """Returns only the scheme of a URL, because any other part of it may contain a password.

    Examples:
        >>> hide_url("redis://user:secret@db:6379/0"), hide_url("memory://"), hide_url("100")
        ('redis://…', 'memory://', '100')
    """
    scheme, separator, rest = url.partition("://")
    if separator:
        return f"{scheme}://…" if rest else url
    return "…" if "@" in url else url


class RateLimiter:
    """A counter of documents or requests in sliding windows."""

    def __init__(self, store: str) -> None:
        url = store if store.startswith("async+") else f"async+{store}"
        try:
            storage = storage_from_string(url, implementation="redispy", wrap_exceptions=True)
        except ConfigurationError:
            # the original message repeats the URL, or lists all of its parts
            raise UsageError(
                f"limits_store={hide_url(store)!r} is not supported; use memory:// or redis://…"
            ) from None
        except ValueError:
            # the original message may repeat a part of the password
            raise UsageError(
                f"limits_store={hide_url(store)!r} is not a valid URL; percent-encode the password"
            ) from None
        assert isinstance(storage, Storage)
        self._limiter = SlidingWindowCounterRateLimiter(storage)

    async def take(self, rate: str, *key: str, cost: int = 1) -> float:
        """Counts documents if the rate has room for them.

        Returns:
            0 if the documents were counted; otherwise the seconds until there is room.
        """
        return await self._seconds_until_room(self._limiter.hit, parse_rate(rate), key, cost)

    async def check(self) -> None:
        """Checks that the limits store responds, without counting anything."""
        await self.seconds_until_room("1/second", "ready")

    async def seconds_until_room(self, rate: str, *key: str, cost: int = 1) -> float:
        """Returns what `take` would return, without counting anything."""
        return await self._seconds_until_room(self._limiter.test, parse_rate(rate), key, cost)

    async def _seconds_until_room(
        self,
        has_room: Callable[..., Awaitable[bool]],
        item: RateLimitItem,
        key: Sequence[str],
        cost: int,
    ) -> float:
        try:
            if await has_room(item, *key, cost=cost):
                return 0.0
            window = await self._limiter.get_window_stats(item, *key)
        except StorageError as error:
            raise StoreError(
                f"cannot count rates in the limits store: {error.storage_error}"
            ) from error
        return max(window.reset_time - time.time(), MIN_WAIT)
