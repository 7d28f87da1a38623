"""Tasks as other processes receive them. What they return is in files of the work folder."""

import pickle
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from nearkin.errors import NearkinError, UsageError
from nearkin.runtime.executor import RETURNED
from nearkin.runtime.files import disk_errors
from nearkin.runtime.loading import load_arrow
from nearkin.runtime.version import VERSION

Returned: TypeAlias = Path | NearkinError
"""The file of a result, or the error that a task raised."""


@dataclass(frozen=True)
class RemoteTask:
    """A task that another process does.

    Attributes:
        pickled: The task.
        folder: Folder of what the task returns.
        version: Version of nearkin of the process that runs the stages.
    """

    pickled: bytes
    folder: Path
    version: str = VERSION

    @classmethod
    def create(cls, task: Callable[[Any], Any], work: Path | None) -> "RemoteTask":
        """Returns a task with a new folder in a work folder."""
        assert work is not None
        folder = work.absolute() / RETURNED / uuid4().hex
        folder.mkdir(parents=True)
        return cls(pickle.dumps(task), folder)

    @cached_property
    def _task(self) -> Callable[[Any], Any]:
        load_arrow()
        task: Callable[[Any], Any] = pickle.loads(self.pickled)
        return task

    def __call__(self, item: object) -> Returned:
        """Does the task, and returns the file of its result, or the error that it raised."""
        if self.version != VERSION:
            return UsageError(
                f"worker {platform.node()} has nearkin {VERSION}, and the run has {self.version}; "
                "install one version on all machines"
            )
        if not self.folder.is_dir():
            return UsageError(
                f"worker {platform.node()} does not see the work folder {self.folder}; choose a "
                "folder that all machines see under the same path"
            )
        path = self.folder / uuid4().hex
        try:
            with disk_errors(self.folder.parent.parent):
                result = self._task(item)
                with path.open("wb") as file:
                    pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
        except NearkinError as error:
            return error
        return path


def describe_task(task: Callable[[Any], Any]) -> str:
    """Returns the name of a task for messages."""
    return getattr(task, "__name__", type(task).__name__)


def take_result(returned: Returned) -> Any:
    """Returns the result of a task and deletes its file, or raises the error of the task."""
    if isinstance(returned, NearkinError):
        raise returned
    result = pickle.loads(returned.read_bytes())
    returned.unlink()
    return result
