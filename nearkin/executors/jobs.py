"""Tasks of a run by processes that share a folder: jobs of any cluster, or of several machines.

The run writes a task and its items into the work folder. Each `nearkin work` takes an item by
renaming its file, and leaves a file with what the task returned. While it works, it touches the
file of the item. If a file is not touched for some time, another worker takes the item.
"""

import logging
import os
import pickle
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, TypeVar
from uuid import uuid4

from nearkin.errors import RunError, UsageError
from nearkin.executors.remote import RemoteExecutor, RemoteTask, Returned, describe_task
from nearkin.runtime.executor import TASKS
from nearkin.runtime.files import delete_shared_folder
from nearkin.runtime.outputs import is_output
from nearkin.runtime.setting_names import name_flag
from nearkin.runtime.shell_quoting import quote_argument
from nearkin.runtime.threads import take_in_order

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
AHEAD = 2
"""The number of items that wait for each worker."""
POLL_SECONDS = 0.05
"""The time between looks into a folder, in seconds."""
TOUCH_SECONDS = 5.0
"""The time after which a worker touches the file of its item, in seconds."""
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
            _write(folder / TASK, remote_task)
            offered = _OfferedItems(folder, describe_task(task))
            most = AHEAD * self.workers
            try:
                names = map(offered.add, items)
                for returned in take_in_order(names, most, offered.take, lambda name: None):
                    yield self.take(returned)
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
        _write(self._folder / TODO / name, item)
        self._next += 1
        return name

    def take(self, name: str) -> Returned:
        """Waits for what a worker returns of an item."""
        path = self._folder / DONE / name
        # A shared file system may remember that a file is missing. It looks a folder up again.
        while path not in _list(path.parent):
            self._require_written()
            self._offer_lost()
            time.sleep(POLL_SECONDS)
        returned: Returned = pickle.loads(path.read_bytes())
        path.unlink()
        return returned

    def _require_written(self) -> None:
        """Requires that no worker has failed to write."""
        for failed in _list(self._folder / FAILED):
            raise RunError(
                f"a worker could not write what it did of part {int(failed.name)} of {self._name}; "
                f"see its output, for example for a full disk, then run again with "
                f"{name_flag('resume')}"
            )

    def _offer_lost(self) -> None:
        """Offers items again whose workers are lost."""
        now = time.monotonic()
        taken = _list(self._folder / DOING)
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
    folders = _list(work / TASKS)
    return {
        "waiting": sum(len(_list(folder / TODO)) for folder in folders),
        "taken": sum(len(_list(folder / DOING)) for folder in folders),
    }


def work_on(work: Path, patience: float) -> int:
    """Does the tasks of a run, and returns the number of those that were done.

    Args:
        work: Work folder of the run, which may not exist yet.
        patience: Time without tasks after which the worker ends, in seconds.

    Raises:
        UsageError: If the work folder belongs to another user, whose tasks could do anything, or if
            the folder is a finished result.
    """
    if is_output(work):
        raise UsageError(
            f"{work} is the result of a finished run; the work folder of a new one is "
            f"{work}.partial"
        )
    done = 0
    last = time.monotonic()
    loaded: tuple[Path, RemoteTask] | None = None
    was_there = False
    while time.monotonic() - last < patience and (work.exists() or not was_there):
        if not was_there and work.exists():
            was_there = True
            _require_trusted(work)
        taken = _take_item(work / TASKS)
        if taken is None:
            time.sleep(POLL_SECONDS)
            continue
        folder = taken.parent.parent
        with _handed_back(taken), _touched(taken):
            if loaded is None or loaded[0] != folder:
                loaded = (folder, pickle.loads((folder / TASK).read_bytes()))
            returned = loaded[1](pickle.loads(taken.read_bytes()))
            _write(folder / DONE / taken.name, returned)
            taken.unlink(missing_ok=True)
        done += 1
        last = time.monotonic()
    return done


def _require_trusted(work: Path) -> None:
    """Requires that the tasks in a work folder are those of this user or of root."""
    owner = work.stat().st_uid
    user = os.geteuid()
    if owner not in (0, user):
        raise UsageError(
            f"{work} belongs to user {owner}, and its tasks could do anything as user {user}; run "
            "workers as the user of the run"
        )


@contextmanager
def _handed_back(taken: Path) -> Iterator[None]:
    """A context in which a worker does an item that it has taken.

    The run receives the failure of an item. If the worker is interrupted, the item is left to
    others. A failure is ignored if nobody waits for the item any more, because others have done it
    or the run has ended: files may be gone or half deleted then.

    Args:
        taken: The file of the item.
    """
    folder = taken.parent.parent
    try:
        yield
    except Exception as error:
        if not taken.exists():
            return
        failed = RunError(
            f"a worker on {platform.node()} failed with {type(error).__name__}: {error}; its "
            "output has the whole trace"
        )
        with suppress(FileNotFoundError):
            try:
                _write(folder / DONE / taken.name, failed)
            except OSError:
                taken.rename(folder / FAILED / taken.name)
        raise
    except BaseException:
        with suppress(FileNotFoundError):
            taken.rename(folder / TODO / taken.name)
        raise


def _take_item(tasks: Path) -> Path | None:
    """Takes an item of a task, and returns its file."""
    for folder in _list(tasks):
        for path in _list(folder / TODO):
            taken = folder / DOING / path.name
            try:
                path.rename(taken)
                os.utime(taken)
            except FileNotFoundError:
                continue
            return taken
    return None


def _list(folder: Path) -> list[Path]:
    """Returns the entries of a folder in the order of their names. It may not exist."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


@contextmanager
def _touched(path: Path) -> Iterator[None]:
    """Touches a file every few seconds while the body runs."""
    is_done = Event()

    def touch() -> None:
        while not is_done.wait(TOUCH_SECONDS):
            try:
                os.utime(path)
            except FileNotFoundError:
                return

    thread = Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _write(path: Path, value: object) -> None:
    """Writes a value to a file that appears when it is complete."""
    written = path.with_name(f".{uuid4().hex}")
    written.write_bytes(pickle.dumps(value))
    written.replace(path)
