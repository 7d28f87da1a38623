"""Logs as JSON, a line each. Nothing of a document, no token and no password is ever in one."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from nearkin.redaction import redact

OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
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
        return orjson.dumps({name: _redacted(value) for name, value in facts.items()}, default=str).decode()


def _redacted(value: Any) -> Any:
    """Takes passwords out of all texts of a value: a message of another library may repeat a URL."""
    if isinstance(value, dict):
        return {name: _redacted(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(one) for one in value]
    return redact(value) if isinstance(value, str) else value


def configure_logging(level: str) -> None:
    """Everything of this process on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
