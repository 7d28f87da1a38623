"""The log of the connection pool of psycopg, which reports failed connections nowhere else."""

import logging

LOGGER = "psycopg.pool"


class ConnectionErrors(logging.Filter):
    """A filter of the pool's log that keeps the last error of each pool.

    Warnings of the pool are not shown, because the operation that fails raises an error with the
    same reason. Without this filter Python prints them on standard error.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reasons: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Keeps the reason of a failed connection. Returns False for warnings."""
        if record.levelno < logging.WARNING:
            return True
        if isinstance(record.args, tuple) and len(record.args) == 2:
            name, reason = record.args
            self._reasons[str(name)] = " ".join(str(reason).split())
        return False

    def forget(self, pool: str) -> None:
        """Forgets the reason of a failed connection of a pool, which has a new connection."""
        self._reasons.pop(pool, None)

    def last_reason(self, pool: str) -> str | None:
        """Returns the reason of the last failed connection of a pool."""
        return self._reasons.get(pool)


CONNECTION_ERRORS = ConnectionErrors()


def watch_pool_log() -> ConnectionErrors:
    """Installs the filter of the pool's log, once for the process, and returns it."""
    logger = logging.getLogger(LOGGER)
    if CONNECTION_ERRORS not in logger.filters:
        logger.addFilter(CONNECTION_ERRORS)
    return CONNECTION_ERRORS
