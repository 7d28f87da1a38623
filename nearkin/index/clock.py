"""The clock of an index, which is compared with the clock of the store before a sweep.

A sweep deletes documents that were not seen for some time, so a process whose clock is wrong (for
example a machine that starts in 2036) would delete everything. Redis and PostgreSQL have a clock
of their own, with which every process is compared. A file has none. There, a clock is compared with
the documents, and with the time for which the machine has been running. Documents that the same
clock may have written prove nothing.
"""

import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from nearkin.errors import ClockError
from nearkin.index.stores.base import Store

TOLERANCE = 60.0
"""The number of seconds by which two clocks may differ."""
REMEDY = "set the clock, or, if it is right, run nearkin index expire with --trust-clock"
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
    """Compares the clock of a process with that of the store that it has open."""

    def __init__(self, clock: Callable[[], float], store: Store) -> None:
        self._clock = clock
        self._store = store
        self._fault: str | None = None
        self._has_clock = False
        self.compare()
        self._opened = clock()
        self._opened_running = running_seconds()
        if self._has_clock or not isinstance(clock, SystemClock):
            return
        median = store.median_seen(math.inf, posted=False)
        if median is not None and median > self._opened + TOLERANCE:
            # a document with the time of this machine would be swept by a machine that is right
            clock.offset = median - self._opened
            self._fault = (
                f"half of the documents of {store.url} were last seen after the time of this "
                f"machine, {_format_time(self._opened)}: nothing is swept by this process, and "
                "documents get the later time; set the clock that is wrong, and restart this "
                "process"
            )
            log.warning("%s", self._fault)

    def compare(self) -> None:
        """Reads the store's clock.

        If the machine's clock differs, the store's is used from now on.
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

    def require_plausible(
        self, bucket_ttl: float | None, record_ttl: float | None, *, trusted: bool
    ) -> None:
        """Refuses a sweep by a clock that is not plausible.

        Args:
            bucket_ttl: The time to live of documents in buckets, in seconds, or None.
            record_ttl: The time to live of documents, in seconds, or None.
        """
        self.compare()
        if self._fault is not None:
            raise ClockError(self._fault)
        if self._has_clock or trusted:
            return
        if isinstance(self._clock, SystemClock):
            jump = (self._uncorrected_time() - self._opened) - (
                running_seconds() - self._opened_running
            )
            if abs(jump) > TOLERANCE:
                raise ClockError(
                    f"the clock of this machine has jumped by {jump:,.0f} seconds since the index "
                    f"was opened, to {_format_time(self._uncorrected_time())}; nothing is swept by "
                    f"this process: {REMEDY}, and restart this process"
                )
        if bucket_ttl is not None:
            self._require_continuity(bucket_ttl, posted=True)
        if record_ttl is not None:
            self._require_continuity(record_ttl, posted=False)

    def _require_continuity(self, ttl: float, *, posted: bool) -> None:
        """Refuses a sweep of documents that became due when this clock, or one like it, came.

        Documents that were seen since this process opened the index have the time of its clock, or
        a later one. Earlier documents show that clocks went on to that time, if documents were seen
        in each time to live before it.

        Args:
            ttl: The time to live, in seconds.
        """
        opened = self._opened
        median = self._store.median_seen(opened, posted=posted)
        if median is not None and median < opened - ttl:
            raise ClockError(
                f"half of the documents of {self._store.url} were last seen before "
                f"{_format_time(median)}, so that a sweep at {_format_time(opened)} "
                f"would delete them all at once; nothing is swept: {REMEDY}"
            )
        began = opened
        while (earlier := self._store.first_seen(began - ttl, began, posted=posted)) is not None:
            began = earlier
        before = self._store.first_seen(-math.inf, began, posted=posted)
        if before is not None:
            raise ClockError(
                f"no document of {self._store.url} was seen in the {ttl:,.0f} seconds before "
                f"{_format_time(began)}, so that the clock may have been wrong since, and a sweep "
                f"would delete all earlier documents; nothing is swept: {REMEDY}"
            )


def _format_time(seconds: float) -> str:
    """Returns a time as text, or a number of seconds if it is not a valid time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:,.0f} s"
