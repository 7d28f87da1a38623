"""An executor whose tasks run in other processes, as those of a cluster do."""

import itertools
import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

TASKS: dict[int, Callable[[Any], Any]] = {}


def _run(number: int, task: bytes, item: Any) -> Any:
    """Does a task, which a process unpickles once."""
    if number not in TASKS:
        TASKS.clear()
        TASKS[number] = pickle.loads(task)
    return TASKS[number](item)


class Processes:
    """An executor of several processes. Each task is done twice, at the same time.

    Args:
        workers: Number of processes.
    """

    shares_memory = False
    shares_files = True

    def __init__(self, workers: int = 2) -> None:
        self.workers = workers
        self.maps: list[type] = []
        """The types of the tasks."""
        self._numbers = itertools.count()
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))

    def close(self) -> None:
        """Ends the processes."""
        self._pool.shutdown()

    def at(self, work: Path) -> "Processes":
        """Returns itself: tasks know their folders."""
        return self

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yields task(item) for each item, in order."""
        items = list(items)
        if items:
            self.maps.append(type(task))
        pickled = pickle.dumps(task)
        number = next(self._numbers)
        futures = [
            [self._pool.submit(_run, number, pickled, item) for _ in range(2)] for item in items
        ]
        for first, second in futures:
            second.result()
            yield first.result()
