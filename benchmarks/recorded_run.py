"""Runs `nearkin` and records the tasks that it gives to threads, for the model of `cores`.

python -m benchmarks.recorded_run RECORD dedup corpus --out out --workers 2
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypedDict


class Portion(TypedDict):
    """A time in which the main thread has given tasks to threads."""

    wall: float
    """Wall seconds."""
    main: float
    """Processor seconds of the main thread."""
    tasks: list[float]
    """Processor seconds of each task."""


class RecordedRun(TypedDict):
    """The work that a run did at once, and the time that it took in all."""

    wall: float
    """Wall seconds from the first import to the end."""
    portions: list[Portion]


class _Pool(NamedTuple):
    """The tasks between two moments of the main thread, each as (wall, processor) seconds."""

    begin: tuple[float, float]
    end: tuple[float, float]
    tasks: list[float]


POOLS: list[_Pool] = []


class RecordingPool(ThreadPoolExecutor):
    """A pool that records its tasks.

    Pools that tasks create are left out, because tasks include their time.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tasks: list[float] = []
        self._begin = _now()
        self._is_own = threading.current_thread() is threading.main_thread()

    def submit(self, work: Callable[..., Any], /, *items: Any, **options: Any) -> "Future[Any]":
        """Starts a task."""

        def timed() -> Any:
            began = time.thread_time()
            try:
                return work(*items, **options)
            finally:
                self._tasks.append(time.thread_time() - began)

        return super().submit(timed)

    def shutdown(self, *arguments: Any, **options: Any) -> None:
        """Ends the pool."""
        super().shutdown(*arguments, **options)
        if self._is_own:
            POOLS.append(_Pool(self._begin, _now(), self._tasks))


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


def join_portions(pools: list[_Pool]) -> list[Portion]:
    """Returns the portions of a run. Pools that were open at the same time are one portion."""
    portions: list[Portion] = []
    end = (0.0, 0.0)
    for pool in sorted(pools, key=lambda pool: pool.begin):
        if portions and pool.begin < end:
            last = portions[-1]
            last["tasks"] += pool.tasks
            last["wall"] += max(0.0, pool.end[0] - end[0])
            last["main"] += max(0.0, pool.end[1] - end[1])
        else:
            wall, main = pool.end[0] - pool.begin[0], pool.end[1] - pool.begin[1]
            portions.append(Portion(wall=wall, main=main, tasks=list(pool.tasks)))
        end = max(end, pool.end)
    return portions


def main() -> None:
    """Runs the command line."""
    began = time.perf_counter()
    record = Path(sys.argv.pop(1))
    sys.dont_write_bytecode = False
    import nearkin.corpus.writer
    import nearkin.runtime.threads
    from nearkin.cli.app import main as run

    for module in (nearkin.runtime.threads, nearkin.corpus.writer):
        module.ThreadPoolExecutor = RecordingPool  # type: ignore[misc]
    try:
        run()
    finally:
        wall = time.perf_counter() - began
        recorded = RecordedRun(wall=wall, portions=join_portions(POOLS))
        record.write_text(json.dumps(recorded))


if __name__ == "__main__":
    main()
