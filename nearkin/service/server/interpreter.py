"""Settings of the interpreter for a process that answers requests."""

import gc
import sys

COLLECTOR_THRESHOLDS = (50_000, 50, 1000)
"""Thresholds of the garbage collector's generations."""
THREAD_SWITCH_SECONDS = 0.001
"""Seconds after which a thread that processes a batch yields to the event loop."""


def configure_interpreter() -> None:
    """Excludes the objects that exist now from garbage collection, and makes collections rare.

    A full collection stops all requests, and requests create few reference cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
