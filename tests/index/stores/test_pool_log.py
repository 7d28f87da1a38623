"""Tests of the log of the connection pool, and of the waits that depend on it."""

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from nearkin.index.stores.pool_log import LOGGER, watch_pool_log
from nearkin.index.stores.postgres import FAILED_TIMEOUT, PostgresStore


def test_waits_are_short_from_a_failed_connection_to_the_next_one() -> None:
    store: Any = PostgresStore.__new__(PostgresStore)
    store._connection_errors = watch_pool_log()
    store._pool = SimpleNamespace(name="pool-of-test", connection=nullcontext)
    assert _wait(store) is None
    logging.getLogger(LOGGER).warning(
        "error connecting in %r: %s", store._pool.name, "connection refused"
    )
    assert _wait(store) == FAILED_TIMEOUT
    store._configure_connection(SimpleNamespace(execute=lambda statement: None))
    assert _wait(store) is None


def _wait(store: Any) -> float | None:
    """Returns the seconds for which the store lets its pool wait for a connection."""
    with store._connection() as timeout:
        return timeout
