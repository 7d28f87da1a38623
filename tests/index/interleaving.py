"""Stores between whose steps another process acts, and an index as another process has it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nearkin.index.changes import Changes
from nearkin.index.index import Index
from nearkin.index.opening import Opened
from nearkin.index.session import Session
from nearkin.stages.sketch.resources import NO_RESOURCES
from tests.index.conftest import store_of


class Countdown:
    """Calls a function once, at the n-th step."""

    def __init__(self, steps: int, what: Callable[[], object]) -> None:
        self.left = steps
        self._what = what
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:
            self.left -= 1
            now = self.left == 0
        if now:
            self._what()


class Between:
    """A store, or a shard, in front of whose step something else happens."""

    def __init__(self, store: Any, countdown: Countdown) -> None:
        self._store, self._countdown = store, countdown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, changes: Changes) -> list[int]:
        self._countdown.step()
        numbers: list[int] = self._store.apply(changes)
        return numbers


def beside(index: Index, store: Any = None, record_ttl: float | None = None) -> Index:
    """Opens an index as another process has it, with its own locks and its own cache."""
    store = store or store_of(index)
    # an index without times to live still finds documents that the other one expires
    settings = replace(index.settings, record_ttl=record_ttl)
    opened = Opened(store, settings, store.state(), index._session.urls)
    return Index(Session(opened, NO_RESOURCES, index._session.clock, None, follow=True))
