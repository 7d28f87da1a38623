"""Logging as JSON, one object per line.

Logs contain no text of a document, no token and no password.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from nearkin.runtime.compilation import COMPILATION, CompilationLogger
from nearkin.runtime.redaction import redact

STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}
"""Attributes of every log record. Other attributes were passed as `extra`."""


class JsonFormatter(logging.Formatter):
    """A formatter that writes the fields of a record, including `extra`, as JSON.

    Examples:
        >>> fields = {"name": "nearkin", "levelname": "INFO", "msg": "request", "created": 0.0}
        >>> fields["status"] = 200
        >>> JsonFormatter().format(logging.makeLogRecord(fields))
        '{"time":"1970-01-01T00:00:00+00:00","level":"info","logger":"nearkin","message":"request","status":200}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Returns a log record as one line of JSON."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{
                name: value
                for name, value in record.__dict__.items()
                if name not in STANDARD_FIELDS
            },
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return orjson.dumps(
            {name: _redact_texts(value) for name, value in fields.items()}, default=str
        ).decode()


def _redact_texts(value: Any) -> Any:
    """Removes passwords from all texts in a value."""
    if isinstance(value, dict):
        return {name: _redact_texts(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact_texts(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def configure_logging(level: str) -> None:
    """Sends all logs of this process to standard error, without uvicorn's access log.

    The compilation of kernels is logged as well.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # a line of the command line would not be JSON
    COMPILATION.listener = CompilationLogger()
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
