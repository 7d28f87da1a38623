"""Threads that run kernels without the GIL, in order and with a bounded number of pending items."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event, Lock
from typing import Generic, TypeVar

from nearkin.runtime.argument_types import check_type
from nearkin.runtime.number_range import COUNT

ARRAY_HEADERS = Lock()
"""A lock for the reading of arrays from files. Their headers are literals of Python, and Python
3.11.7 raises a SystemError if two threads parse literals at once."""
Item = TypeVar("Item")
Result = TypeVar("Result")
Pending = TypeVar("Pending")
Tool = TypeVar("Tool")


def require_workers(workers: int) -> None:
    """Requires a number of threads."""
    COUNT.require("workers", check_type("workers", workers, int))


def ordered_map(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    ahead: int = 2,
    stopped: Event | None = None,
) -> Generator[Result, None, None]:
    """Yields work(item) for each item, computed in threads, in the order of the items.

    Args:
        stopped: Set at an error or an interruption, so that work ends that takes long.
    """
    require_workers(workers)
    with ThreadPoolExecutor(workers, "nearkin") as pool:
        futures = (pool.submit(work, item) for item in items)
        try:
            yield from take_in_order(futures, workers + ahead, Future.result, Future.cancel)
        except BaseException:
            if stopped is not None:
                stopped.set()
            raise


def take_in_order(
    pending: Iterable[Pending],
    most: int,
    take: Callable[[Pending], Result],
    cancel: Callable[[Pending], object],
) -> Generator[Result, None, None]:
    """Yields the results of pending work in its order. At an error, what is left is canceled.

    Args:
        pending: The work, each of which begins when it is taken.
        most: The number of works that begin before the first result is waited for.
    """
    running: deque[Pending] = deque()
    try:
        for begun in pending:
            running.append(begun)
            if len(running) >= most:
                yield take(running.popleft())
        while running:
            yield take(running.popleft())
    finally:
        for left in running:
            cancel(left)


@contextmanager
def beside(work: Callable[[], object], workers: int) -> Iterator[None]:
    """Does some work in a thread while the body runs, or after the body with one worker."""
    if workers == 1:
        yield
        work()
        return
    with ThreadPoolExecutor(1, "nearkin-beside") as pool:
        future = pool.submit(work)
        yield
        future.result()


class ObjectPool(Generic[Tool]):
    """A pool of objects that only one thread can use at a time, for example sketchers."""

    def __init__(self, make: Callable[[], Tool]) -> None:
        self._make = make
        self._free: SimpleQueue[Tool] = SimpleQueue()

    def use(self, work: Callable[[Tool], Result]) -> Result:
        """Returns work(tool) for a free object, and puts it back into the pool."""
        try:
            tool = self._free.get_nowait()
        except Empty:
            tool = self._make()
        try:
            return work(tool)
        finally:
            self._free.put(tool)
