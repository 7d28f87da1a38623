"""Tests of the log of the connection pool, and of the waits that depend on it."""

import logging
from types import SimpleNamespace
from typing import Any

from nearkin.index.stores.pool_log import LOGGER, watch_pool_log
from nearkin.index.stores.postgres import FAILED_TIMEOUT, PostgresStore


def test_waits_are_short_from_a_failed_connection_to_the_next_one() -> None:
    store: Any = PostgresStore.__new__(PostgresStore)
    store._connection_errors = watch_pool_log()
    store._pool = SimpleNamespace(name="pool-of-test", connection=lambda timeout: timeout)
    assert store._connection() is None
    logging.getLogger(LOGGER).warning(
        "error connecting in %r: %s", store._pool.name, "connection refused"
    )
    assert store._connection() == FAILED_TIMEOUT
    store._configure_connection(SimpleNamespace(execute=lambda statement: None))
    assert store._connection() is None
