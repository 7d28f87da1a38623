"""Checks of environment variables that would make Numba fail with a traceback."""

import os

from nearkin.errors import UsageError


def check_numba_settings() -> None:
    """Requires that Numba's environment variables let kernels be compiled.

    Raises:
        UsageError: If they do not. The message names the variable.
    """
    disabled = _number("NUMBA_DISABLE_JIT")
    if disabled is not None and disabled != 0:
        raise UsageError(f"NUMBA_DISABLE_JIT is {disabled}, and nearkin's kernels must be compiled; unset it")
    threads = _number("NUMBA_NUM_THREADS")
    if threads is not None and threads < 1:
        raise UsageError(f"NUMBA_NUM_THREADS is {threads}, and must be at least 1; unset it (nearkin's threads are --workers)")


def _number(variable: str) -> int | None:
    """The value as Numba reads it; None if the variable is not set, or is not a number, which Numba ignores."""
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return None
