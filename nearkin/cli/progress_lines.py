"""The progress of a run as plain lines, for logs, files and pipes."""

import threading
import time
from typing import TextIO

from nearkin.runtime.progress import describe_stage

SECONDS_BETWEEN_LINES = 30.0
"""Time between two lines, in seconds."""


class PlainProgress:
    """A display that writes one line every 30 seconds. A shorter run writes none.

    The lines are written by a thread, so that a stage that does not count its work has them too.

    Examples:
        >>> import io
        >>> progress = PlainProgress(io.StringIO())
        >>> progress.stage("sketch", total=4000)
        >>> progress.advance(1000)
        >>> progress.describe(10.0)
        'Read documents: 1,000 of 4,000 (25%), 100/s, 30 s left'
        >>> progress.close()
    """

    def __init__(self, file: TextIO, seconds: float | None = None) -> None:
        """Creates a display.

        Args:
            seconds: Time between two lines, in seconds. 30 by default.
        """
        self._file = file
        self._seconds = SECONDS_BETWEEN_LINES if seconds is None else seconds
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._name = ""
        self._total: int | None = None
        self._done = 0
        self._began = 0.0

    def stage(self, name: str, total: int | None = None) -> None:
        """Begins a stage and ends the previous one."""
        with self._lock:
            self._name = name
            self._total = total
            self._done = 0
            self._began = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_lines, daemon=True)
            self._thread.start()

    def advance(self, count: int) -> None:
        """Counts more documents (or other items) as done."""
        with self._lock:
            self._done += count

    def close(self) -> None:
        """Ends the display."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()

    def describe(self, seconds: float) -> str:
        """Returns the state of the stage.

        Args:
            seconds: Time since the stage began, in seconds.
        """
        with self._lock:
            name = describe_stage(self._name)
            done = self._done
            total = self._total
        if not done:
            begun = f"0 of {total:,}, " if total else ""
            return f"{name}: {begun}{format_duration(seconds)}"
        rate = done / max(seconds, 1e-9)
        if not total:
            return f"{name}: {done:,}, {rate:,.0f}/s"
        # the total may be an estimate, which a stage may exceed
        share = min(done / total, 0.99) if done != total else 1.0
        left = format_duration(max(total - done, 0) / rate)
        return f"{name}: {done:,} of {total:,} ({share:.0%}), {rate:,.0f}/s, {left} left"

    def _write_lines(self) -> None:
        while not self._is_closed.wait(self._seconds):
            line = self.describe(time.monotonic() - self._began)
            try:
                self._file.write(f"nearkin: {line}\n")
                self._file.flush()
            except (OSError, ValueError):
                # nobody reads the stream any more, which does not concern the run
                return


def format_duration(seconds: float) -> str:
    """Returns a duration in the unit that is easy to read.

    Examples:
        >>> [format_duration(seconds) for seconds in (7.4, 150, 9000)]
        ['7 s', '2.5 min', '2.5 h']
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"
