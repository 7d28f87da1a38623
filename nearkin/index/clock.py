"""The clock of an index, which is compared with the clock of the store before a sweep.

A sweep deletes documents that were not seen for some time, so a process whose clock is wrong (for
example a machine that starts in 2036) would delete everything. Redis and PostgreSQL have a clock
of their own, with which every process is compared. A file has none. There, a clock is compared with
the documents, and with the time for which the machine has been running.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from nearkin.errors import ClockError
from nearkin.index.stores.base import Store

TOLERANCE = 60.0
"""The number of seconds by which two clocks may differ."""
log = logging.getLogger("nearkin.clock")


class SystemClock:
    """The time of this machine in seconds, corrected by its difference from the store's clock."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        """Returns the corrected time, in seconds."""
        return time.time() + self.offset


def running_seconds() -> float:
    """Returns the seconds since this machine was started, sleep included."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class ClockWatch:
    """Compares the clock of a process with that of the store that it has open.

    Args:
        clock: The clock. A clock of the caller is never corrected, and only refused if it is ahead
            of the store's.
        store: The store.
    """

    def __init__(self, clock: Callable[[], float], store: Store) -> None:
        self._clock = clock
        self._store = store
        self._fault: str | None = None
        self._has_clock = False
        self.compare()
        self._opened = clock()
        self._opened_running = running_seconds()
        self._swept = False
        self._median = None if self._has_clock else store.median_seen()
        if (
            isinstance(clock, SystemClock)
            and self._median is not None
            and self._median > self._opened + TOLERANCE
        ):
            # a document with the time of this machine would be swept by a machine that is right
            clock.offset = self._median - self._opened
            self._fault = (
                f"half of the documents of {store.url} were last seen after the time of this "
                f"machine, {_format_time(self._opened)}: nothing is swept by this process, and "
                "documents get the later time; set the clock that is wrong, and restart this "
                "process"
            )
            log.warning("%s", self._fault)

    def compare(self) -> None:
        """Reads the store's clock. If the machine's clock differs, the store's is used from now on.

        Raises:
            StoreError: If the store does not answer.
        """
        before = self._uncorrected_time()
        times = self._store.times()
        after = self._uncorrected_time()
        self._has_clock = bool(times)
        if not times:
            return
        ahead = max(before - store_time for store_time in times)
        behind = max(store_time - after for store_time in times)
        is_system_clock = isinstance(self._clock, SystemClock)
        fault = None
        if ahead > TOLERANCE or (is_system_clock and behind > TOLERANCE):
            farthest_time = min(times) if ahead > TOLERANCE else max(times)
            fault = (
                f"the clock of this process ({_format_time(after)}) differs from that of the store "
                f"{self._store.url} ({_format_time(farthest_time)}): nothing is swept by this "
                "process until they agree; set the clock that is wrong"
            )
            if self._fault is None:
                log.warning("%s", fault)
        self._fault = fault
        if isinstance(self._clock, SystemClock):
            self._clock.offset = times[0] - after if fault is not None else 0.0

    def _uncorrected_time(self) -> float:
        """Returns the time of the process without a correction."""
        return time.time() if isinstance(self._clock, SystemClock) else self._clock()

    def require_plausible(self, shortest: float, *, trusted: bool) -> None:
        """Refuses a sweep by a clock that is not plausible.

        Args:
            shortest: The shortest time to live, in seconds.
            trusted: True if the caller has confirmed the clock. A clock that differs from the
                store's is refused all the same.

        Raises:
            ClockError: If the clock is not plausible.
            StoreError: If the store does not answer.
        """
        self.compare()
        if self._fault is not None:
            raise ClockError(self._fault)
        if self._has_clock or trusted:
            return
        remedy = "set the clock, or, if it is right, run nearkin index expire with --trust-clock"
        if isinstance(self._clock, SystemClock):
            jump = (self._uncorrected_time() - self._opened) - (
                running_seconds() - self._opened_running
            )
            if abs(jump) > TOLERANCE:
                raise ClockError(
                    f"the clock of this machine has jumped by {jump:,.0f} seconds since the index "
                    f"was opened, to {_format_time(self._uncorrected_time())}; nothing is swept by "
                    f"this process: {remedy}, and restart this process"
                )
        if not self._swept:
            # documents may have come from other processes since the index was opened
            self._swept = True
            self._median = self._store.median_seen()
        if self._median is not None and self._median < self._opened - shortest:
            raise ClockError(
                f"half of the documents of {self._store.url} were last seen before "
                f"{_format_time(self._median)}, so that a sweep at {_format_time(self._opened)} "
                f"would delete them all at once; nothing is swept: {remedy}"
            )


def _format_time(seconds: float) -> str:
    """Returns a time as text, or a number of seconds if it is not a valid time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:,.0f} s"
