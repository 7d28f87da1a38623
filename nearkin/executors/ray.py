"""Tasks of a run on the workers of a Ray cluster."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nearkin.errors import MissingExtraError, RunError
from nearkin.executors.remote import RemoteExecutor, RemoteTask, Returned

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class RayExecutor(RemoteExecutor):
    """The workers of a Ray cluster, each of which does one task at a time.

    Attributes:
        ray: The module, connected to the cluster.
    """

    ray: Any

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
        return cls(ray, exchange=exchange)

    @property
    def workers(self) -> int:
        """The number of tasks that are done at a time."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields task(item) for each item, as described in `Executor`.

        Raises:
            RunError: If a task failed, or its workers ended three times.
        """
        with self.sent(task) as remote_task:
            shared_task = self.ray.put(remote_task)
            call = self.ray.remote(num_cpus=1, max_retries=3)(_call)
            begun = (call.remote(shared_task, item) for item in map(self.pack, items))
            yield from self.take_in_order(begun, self.workers, self._wait, self.ray.cancel)

    def _wait(self, reference: Any) -> Returned:
        """Waits for what a task returns."""
        try:
            returned: Returned = self.ray.get(reference)
            return returned
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise RunError(f"a task of Ray failed: {reason}; Ray's logs have the trace") from error


def _call(task: RemoteTask, item: object) -> Returned:
    """Does a task. Ray unpickles it for each call, so the first one is kept with what it caches."""
    if task.folder not in _TASKS:
        _TASKS.clear()
        _TASKS[task.folder] = task
    return _TASKS[task.folder](item)


_TASKS: dict[Path, RemoteTask] = {}
"""The task of this process."""
