"""Loading of large libraries without garbage collections in between."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LARGE = "numba"
"""A library that every command with kernels loads. If it is there, the others are too."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pauses the garbage collector while a command imports what it needs.

    Imports create several hundred thousand objects that stay until the process ends. The collector
    would walk through them again and again, which takes a tenth of the time of a small run.
    Afterwards they are exempt from collections. In a process that has loaded the libraries already,
    nothing changes.
    """
    if LARGE in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
