"""Tests of the gauges of an index, with a store that counts its readings."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nearkin.errors import StoreError
from nearkin.service.server.index_gauges import (
    COUNT_METRICS,
    FLEET_METRICS,
    REFRESH_SECONDS,
    IndexGauges,
)

COUNTS = {"bytes": 700, "records": 5, "leaders": 3, "postings": 60, "evicted": 0}


class Registry:
    """Registered gauges, and the errors of the store."""

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], float | None]] = {}
        self.errors: list[str] = []

    def register_gauge(self, name: str, description: str, read: Callable[[], float | None]) -> None:
        assert description.endswith(".")
        assert name not in self.gauges
        self.gauges[name] = read

    def record_store_error(self, operation: str) -> None:
        self.errors.append(operation)

    def values(self) -> dict[str, float | None]:
        return {name.removeprefix("nearkin_"): read() for name, read in self.gauges.items()}


class CountingIndex:
    """An index whose store can fail, and which counts how often it is read."""

    def __init__(self) -> None:
        self.readings = 0
        self.fails = False
        recent = SimpleNamespace(metrics=self.metrics, exact_drop_rate=0.25)
        self.search_stats = SimpleNamespace(recent_counts=lambda: recent)

    def counts(self) -> dict[str, int]:
        self.readings += 1
        if self.fails:
            raise StoreError("the store is away")
        return COUNTS

    def memory_bytes(self, counts: dict[str, int]) -> int:
        return counts["bytes"] + 1

    def metrics(self, recall: float | None, memory: int) -> Any:
        values = {"recall_on_labeled_set": recall, "index_memory_bytes": memory}
        return SimpleNamespace(values=lambda: values)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def index() -> CountingIndex:
    return CountingIndex()


@pytest.fixture
def registry(index: Any, clock: SimpleNamespace) -> Registry:
    registry: Any = Registry()
    IndexGauges(lambda: index, lambda: 0.75, registry).register()
    return registry  # type: ignore[no-any-return]


def test_every_gauge_has_the_value_of_the_index(registry: Registry) -> None:
    values = registry.values()
    assert set(values) == set(FLEET_METRICS) | set(COUNT_METRICS)
    assert {name: value for name, value in values.items() if value is not None} == {
        "store_bytes": 700,
        "records": 5,
        "leaders": 3,
        "postings": 60,
        "evicted": 0,
        "recall_on_labeled_set": 0.75,
        "index_memory_bytes": 701,
        "exact_drop_rate": 0.25,
    }


def test_scrapes_of_one_second_read_the_store_once(
    registry: Registry, index: CountingIndex, clock: SimpleNamespace
) -> None:
    registry.values()
    clock.now += REFRESH_SECONDS * 0.9
    registry.values()
    assert index.readings == 1
    clock.now += REFRESH_SECONDS * 0.2
    registry.values()
    assert index.readings == 2


def test_store_failure_leaves_no_old_values(
    registry: Registry, index: CountingIndex, clock: SimpleNamespace
) -> None:
    registry.values()
    index.fails = True
    clock.now += 2
    assert set(registry.values().values()) == {None}
    assert registry.errors == ["metrics"]
    index.fails = False
    clock.now += 2
    assert registry.values()["records"] == 5
