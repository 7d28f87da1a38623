"""Executors: what does the tasks of a stage, in threads of this process or in other processes.

A task is a function of one item. It reads files of the inputs and of the work folder, so it can be
done anywhere, in any order, and more than once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar, runtime_checkable

from nearkin.runtime.threads import ordered_map

RETURNED = "returned"
"""Folder of what tasks of other processes return, in the work folder of a run."""
TASKS = "tasks"
"""Folder of the tasks that other processes look for."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Task:
    """A dataclass that is pickled by its fields alone. What it caches stays in its process."""

    @cached_property
    def stopped(self) -> Event:
        """Set if nobody waits for results any more, so that a task of a large item can end."""
        return Event()

    def __getstate__(self) -> dict[str, object]:
        own: Any = self
        return {field.name: getattr(self, field.name) for field in fields(own)}


@runtime_checkable
class Executor(Protocol):
    """A place where tasks are done."""

    @property
    def workers(self) -> int:
        """The number of tasks that are done at a time."""

    @property
    def shares_memory(self) -> bool:
        """True if tasks see the memory of this process. Others see files alone."""

    @property
    def shares_files(self) -> bool:
        """True if all tasks see the same files. Others have copies of what stages have written."""

    def at(self, work: Path) -> "Executor":
        """Returns an executor of the tasks of a run.

        Args:
            work: Work folder of the run, which all tasks see under this path.
        """

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, in the order of the items.

        Args:
            task: The task. It is pickled unless tasks share memory.
            items: The items. They are taken a bounded number ahead.
        """


@dataclass(frozen=True)
class Threads:
    """Threads of this process.

    Attributes:
        workers: Number of threads.
    """

    workers: int
    shares_memory = True
    shares_files = True

    def at(self, work: Path) -> "Threads":
        """Returns itself: threads need no folder."""
        return self

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, as described in `Executor`."""
        stopped = task.stopped if isinstance(task, Task) else None
        return ordered_map(task, items, self.workers, stopped=stopped)


def limit_threads(executor: Executor, most: int) -> Executor:
    """Returns an executor with at most so many threads, if tasks share the memory of a process."""
    return Threads(max(1, min(executor.workers, most))) if executor.shares_memory else executor
