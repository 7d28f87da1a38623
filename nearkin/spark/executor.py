"""Tasks of a run on the workers of a Spark cluster.

Spark gets a task once, as a broadcast, and the items in small jobs, which threads of the driver
submit. What a task returns is a file of the work folder, so no row passes through Java.
"""

import pickle
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from pyspark import Broadcast
from pyspark.sql import SparkSession

from nearkin.engine.local.work_folder import RETURNED
from nearkin.errors import NearkinError, UsageError
from nearkin.runtime.threads import ordered_map
from nearkin.runtime.version import VERSION

Item = TypeVar("Item")
Result = TypeVar("Result")
JOBS_AT_ONCE = 8
"""The number of jobs into which the items are divided that all workers do at a time."""


@dataclass(frozen=True)
class SparkExecutor:
    """The workers of a Spark session.

    Attributes:
        spark: The session.
    """

    spark: SparkSession
    shares_memory = False

    @property
    def workers(self) -> int:
        """The number of tasks that are done at a time."""
        return self.spark.sparkContext.defaultParallelism

    def map(
        self, task: Callable[[Item], Result], items: Iterable[Item], work: Path
    ) -> Iterator[Result]:
        """Yields task(item) for each item, in the order of the items.

        Args:
            task: The task, which is pickled.
            items: The items. They are taken a bounded number ahead.
            work: The work folder of the run, which all workers see under this path.

        Raises:
            UsageError: If a worker does not see the work folder, or has another version of nearkin.
        """
        iterator = iter(items)
        size = max(1, self.workers // JOBS_AT_ONCE)
        portions = iter(lambda: list(islice(iterator, size)), [])
        first = next(portions, None)
        if first is None:
            return
        context = self.spark.sparkContext
        # A new folder, because tasks of a killed driver may still write into theirs.
        folder = work.absolute() / RETURNED / uuid4().hex
        folder.mkdir(parents=True)
        broadcast = context.broadcast(RemoteTask(pickle.dumps(task), folder))
        group = f"nearkin {folder.name}"

        def run(portion: Sequence[Item]) -> list[Result]:
            context.setJobGroup(group, f"nearkin: {type(task).__name__}", interruptOnCancel=True)
            calls = context.parallelize(portion, len(portion)).map(_Call(broadcast))
            return [_take(returned) for returned in calls.collect()]

        try:
            results = ordered_map(run, chain([first], portions), workers=-(-self.workers // size))
            yield from chain.from_iterable(results)
        finally:
            context.cancelJobGroup(group)
            broadcast.destroy()
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class RemoteTask:
    """A task as workers receive it.

    Attributes:
        pickled: The task.
        folder: Folder of what tasks return.
        version: Version of nearkin on the driver.
    """

    pickled: bytes
    folder: Path
    version: str = VERSION

    @cached_property
    def _task(self) -> Callable[[Any], Any]:
        return pickle.loads(self.pickled)

    def __call__(self, item: object) -> Path | NearkinError:
        """Does the task, and returns the file of its result, or the error that it raised."""
        if self.version != VERSION:
            return UsageError(
                f"worker {platform.node()} has nearkin {VERSION}, and the driver has "
                f"{self.version}; install one version on all machines"
            )
        if not self.folder.is_dir():
            return UsageError(
                f"worker {platform.node()} does not see the work folder {self.folder}; choose a "
                "folder that the driver and all workers see under the same path"
            )
        try:
            result = self._task(item)
        except NearkinError as error:
            return error
        path = self.folder / uuid4().hex
        with path.open("wb") as file:
            pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
        return path


@dataclass(frozen=True)
class _Call:
    """The function of an item that Spark sends with each job."""

    broadcast: Broadcast[RemoteTask]

    def __call__(self, item: object) -> Path | NearkinError:
        return self.broadcast.value(item)


def _take(returned: Path | NearkinError) -> Any:
    """Returns the result in a file and deletes the file, or raises an error."""
    if isinstance(returned, NearkinError):
        raise returned
    result = pickle.loads(returned.read_bytes())
    returned.unlink()
    return result
