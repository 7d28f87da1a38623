"""Locks of files between processes. This is the only module that imports fcntl."""

from typing import IO

from nearkin.runtime.environment import require_supported_platform

require_supported_platform()

import fcntl  # noqa: E402


def lock_exclusively(file: int | IO[str], *, wait: bool = True) -> None:
    """Locks a file or a folder for this process. Closing it releases the lock."""
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_shared(file: int | IO[str]) -> None:
    """Locks a file or a folder against exclusive locks. Closing it releases the lock."""
    fcntl.flock(file, fcntl.LOCK_SH)
