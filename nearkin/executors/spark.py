"""Tasks of a run on the workers of a Spark cluster.

Spark gets a task once, as a broadcast, and the items in small jobs, which threads of the driver
submit. What a task returns is a file of the work folder, so no row passes through Java.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from pyspark import Broadcast
from pyspark.sql import SparkSession

from nearkin.executors.remote import RemoteExecutor, RemoteTask, Returned
from nearkin.runtime.threads import ordered_map

Item = TypeVar("Item")
Result = TypeVar("Result")
JOBS_AT_ONCE = 4
"""The number of jobs that do the items of all workers, each of which takes a few milliseconds."""


@dataclass(frozen=True)
class SparkExecutor(RemoteExecutor):
    """The workers of a Spark session.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    @property
    def workers(self) -> int:
        """The number of tasks that are done at a time."""
        return self.spark.sparkContext.defaultParallelism

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, as described in `Executor`.

        Raises:
            UsageError: If a worker does not see the work folder, or has another version of nearkin.
        """
        iterator = iter(items)
        size = max(2, self.workers // JOBS_AT_ONCE)
        portions = iter(lambda: list(islice(iterator, size)), [])
        first = next(portions, None)
        if first is None:
            return
        context = self.spark.sparkContext
        with self.sent(task) as remote_task:
            broadcast = context.broadcast(remote_task)
            group = f"nearkin {remote_task.folder.name}"
            name = f"nearkin: {type(task).__name__}"

            def run(portion: Sequence[Item]) -> list[Result]:
                context.setJobGroup(group, name, interruptOnCancel=True)
                packed = list(map(self.pack, portion))
                calls = context.parallelize(packed, len(packed)).map(_Call(broadcast))
                return list(map(self.take, calls.collect()))

            try:
                jobs = -(-2 * self.workers // size)
                results = ordered_map(run, chain([first], portions), jobs, ahead=0)
                yield from chain.from_iterable(results)
            finally:
                context.cancelJobGroup(group)
                broadcast.destroy()


@dataclass(frozen=True)
class _Call:
    """The function of an item that Spark sends with each job."""

    broadcast: Broadcast[RemoteTask]

    def __call__(self, item: object) -> Returned:
        task = self.broadcast.value
        returned = task(item)
        _freeze_heap(task.folder)
        return returned


@lru_cache(maxsize=1)
def _freeze_heap(folder: Path) -> None:
    """Hides what a task has loaded from the garbage collector, once for each task of a run.

    PySpark collects garbage after every item. To visit all modules takes 35 ms.

    Args:
        folder: Folder of what the task returns.
    """
    gc.freeze()
