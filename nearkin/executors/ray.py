"""Tasks of a run on the workers of a Ray cluster."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nearkin.errors import MissingExtraError, RunError
from nearkin.executors.object_store import ObjectStore, open_store
from nearkin.executors.remote import RemoteTask, Returned, pack_item, take_result
from nearkin.runtime.files import delete_shared_folder
from nearkin.runtime.threads import take_in_order

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2
"""The number of tasks that wait for each worker."""


@dataclass(frozen=True)
class RayExecutor:
    """The workers of a Ray cluster, each of which does one task at a time.

    Attributes:
        ray: The module, connected to the cluster.
        exchange: URL of a folder of an object store, for workers that see no folder of the driver.
        work: Work folder of the run.
        store: The store of the run.
    """

    ray: Any
    exchange: str | None = None
    work: Path | None = None
    store: ObjectStore | None = None
    shares_memory = False

    @property
    def shares_files(self) -> bool:
        """True if all tasks see the same work folder."""
        return self.exchange is None

    @classmethod
    def connect(cls, address: str | None, exchange: str | None = None) -> "RayExecutor":
        """Connects to a cluster, or starts one on this machine.

        Raises:
            MissingExtraError: If Ray is not installed.
            RunError: If the cluster cannot be reached.
        """
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError.for_extra("the executor ray requires ray", "ray") from error
        if not ray.is_initialized():
            try:
                ray.init(address, include_dashboard=False, log_to_driver=False)
            except (ConnectionError, ValueError) as error:
                raise RunError(f"cannot connect to Ray at {address}: {error}") from error
        return cls(ray, exchange)

    @property
    def workers(self) -> int:
        """The number of tasks that are done at a time."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def at(self, work: Path) -> "RayExecutor":
        """Returns an executor of the tasks of a run, as described in `Executor`."""
        return replace(self, work=work, store=open_store(self.exchange, work))

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, as described in `Executor`.

        Raises:
            RunError: If a task failed, or its workers ended three times.
        """
        remote_task = RemoteTask.create(task, self.work, self.store)
        shared_task = self.ray.put(remote_task)
        call = self.ray.remote(num_cpus=1, max_retries=3)(_call)
        packed = (pack_item(item, self.store) for item in items)
        begun = (call.remote(shared_task, item) for item in packed)
        most = AHEAD * self.workers
        try:
            yield from take_in_order(begun, most, self._take, self.ray.cancel)
        finally:
            delete_shared_folder(remote_task.folder)

    def _take(self, reference: Any) -> Any:
        """Returns the result of a task."""
        try:
            returned: Returned = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise RunError(f"a task of Ray failed: {reason}; Ray's logs have the trace") from error
        return take_result(returned, self.store)


def _call(task: RemoteTask, item: object) -> Returned:
    """Does a task. Ray unpickles it for each call, so the first one is kept with what it caches."""
    if task.folder not in _TASKS:
        _TASKS.clear()
        _TASKS[task.folder] = task
    return _TASKS[task.folder](item)


_TASKS: dict[Path, RemoteTask] = {}
"""The task of this process."""
