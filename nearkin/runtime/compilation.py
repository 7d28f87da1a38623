"""The compilation of kernels: how long it takes, and who is informed of it.

The first command on a machine compiles the kernels that it calls, which takes up to a minute.
Without a word it would look like a hang, and as a part of the run it would distort its speed. This
module does not import Numba, so that commands can announce a compilation before it is loaded.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nearkin.runtime.deadline import Deadline

LOG = logging.getLogger("nearkin.compilation")
ANNOUNCEMENT = "Compiling kernels, once on this machine"
"""`nearkin warm-up` compiles all of them at once. A wheel of a release brings them compiled."""


class CompilationStoppedError(Exception):
    """A signal: no further kernel is compiled, because the time has ended."""


class CompilationListener(Protocol):
    """A receiver of updates about the compilation of kernels. Methods are called in any thread."""

    def start_kernel(self, name: str) -> None:
        """Is called when the compilation of a kernel begins."""

    def finish_kernel(self, compiled: int, seconds: float) -> None:
        """Is called when a kernel is compiled.

        Args:
            seconds: Time that it has spent on them, in seconds.
        """


class CompilationLogger:
    """A listener that logs the first compilation of the process.

    Args:
        level: The level of the line. Python shows warnings even if an application does not
            configure its logs.
    """

    def __init__(self, level: int = logging.INFO) -> None:
        self._level = level

    def start_kernel(self, name: str) -> None:
        """Logs that kernels are compiled, if this is the first of the process."""
        if not COMPILATION.compiled:
            LOG.log(self._level, ANNOUNCEMENT)

    def finish_kernel(self, compiled: int, seconds: float) -> None:
        """Logs the number of compiled kernels at the level debug."""
        LOG.debug("compiled %d kernels in %.1f s", compiled, seconds)


class CompilationClock:
    """A clock that runs while at least one kernel is compiled, and a count of kernels.

    Examples:
        >>> clock = CompilationClock()
        >>> clock.start("sketch")
        >>> clock.finish()
        >>> clock.compiled
        1
    """

    def __init__(self) -> None:
        self.compiled = 0
        """Number of kernels that this process has compiled."""
        self.listener: CompilationListener = CompilationLogger(logging.WARNING)
        """The receiver of updates. It may be replaced at any time."""
        self._deadline: Deadline | None = None
        self._lock = threading.Lock()
        self._active = 0
        self._active_of_main = 0
        self._stopped_by: BaseException | None = None
        self._began = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """The time during which kernels were compiled, in seconds, the present one included."""
        with self._lock:
            return self._elapsed()

    @contextmanager
    def ends_at(self, deadline: "Deadline") -> Iterator[None]:
        """Limits the time in which compilations begin, in all threads."""
        self._deadline = deadline
        try:
            yield
        finally:
            self._deadline = None

    def stop(self, reason: BaseException) -> bool:
        """Lets no thread begin the compilation of another kernel until `allow`.

        An error that a handler of signals raises within Numba can get lost. If the main thread is
        compiling a kernel, it raises the reason itself when it begins or ends the next one.

        Returns:
            Whether it will. A second call returns False, so that a kernel can be interrupted.
        """
        is_first = self._stopped_by is None
        self._stopped_by = reason
        return is_first and self._active_of_main > 0

    def allow(self) -> None:
        """Allows compilations after `stop`."""
        self._stopped_by = None

    def _require_allowed(self, *, is_main: bool) -> None:
        if self._stopped_by is not None:
            raise self._stopped_by if is_main else KeyboardInterrupt

    def start(self, name: str) -> None:
        """Counts a kernel whose compilation begins."""
        is_main = threading.current_thread() is threading.main_thread()
        self._require_allowed(is_main=is_main)
        self._active_of_main += is_main
        with self._lock:
            if not self._active:
                if self._deadline is not None and self._deadline.has_passed:
                    self._active_of_main -= is_main
                    raise CompilationStoppedError(name)
                self._began = time.perf_counter()
            self._active += 1
            is_outermost = self._active == 1
        # A kernel compiles the kernels that it calls. Only the outer one is a step to report.
        if is_outermost:
            self.listener.start_kernel(name)

    def finish(self) -> None:
        """Counts a kernel whose compilation has ended."""
        with self._lock:
            self.compiled += 1
            self._seconds = self._elapsed() if self._active == 1 else self._seconds
            self._active -= 1
            seconds = self._elapsed()
        self.listener.finish_kernel(self.compiled, seconds)
        is_main = threading.current_thread() is threading.main_thread()
        self._active_of_main -= is_main
        self._require_allowed(is_main=is_main)

    def _elapsed(self) -> float:
        running = time.perf_counter() - self._began if self._active else 0.0
        return self._seconds + running


COMPILATION = CompilationClock()
"""The clock of this process."""


class Stopwatch:
    """A stopwatch that separates work from the compilation of kernels.

    Examples:
        >>> watch = Stopwatch()
        >>> watch.work_seconds >= 0, watch.compile_seconds
        (True, 0.0)
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._compiled_before = COMPILATION.seconds

    @property
    def compile_seconds(self) -> float:
        """The time in which kernels were compiled since the start, in seconds."""
        return COMPILATION.seconds - self._compiled_before

    @property
    def work_seconds(self) -> float:
        """The rest of the time since the start, in seconds."""
        return max(time.perf_counter() - self._began - self.compile_seconds, 0.0)

    def to_record(self) -> dict[str, float]:
        """Returns the times for run.json. The compilation is left out if there was none."""
        record = {"seconds": round(self.work_seconds, 3)}
        if compile_seconds := round(self.compile_seconds, 3):
            record["compile_seconds"] = compile_seconds
        return record
