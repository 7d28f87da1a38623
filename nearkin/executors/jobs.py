"""Tasks of a run by processes that share a folder: jobs of any cluster, or of several machines.

The run writes a task and its items into the work folder. Each `nearkin work` takes an item by
renaming its file, and leaves a file with what the task returned (`job_worker`). While it works, it
touches the file of the item. If a file is not touched for some time, the run offers the item again.
"""

import logging
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import uuid4

from nearkin.errors import RunError
from nearkin.executors.remote import RemoteExecutor, Returned, describe_task
from nearkin.runtime.executor import TASKS
from nearkin.runtime.files import delete_shared_folder
from nearkin.runtime.setting_names import name_flag
from nearkin.runtime.shell_quoting import quote_argument

Item = TypeVar("Item")
Result = TypeVar("Result")
LOG = logging.getLogger("nearkin.run")
TASK = "task"
"""The file of a task."""
TODO = "todo"
DOING = "doing"
DONE = "done"
"""The folders of the items of a task, and of what their workers returned."""
FAILED = "failed"
"""The folder of the items whose workers could write nothing, for example on a full disk."""
POLL_SECONDS = 0.05
"""The time between looks into a folder, in seconds."""
LOST_SECONDS = 150.0
"""The time without a touch after which a worker is lost, in seconds. A shared file system may tell
the time of a change a minute late."""
MOST_ATTEMPTS = 4
"""The number of workers that may be lost with one item."""


@dataclass(frozen=True)
class JobsExecutor(RemoteExecutor):
    """Processes of `nearkin work` that see the work folder.

    Attributes:
        workers: Number of processes that are expected.
    """

    workers: int

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, as described in `Executor`.

        Raises:
            RunError: If a worker failed, or several were lost with one item.
        """
        with self.sent(task) as remote_task:
            folder = remote_task.folder.parent.with_name(TASKS) / remote_task.folder.name
            for name in (TODO, DOING, DONE, FAILED):
                (folder / name).mkdir(parents=True)
            write_value(folder / TASK, remote_task)
            offered = _OfferedItems(folder, describe_task(task))
            try:
                yield from self.take_in_order(map(offered.add, items), self.workers, offered.take)
            finally:
                delete_shared_folder(folder)


class _Touch(NamedTuple):
    """The last time at which the file of an item had changed, by the clock of this process."""

    modified: int
    seen: float


class _OfferedItems:
    """The items that were offered to workers, and whose results were not taken yet."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._next = 0
        self._worked = time.monotonic()
        self._touched: dict[str, _Touch] = {}
        self._attempts: dict[str, int] = {}

    def add(self, item: object) -> str:
        """Offers an item, and returns its name."""
        name = f"{self._next:09d}"
        write_value(self._folder / TODO / name, item)
        self._next += 1
        return name

    def take(self, name: str) -> Returned:
        """Waits for what a worker returns of an item."""
        path = self._folder / DONE / name
        # A shared file system may remember that a file is missing. It looks a folder up again.
        while path not in list_entries(path.parent):
            self._require_written()
            self._offer_lost()
            time.sleep(POLL_SECONDS)
        returned: Returned = pickle.loads(path.read_bytes())
        path.unlink()
        return returned

    def _require_written(self) -> None:
        """Requires that no worker has failed to write."""
        for failed in list_entries(self._folder / FAILED):
            raise RunError(
                f"a worker could not write what it did of part {int(failed.name)} of {self._name}; "
                f"see its output, for example for a full disk, then run again with "
                f"{name_flag('resume')}"
            )

    def _offer_lost(self) -> None:
        """Offers items again whose workers are lost."""
        now = time.monotonic()
        taken = list_entries(self._folder / DOING)
        if taken:
            self._worked = now
        elif now - self._worked > LOST_SECONDS:
            self._worked = now
            work = quote_argument(str(self._folder.parent.parent))
            LOG.warning("no worker takes tasks; start workers: nearkin work %s", work)
        for path in taken:
            try:
                modified = path.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            touch = self._touched.get(path.name)
            if touch is None or touch.modified != modified:
                self._touched[path.name] = _Touch(modified, now)
            elif now - touch.seen > LOST_SECONDS:
                self._offer_again(path)

    def _offer_again(self, path: Path) -> None:
        name = path.name
        attempts = self._attempts[name] = self._attempts.get(name, 0) + 1
        if attempts >= MOST_ATTEMPTS:
            raise RunError(
                f"{attempts} workers were lost with part {int(name)} of {self._name}; see their "
                f"logs, for example for a lack of memory, then run again with "
                f"{name_flag('resume')}"
            )
        del self._touched[name]
        with suppress(FileNotFoundError):
            path.rename(self._folder / TODO / name)


def count_items(work: Path) -> dict[str, int]:
    """Returns the numbers of items that wait for workers, and that workers have taken."""
    folders = list_entries(work / TASKS)
    return {
        "waiting": sum(len(list_entries(folder / TODO)) for folder in folders),
        "taken": sum(len(list_entries(folder / DOING)) for folder in folders),
    }


def list_entries(folder: Path) -> list[Path]:
    """Returns the entries of a folder in the order of their names. It may not exist."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


def write_value(path: Path, value: object) -> None:
    """Writes a value to a file that appears when it is complete."""
    written = path.with_name(f".{uuid4().hex}")
    written.write_bytes(pickle.dumps(value))
    written.replace(path)
