"""Tests of rates and of the counters that enforce them."""

import asyncio

import pytest

from nearkin.errors import UsageError
from nearkin.service.server.http.rates import MIN_WAIT, RateLimiter, parse_rate


@pytest.mark.parametrize(
    ("text", "amount", "seconds"),
    [
        ("100/second", 100, 1),
        ("1/second", 1, 1),
        ("5000 per 10 minutes", 5000, 600),
        ("5000/10 minutes", 5000, 600),
        ("3/hour", 3, 3600),
        ("7 / day", 7, 86_400),
    ],
)
def test_rate_has_an_amount_and_a_duration(text: str, amount: int, seconds: int) -> None:
    rate = parse_rate(text)
    assert (rate.amount, rate.get_expiry()) == (amount, seconds)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "0/second", "-1/second", "5/second;1/minute", "5", "5/fortnight", "1.5/second"],
)
def test_invalid_rate_is_named_with_the_valid_form(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_rate(text)
    assert repr(text) in str(refused.value)
    assert "100/second" in str(refused.value)


def test_documents_are_counted_until_the_rate_has_no_room() -> None:
    async def waits() -> list[float]:
        limiter = RateLimiter("memory://")
        return [
            await limiter.seconds_until_room("5/hour", "a", cost=5),
            await limiter.take("5/hour", "a", cost=3),
            await limiter.take("5/hour", "a", cost=3),
            await limiter.take("5/hour", "a", cost=2),
            await limiter.take("5/hour", "a"),
            await limiter.seconds_until_room("5/hour", "a"),
            await limiter.take("5/hour", "b", cost=5),
            await limiter.take("9/hour", "a", cost=5),
        ]

    asked, first, too_many, rest, full, still_full, other_key, other_rate = asyncio.run(waits())
    assert [asked, first, rest, other_key, other_rate] == [0.0] * 5
    for wait in (too_many, full, still_full):
        assert MIN_WAIT <= wait <= 3600


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("nowhere://", "limits_store='nowhere://' is not supported.*use memory:// or redis://"),
        ("", "limits_store='' is not"),
        ("redis://user:word@[::1", "percent-encode the password"),
    ],
)
def test_invalid_limits_store_is_named_with_the_remedy(store: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RateLimiter(store)
