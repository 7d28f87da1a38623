"""An executor whose tasks are done again when nobody waits for them any more."""

import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any


class LateTasks:
    """An executor that does tasks in this process, as copies, and does many of them again later.

    It stands for workers that were stopped, or whose machine was slow: others do their task, the
    run goes on, and then they go on, too.

    Args:
        seed: Seed of the choice of tasks that are done again.
        workers: Number of workers that the executor names.
        share: Share of the earlier tasks that are done again before the first task of a map, and
            after the last one.
    """

    shares_memory = False
    shares_files = True

    def __init__(self, seed: int, workers: int = 2, share: float = 0.3) -> None:
        self.workers = workers
        self.late = 0
        """The number of tasks that were done again."""
        self._draw = random.Random(seed)
        self._share = share
        self._done: list[tuple[bytes, bytes]] = []

    def at(self, work: Path) -> "LateTasks":
        """Returns itself: tasks know their folders."""
        return self

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yields task(item) for each item, in order."""
        pickled = pickle.dumps(task)
        copy = pickle.loads(pickled)
        self._do_again()
        for item in items:
            pickled_item = pickle.dumps(item)
            yield pickle.loads(pickle.dumps(copy(pickle.loads(pickled_item))))
            self._done.append((pickled, pickled_item))
        self._do_again()

    def _do_again(self) -> None:
        """Does earlier tasks again, the oldest last. Their files may be gone."""
        for pickled, item in reversed(self._done):
            if self._draw.random() < self._share:
                self.late += 1
                with suppress(FileNotFoundError):
                    pickle.loads(pickled)(pickle.loads(item))
