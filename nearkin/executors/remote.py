"""Tasks as other processes receive them. What they return is in files of the work folder."""

import pickle
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar
from uuid import uuid4

from nearkin.errors import NearkinError, RunError, UsageError
from nearkin.executors.object_store import ObjectStore, StoredFile, StoredWork, open_store
from nearkin.runtime.executor import RETURNED
from nearkin.runtime.files import delete_shared_folder, disk_errors
from nearkin.runtime.loading import load_arrow
from nearkin.runtime.threads import take_in_order
from nearkin.runtime.version import VERSION

Pending = TypeVar("Pending")
AHEAD = 2
"""The number of tasks that wait for each worker."""
Returned: TypeAlias = Path | StoredFile | NearkinError
"""The file of a result, or the error that a task raised."""


@dataclass(frozen=True)
class RemoteTask:
    """A task that another process does.

    Attributes:
        pickled: The task.
        folder: Folder of what the task returns.
        version: Version of nearkin of the process that runs the stages.
        stored: The work folder in an object store, if the other process does not see it.
        driver: Name of the machine of the process that runs the stages.
    """

    pickled: bytes
    folder: Path
    version: str = VERSION
    stored: StoredWork | None = None
    driver: str = field(default_factory=platform.node)

    @classmethod
    def create(
        cls, task: Callable[[Any], Any], work: Path, store: ObjectStore | None = None
    ) -> "RemoteTask":
        """Returns a task with a new folder in a work folder."""
        folder = work.absolute() / RETURNED / uuid4().hex
        if store is not None:
            return cls(store.dumps(task), folder, stored=store.put_work_folder())
        folder.mkdir(parents=True)
        return cls(pickle.dumps(task), folder)

    @cached_property
    def _task(self) -> Callable[[Any], Any]:
        load_arrow()
        load = pickle.loads if self.stored is None else self.stored.loads
        task: Callable[[Any], Any] = load(self.pickled)
        return task

    def __call__(self, item: object) -> Returned:
        """Does the task, and returns the file of its result, or the error that it raised."""
        if self.version != VERSION:
            return UsageError(
                f"worker {platform.node()} has nearkin {VERSION}, and the run has {self.version}; "
                "install one version on all machines"
            )
        if self.stored is None and not self.folder.is_dir():
            return UsageError(
                f"worker {platform.node()} does not see the work folder {self.folder}; choose a "
                "folder that all machines see under the same path"
            )
        try:
            if self.stored is not None:
                return self._do_with_store(self.stored, item)
            with disk_errors(self.folder.parent.parent):
                result = self._task(item)
                path = self.folder / uuid4().hex
                with path.open("wb") as file:
                    pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
        except NearkinError as error:
            if type(error) is RunError and platform.node() != self.driver:
                # a file that the driver sees can be missing here
                return RunError(f"worker {platform.node()}: {error}")
            return error
        return path

    def _do_with_store(self, stored: StoredWork, item: Any) -> StoredFile:
        """Does the task with a copy of the work folder. The item is a packed one."""
        with disk_errors(Path(tempfile.gettempdir())):
            return stored.put_result(self._task(stored.loads(item)))


def describe_task(task: Callable[[Any], Any]) -> str:
    """Returns the name of a task for messages."""
    return getattr(task, "__name__", type(task).__name__)


@dataclass(frozen=True, kw_only=True)
class RemoteExecutor:
    """The driver's side of tasks that other processes do.

    Attributes:
        exchange: URL of a folder of an object store, for workers that see no folder of the driver.
        work: Work folder of the run.
        store: The store of the run.
    """

    exchange: str | None = None
    work: Path | None = None
    store: ObjectStore | None = None
    shares_memory = False

    @property
    def shares_files(self) -> bool:
        """True if all tasks see the same work folder."""
        return self.exchange is None

    def at(self, work: Path) -> Self:
        """Returns an executor of the tasks of a run, as described in `Executor`."""
        return replace(self, work=work, store=open_store(self.exchange, work))

    @contextmanager
    def sent(self, task: Callable[[Any], Any]) -> Iterator[RemoteTask]:
        """Yields a task as other processes receive it. What they return is deleted at the end."""
        assert self.work is not None
        remote_task = RemoteTask.create(task, self.work, self.store)
        try:
            yield remote_task
        finally:
            delete_shared_folder(remote_task.folder)

    def pack(self, item: object) -> object:
        """Returns an item as other processes receive it."""
        return item if self.store is None else self.store.dumps(item)

    def take_in_order(
        self,
        begun: Iterable[Pending],
        workers: int,
        wait: Callable[[Pending], Returned],
        cancel: Callable[[Pending], object] = lambda pending: None,
    ) -> Iterator[Any]:
        """Yields the results of tasks in their order, of which a bounded number begins ahead.

        Args:
            begun: Tasks, each of which begins when it is taken.
            workers: Number of workers, for each of which some tasks begin ahead.
            wait: Waits for what a task returns.
            cancel: Cancels a task that is left at an error.
        """
        for returned in take_in_order(begun, AHEAD * workers, wait, cancel):
            yield self.take(returned)

    def take(self, returned: Returned) -> Any:
        """Returns the result of a task and deletes its file, or raises the error of the task."""
        if isinstance(returned, NearkinError):
            raise returned
        if isinstance(returned, StoredFile):
            assert self.store is not None
            return self.store.take(returned)
        result = pickle.loads(returned.read_bytes())
        returned.unlink()
        return result
