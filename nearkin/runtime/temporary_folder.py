"""Temporary folders, which belong to the process that creates them."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Self

from nearkin.errors import UsageError


class TemporaryFolder:
    """A folder that is deleted with this object, by leaving `with`, or at the end of the process.

    A forked process has a copy of the object. It deletes nothing, because the folder is that of its
    parent. Neither holds of `tempfile.TemporaryDirectory`, which also warns about a folder that is
    not closed.

    Attributes:
        path: The folder.
    """

    def __init__(self, parent: str | Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="nearkin-", dir=parent))
        self._finalizer = weakref.finalize(self, _delete_own, self.path, os.getpid())

    @classmethod
    def open(cls, work: str | Path | None) -> Self:
        """Creates a folder inside the one that the parameter `work` names."""
        try:
            return cls(work)
        except OSError as error:
            raise UsageError(
                f"no temporary folder can be created in work={str(work)!r}: {error.strerror}; "
                "give a folder that exists and can be written"
            ) from error

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Deletes the folder, unless it was deleted or another process created it."""
        self._finalizer()


def _delete_own(path: Path, process: int) -> None:
    """Deletes a folder, if a given process is this one."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
