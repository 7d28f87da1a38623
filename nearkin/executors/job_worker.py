"""The workers of jobs: processes of `nearkin work`, which do the tasks in a work folder."""

import os
import pickle
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from nearkin.errors import RunError, UsageError
from nearkin.executors.jobs import (
    DOING,
    DONE,
    FAILED,
    POLL_SECONDS,
    TASK,
    TODO,
    list_entries,
    write_value,
)
from nearkin.executors.remote import RemoteTask
from nearkin.runtime.executor import TASKS
from nearkin.runtime.outputs import is_output

TOUCH_SECONDS = 5.0
"""The time after which a worker touches the file of its item, in seconds."""


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
        taken = take_item(work / TASKS)
        if taken is None:
            time.sleep(POLL_SECONDS)
            continue
        folder = taken.parent.parent
        with _handed_back(taken), _touched(taken):
            if loaded is None or loaded[0] != folder:
                loaded = (folder, pickle.loads((folder / TASK).read_bytes()))
            returned = loaded[1](pickle.loads(taken.read_bytes()))
            write_value(folder / DONE / taken.name, returned)
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
                write_value(folder / DONE / taken.name, failed)
            except OSError:
                taken.rename(folder / FAILED / taken.name)
        raise
    except BaseException:
        with suppress(FileNotFoundError):
            taken.rename(folder / TODO / taken.name)
        raise


def take_item(tasks: Path) -> Path | None:
    """Takes an item of a task, and returns its file."""
    for folder in list_entries(tasks):
        for path in list_entries(folder / TODO):
            taken = folder / DOING / path.name
            try:
                path.rename(taken)
                os.utime(taken)
            except FileNotFoundError:
                continue
            return taken
    return None


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
