"""Values of the last minutes, in slices of equal length that are dropped one by one."""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Slice = TypeVar("Slice")

WINDOW_SECONDS = 600
"""The length of the window that gauges of a server describe, in seconds."""
SLICE_SECONDS = 60
"""The length of a slice, in seconds. The window ends up to one slice late."""


class SlidingWindow(Generic[Slice]):
    """The slices of the last ten minutes. Callers that share it between threads lock it themselves.

    Args:
        clock: Returns the time in seconds.

    Examples:
        >>> times = iter([0, 30, 60, 700])
        >>> window = SlidingWindow(list, lambda: next(times))
        >>> window.current().append("a")
        >>> window.current().append("b")
        >>> window.slices()
        [['a', 'b']]
        >>> window.slices()
        []
    """

    def __init__(self, create: Callable[[], Slice], clock: Callable[[], float]) -> None:
        self._create = create
        self._clock = clock
        self._slices: deque[tuple[int, Slice]] = deque()

    def current(self) -> Slice:
        """Returns the slice of the present time, to which values are added."""
        number = self._drop_old_slices()
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, self._create()))
        return self._slices[-1][1]

    def slices(self) -> list[Slice]:
        """Returns the slices of the window, oldest first. Slices without values are left out."""
        self._drop_old_slices()
        return [values for _, values in self._slices]

    def _drop_old_slices(self) -> int:
        """Drops slices outside the window, and returns the number of the present one.

        Slices of a later time are dropped, too: the clock was set back.
        """
        number = int(self._clock() // SLICE_SECONDS)
        oldest = number - WINDOW_SECONDS // SLICE_SECONDS
        while self._slices and self._slices[0][0] < oldest:
            self._slices.popleft()
        while self._slices and self._slices[-1][0] > number:
            self._slices.pop()
        return number
