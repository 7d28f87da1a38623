"""Checks of the platform, and of the environment variables with which Numba would fail."""

import os
import sys

from nearkin.errors import UsageError
from nearkin.setting_names import name_setting


def require_supported_platform() -> None:
    """Requires an operating system on which files can be locked and are private to a user.

    Raises:
        UsageError: If it is Windows. The message says what to use there.
    """
    if sys.platform == "win32":
        raise UsageError(
            "nearkin does not run on Windows, because its locks and the permissions of its files "
            "are those of POSIX; use it in WSL 2 or in a container"
        )


def check_numba_settings() -> None:
    """Checks that the environment variables of Numba allow kernels to be compiled.

    Raises:
        UsageError: If a variable has an unsupported value. The message names the variable.
    """
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
