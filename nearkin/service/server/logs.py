"""Logging: a JSON object per line, or on a terminal a line that people read.

Logs contain no text of a document, no token and no password.
"""

import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from nearkin.runtime.compilation import COMPILATION, CompilationLogger
from nearkin.runtime.redaction import redact
from nearkin.runtime.visible_text import make_visible

STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}
"""Attributes of every log record. Other attributes were passed as `extra`."""
LEVEL_COLORS = {"DEBUG": 2, "INFO": 32, "WARNING": 33, "ERROR": 31, "CRITICAL": 31}
"""The codes of ANSI escape sequences for levels: dim, green, yellow and red."""
LEVEL_WIDTH = 7
MESSAGE_WIDTH = 28
"""Width of a message before its fields, in characters. Longer messages move the fields."""
LogFormat = Literal["auto", "text", "json"]


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
            **_extra_fields(record),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return orjson.dumps(
            {name: _redact_texts(value) for name, value in fields.items()}, default=str
        ).decode()


class TextFormatter(logging.Formatter):
    """A formatter that writes a record as an aligned line: time, level, message, fields.

    Args:
        has_color: Whether the level has a color.

    Examples:
        >>> fields = {"levelname": "INFO", "msg": "request", "created": 0.0, "path": "/v1/a b"}
        >>> line = TextFormatter(has_color=False).format(logging.makeLogRecord(fields))
        >>> line[8:]
        ' info    request                      path="/v1/a b"'
    """

    def __init__(self, *, has_color: bool) -> None:
        super().__init__()
        self._has_color = has_color

    def format(self, record: logging.LogRecord) -> str:
        """Returns a log record as one line, followed by the traceback of an exception."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = record.levelname.lower().ljust(LEVEL_WIDTH)
        if self._has_color:
            level = f"\x1b[{LEVEL_COLORS.get(record.levelname, 0)}m{level}\x1b[0m"
        message = " ".join(make_visible(redact(record.getMessage())).split())
        fields = [
            f"{name}={_format_value(_redact_texts(value))}"
            for name, value in _extra_fields(record).items()
        ]
        line = " ".join([time, level, message.ljust(MESSAGE_WIDTH), *fields]).rstrip()
        if record.exc_info:
            line += "\n" + make_visible(redact(self.formatException(record.exc_info)))
        return line


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Returns the fields that were passed as `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in STANDARD_FIELDS}


def _format_value(value: Any) -> str:
    """Returns a value on one line. Texts that are not one printable word are quoted."""
    if isinstance(value, str) and value.isprintable() and not any(sign in value for sign in ' "='):
        return value
    return make_visible(orjson.dumps(value, default=str).decode())


def _redact_texts(value: Any) -> Any:
    """Removes passwords from all texts in a value."""
    if isinstance(value, dict):
        return {name: _redact_texts(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact_texts(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def choose_formatter(log_format: LogFormat, *, is_terminal: bool) -> logging.Formatter:
    """Returns the formatter of a log.

    Args:
        log_format: Form of the lines. `auto` is text on a terminal, and JSON otherwise.
        is_terminal: Whether the log goes to a terminal.
    """
    if log_format == "json" or (log_format == "auto" and not is_terminal):
        return JsonFormatter()
    return TextFormatter(has_color=is_terminal and not os.environ.get("NO_COLOR"))


def configure_logging(level: str, log_format: LogFormat = "auto") -> None:
    """Sends all logs of this process to standard error, without uvicorn's access log.

    The compilation of kernels is logged as well.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(choose_formatter(log_format, is_terminal=sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # a line of the command line has another form
    COMPILATION.listener = CompilationLogger()
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"
