"""Snapshots that the workers of a server exchange through a folder."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock

log = logging.getLogger("nearkin.metrics")
SECONDS = 2.0
"""Seconds between two snapshots of a worker."""


class WorkerSnapshots:
    """The last snapshots of one kind of all workers. Without a folder there is one worker."""

    def __init__(self, folder: Path | None, suffix: str) -> None:
        self.folder = folder
        self._suffix = suffix
        self._lock = Lock()

    def write(self, content: bytes) -> None:
        """Writes the snapshot of this worker for the others.

        While the disk is full, they read the previous one.
        """
        if self.folder is None:
            return
        file = self.folder / f"{os.getpid()}{self._suffix}"
        staging = file.with_name(f"{file.name}.part")
        try:
            # requests for metrics write in threads of their own
            with self._lock:
                staging.write_bytes(content)
                staging.replace(file)
        except OSError as error:
            log.warning("cannot write metrics for other workers", extra={"error": str(error)})

    def read_others(self) -> dict[str, bytes]:
        """Returns the snapshots of the other workers that still run, by process number."""
        if self.folder is None:
            return {}
        return {
            path.stem: path.read_bytes()
            for path in sorted(self.folder.glob(f"*{self._suffix}"))
            if path.stem != str(os.getpid()) and _is_alive(path)
        }

    async def keep_writing(self, take: Callable[[], bytes]) -> None:
        """Writes the snapshots that `take` returns at regular intervals until it is cancelled."""
        while self.folder is not None:
            await asyncio.to_thread(lambda: self.write(take()))
            await asyncio.sleep(SECONDS)


def _is_alive(path: Path) -> bool:
    """Returns whether the process of a snapshot still runs; otherwise deletes the snapshot."""
    try:
        os.kill(int(path.stem), 0)
    except (ProcessLookupError, PermissionError):
        # another user may have a process of the same number by now
        path.unlink(missing_ok=True)
        return False
    return True
