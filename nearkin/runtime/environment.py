"""Checks of the platform, its limits, and the environment variables with which Numba would fail."""

import os
import sys

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting

LEAST_ADDRESS_SPACE = 2 << 30
"""The smallest address space in which the libraries can be loaded and start their threads."""
NO_THREAD = "can't start new thread"
"""The error of Python if a limit of the process allows no further thread."""


def require_supported_platform() -> None:
    """Requires an operating system on which files can be locked and are private to a user."""
    if sys.platform == "win32":
        raise UsageError(
            "nearkin does not run on Windows, because its locks and the permissions of its files "
            "are those of POSIX; use it in WSL 2 or in a container"
        )


def require_address_space() -> None:
    """Requires that the limit of the address space lets libraries be loaded.

    Some of them end the process in a smaller one, without an error of Python.
    """
    # Windows does not have it.
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise UsageError(
            f"the address space of the process is limited to {limit >> 20:,} MiB (ulimit -v), and "
            f"nearkin needs at least {LEAST_ADDRESS_SPACE >> 20:,} MiB; raise that limit"
        )


def check_numba_settings() -> None:
    """Checks that the environment variables of Numba allow kernels to be compiled."""
    disabled = _number("NUMBA_DISABLE_JIT")
    if disabled is not None and disabled != 0:
        raise UsageError(
            f"unsupported NUMBA_DISABLE_JIT={disabled}: nearkin needs compiled kernels; unset the "
            f"variable"
        )
    threads = _number("NUMBA_NUM_THREADS")
    if threads is not None and threads < 1:
        raise UsageError(
            f"invalid NUMBA_NUM_THREADS={threads}: it must be at least 1; unset it "
            f"({name_setting('workers')} sets the number of threads)"
        )


def _number(variable: str) -> int | None:
    """Returns the value as Numba reads it, or None if it is not set or is not a number."""
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return None
