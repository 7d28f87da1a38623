"""Signals: SIGTERM and SIGHUP end a command in the same way as Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nearkin.runtime.compilation import COMPILATION

INTERRUPTED = 130
"""The exit code after SIGINT: 128 plus the number of the signal, as in shells."""
ENDING = ("SIGTERM", "SIGHUP", "SIGINT")


class EndedBySignalError(KeyboardInterrupt):
    """An error that is raised when the process receives a signal that ends it.

    Attributes:
        name: The name of the signal, for example `SIGTERM`.
        code: The exit code: 128 plus the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.name = signal.Signals(number).name
        self.code = 128 + number


@contextmanager
def ending_signals() -> Iterator[None]:
    """Raises EndedBySignalError at SIGTERM and SIGHUP, and KeyboardInterrupt at SIGINT.

    A signal that the process ignores already, for example under nohup, stays ignored. During the
    compilation of a kernel, the error waits for the end of that kernel.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for name in ENDING:
        number = getattr(signal, name, None)
        defaults = (signal.SIG_DFL, signal.default_int_handler)
        if number is not None and signal.getsignal(number) in defaults:
            before[number] = signal.signal(number, _raise_on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        COMPILATION.allow()


@contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """Sets an event at SIGTERM and SIGINT, so that a command can finish its current work.

    The previous handlers are restored at the end.
    """
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_on_signal(number: int, _: FrameType | None) -> None:
    is_interrupt = number == signal.SIGINT
    error = KeyboardInterrupt() if is_interrupt else EndedBySignalError(number)
    if not COMPILATION.stop(error):
        raise error
