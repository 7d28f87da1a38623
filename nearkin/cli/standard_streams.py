"""Standard streams whose closing does not harm a run."""

import io
import os
import sys
from typing import Any, TextIO, cast

from nearkin.cli.command_line import NOTHING_BUT_ERRORS, VERBOSITY
from nearkin.errors import RunError
from nearkin.runtime.redaction import redact

CLOSED = "it is closed; open it, or redirect it to a file"
"""The reason in messages about a standard output that was closed when the process began."""


class StandardStream:
    """A standard stream whose output is dropped if no process reads it any more.

    Any other failure to write is an error.
    """

    def __init__(self, stream: TextIO, *, needed: bool, was_closed: bool = False) -> None:
        self._stream = stream
        self._needed = needed
        self.was_closed = was_closed

    def write(self, text: str) -> int:
        """Writes text, and returns its length."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop_output(error)
            return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Writes bytes."""
        try:
            self._stream.buffer.write(data)
        except OSError as error:
            self._drop_output(error)

    def flush(self) -> None:
        """Writes the buffered output."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop_output(error)

    def _drop_output(self, error: OSError) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
        if self._needed and not isinstance(error, BrokenPipeError):
            reason = CLOSED if self.was_closed else error.strerror or error
            raise RunError(f"cannot write to standard output: {reason}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ClosedInput(io.TextIOWrapper):
    """A standard input without content, in place of one that the caller had closed."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())


def require_open_stdout() -> None:
    """Requires that standard output was open when the process began."""
    if isinstance(sys.stdout, StandardStream) and sys.stdout.was_closed:
        raise RunError(f"cannot write to standard output: {CLOSED}")


def print_line(text: str, *, is_error: bool = False) -> None:
    """Writes a line on standard error, without passwords and characters that act on a terminal.

    Names of files and columns can have such characters, and so can messages about them. With -qq,
    only errors are written.
    """
    if VERBOSITY.get() <= NOTHING_BUT_ERRORS and not is_error:
        return
    # Pages of help need no more modules.
    from nearkin.runtime.visible_text import make_visible

    sys.stderr.write(f"{make_visible(redact(text))}\n")


def write_to_stdout(data: bytes) -> None:
    """Writes bytes on standard output. They are dropped if no process reads it any more.

    Args:
        data: The bytes.
    """
    stream: Any = sys.stdout
    if not isinstance(stream, StandardStream):
        stream = StandardStream(stream, needed=True)
    stream.flush()
    stream.write_bytes(data)


def prepare_streams() -> None:
    """Makes the standard streams safe to use.

    The null device replaces a closed stream. Otherwise a file that is opened later would get its
    number. In place of standard output it can only be read, so that a result is not lost without an
    error.
    """
    closed: set[int] = set()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            # The system assigns the lowest free number.
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = ClosedInput()
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale such as Latin-1 does not have all characters of texts and tables.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout = cast(TextIO, StandardStream(sys.stdout, needed=True, was_closed=1 in closed))
    sys.stderr = cast(TextIO, StandardStream(sys.stderr, needed=False))
