"""The announcement of compiled kernels in commands that show no progress display."""

import sys
import time

from nearkin.cli.standard_streams import print_line
from nearkin.runtime.compilation import ANNOUNCEMENT

SECONDS_BETWEEN_LINES = 10.0
"""Least time between two lines about the same compilation, in seconds."""


class CompilationLines:
    """A listener that writes plain lines on standard error, for terminals, files and logs."""

    def __init__(self) -> None:
        self._is_announced = False
        self._last_line = 0.0

    def start_kernel(self, name: str) -> None:
        """Announces the first compilation of the process."""
        if not self._is_announced:
            self._is_announced = True
            self._write(f"{ANNOUNCEMENT}: {name} ...")

    def finish_kernel(self, compiled: int, seconds: float) -> None:
        """Writes how many kernels are compiled, at most once in ten seconds.

        Args:
            seconds: Time that the process has spent on them, in seconds.
        """
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._write(f"{ANNOUNCEMENT}: {compiled} done in {seconds:.0f} s ...")

    def _write(self, line: str) -> None:
        self._last_line = time.monotonic()
        print_line(f"nearkin: {line}")
        sys.stderr.flush()
