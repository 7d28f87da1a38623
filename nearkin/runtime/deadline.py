"""A time at which work ends with what it has reached."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""A function that returns the time in seconds, for example `time.monotonic`."""


class Deadline:
    """A time at which work ends, measured from the creation of the deadline.

    Args:
        seconds: Time until it passes, in seconds. None for work without a limit.

    Examples:
        >>> times = iter([0.0, 2.0, 2.0, 5.0, 6.0, 10.0])
        >>> deadline = Deadline(10.0, lambda: next(times))
        >>> half = deadline.portion(0.5)  # 4 of the 8 seconds that are left
        >>> half.has_passed, half.has_passed, deadline.has_passed
        (False, True, True)
    """

    def __init__(self, seconds: float | None = None, clock: Clock = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began = clock()

    @property
    def elapsed(self) -> float:
        """The time since the deadline was created, in seconds."""
        return self._clock() - self._began

    @property
    def has_passed(self) -> bool:
        """True if no time is left."""
        return not self.allows(0.0)

    def allows(self, seconds: float) -> bool:
        """Returns True if work that takes so long ends before the deadline.

        Args:
            seconds: Duration of the work in seconds.
        """
        return self._seconds is None or self.elapsed + seconds < self._seconds

    def portion(self, share: float) -> "Deadline":
        """Returns an earlier deadline, at which a share of the time that is left has passed."""
        if self._seconds is None:
            return self
        return Deadline(share * (self._seconds - self.elapsed), self._clock)
