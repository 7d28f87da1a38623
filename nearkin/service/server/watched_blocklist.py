"""The blocklist of a server, which is read again when its file changes."""

import logging
from pathlib import Path

from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.errors import NearkinError
from nearkin.index.index import Index

log = logging.getLogger("nearkin.server")


class WatchedBlocklist:
    """The file of a blocklist, and the state in which it was read last.

    A new file that is damaged, unreadable or of another Spec leaves the previous list in force.
    """

    def __init__(self, path: Path) -> None:
        # absolute, so that logs identify the file wherever the process was started
        self.path = path.absolute()
        self.failures = 0
        """The number of new files that could not be used."""
        self._stamp = self._read_stamp()
        self.blocklist = Blocklist.open(self.path)
        """The list that was read last."""

    def _read_stamp(self) -> tuple[int, int, int] | None:
        """Returns what changes with the file, or None if it cannot be found."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def refresh(self, index: Index) -> None:
        """Reads the file again if it changed, and uses it for the upserts of an index.

        Each change is tried once, and a failure is logged and counted.
        """
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            blocklist = Blocklist.open(self.path)
            index.use_blocklist(blocklist)
        except (NearkinError, OSError) as error:
            self.failures += 1
            log.error(
                "cannot reload the blocklist; the previous one remains in force",
                extra={"file": str(self.path), "error": str(error)},
            )
            return
        self.blocklist = blocklist
        log.info("blocklist reloaded", extra={"file": str(self.path), "entries": len(blocklist)})
