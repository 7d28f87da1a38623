"""Logs as JSON, a line each. Nothing of a document and no token is ever in one."""

import logging
import sys
from datetime import UTC, datetime

import orjson

OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """Time, level, logger, message, and whatever was given as `extra`.

    Examples:
        >>> facts = {"name": "nearkin", "levelname": "INFO", "msg": "request", "created": 0.0, "status": 200}
        >>> JsonLines().format(logging.makeLogRecord(facts))
        '{"time":"1970-01-01T00:00:00+00:00","level":"info","logger":"nearkin","message":"request","status":200}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in OWN},
        }
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return orjson.dumps(facts, default=str).decode()


def configure(level: str) -> None:
    """Everything of this process on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
