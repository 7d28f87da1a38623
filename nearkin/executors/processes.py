"""Tasks of a run in other processes of this machine.

Threads share one interpreter. Where Python reads the inputs, such as JSON lines and CSV, it keeps
four cores busy at most. Processes have an interpreter each.
"""

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import TypeVar

from nearkin.errors import RunError
from nearkin.executors.remote import RemoteExecutor, RemoteTask, Returned, describe_task
from nearkin.runtime.setting_names import name_flag

Item = TypeVar("Item")
Result = TypeVar("Result")
TASK = "task"
"""The file of a task."""


@dataclass(frozen=True)
class Processes(RemoteExecutor):
    """Processes of this machine, each of which does one task at a time.

    Attributes:
        pool: The processes.
        workers: Number of processes.
    """

    pool: ProcessPoolExecutor
    workers: int

    @classmethod
    @contextmanager
    def start(cls, workers: int) -> Iterator["Processes"]:
        """Yields an executor, whose processes start with its first tasks and end with the body."""
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, spawn, _follow_parent) as pool:
            yield cls(pool, workers)

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, as described in `Executor`.

        Raises:
            RunError: If a process ended before its task.
        """
        begun: list[Future[Returned]] = []
        with self.sent(task) as remote_task:
            path = remote_task.folder / TASK
            path.write_bytes(pickle.dumps(remote_task))

            def begin(item: Item) -> Future[Returned]:
                begun.append(self.pool.submit(_call, path, item))
                return begun[-1]

            try:
                futures = map(begin, items)
                yield from self.take_in_order(futures, self.workers, Future.result, Future.cancel)
            except BrokenProcessPool as error:
                raise RunError(
                    f"a process ended while it did {describe_task(task)}; if the system ended it "
                    f"for lack of memory, lower {name_flag('memory')} or {name_flag('workers')}, "
                    f"then continue with {name_flag('resume')}"
                ) from error
            finally:
                # What is still done writes into the work folder, which an interrupted run may
                # delete.
                wait(begun)


def _follow_parent() -> None:
    """Leaves interrupts to the parent of this process, and ends with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def _call(path: Path, item: object) -> Returned:
    return _load(path)(item)


@lru_cache(maxsize=1)
def _load(path: Path) -> RemoteTask:
    task: RemoteTask = pickle.loads(path.read_bytes())
    return task
