"""Threads over kernels that release the GIL, in order, with bounded work in flight."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Tool = TypeVar("Tool")


def ordered_map(work: Callable[[Item], Result], items: Iterable[Item], workers: int, ahead: int = 2) -> Iterator[Result]:
    """work(item) for each item in threads; results in the order of items; at most workers + ahead items in memory."""
    running: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, "nearkin") as pool:
        try:
            for item in items:
                running.append(pool.submit(work, item))
                if len(running) >= workers + ahead:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


class ObjectPool(Generic[Tool]):
    """Lends each call a tool of its own (a sketcher owns buffers, so it cannot be shared), made when none is free."""

    def __init__(self, make: Callable[[], Tool]) -> None:
        self._make = make
        self._free: SimpleQueue[Tool] = SimpleQueue()

    def use(self, work: Callable[[Tool], Result]) -> Result:
        """work(tool), the tool returned afterwards."""
        try:
            tool = self._free.get_nowait()
        except Empty:
            tool = self._make()
        try:
            return work(tool)
        finally:
            self._free.put(tool)
