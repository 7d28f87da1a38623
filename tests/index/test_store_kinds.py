"""Tests of the kinds of stores that the tests of this folder run over in the quick form."""

from collections import Counter
from pathlib import Path

import pytest

from tests.index.store_kinds import (
    AEROSPIKE,
    SERVERS,
    SIMULATED,
    STORES,
    quick_kinds,
    store_parameter,
)


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AEROSPIKE, raising=False)


@pytest.mark.usefixtures("no_server")
def test_a_test_runs_over_four_kinds_of_stores() -> None:
    counts: Counter[str] = Counter()
    for number in range(900):
        chosen = quick_kinds(f"test_{number}", STORES)
        assert {"memory", "sqlite"} < chosen
        assert len(chosen & set(SERVERS)) == len(chosen & set(SIMULATED)) == 1
        assert len(chosen) == 4
        counts.update(chosen)
    assert all(counts[kind] > 250 for kind in SERVERS + SIMULATED)


@pytest.mark.usefixtures("no_server")
def test_a_test_of_few_kinds_runs_over_one_of_each_sort() -> None:
    assert quick_kinds("test", ["sqlite", "redis"]) == {"sqlite", "redis"}
    assert len(quick_kinds("test", ["redis", "postgres"])) == 1
    assert quick_kinds("test", ["aerospike-strong"]) == {"aerospike-strong"}


def test_a_real_server_is_used_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AEROSPIKE, "localhost:3000")
    assert "aerospike-server" in quick_kinds("test", STORES)


def test_each_kind_of_store_occurs_in_many_tests(request: pytest.FixtureRequest) -> None:
    folder = Path(__file__).parent
    items = [item for item in request.session.items if item.path.is_relative_to(folder)]
    if {item.path for item in items} != set(folder.rglob("test_*.py")):
        pytest.skip("needs all tests of the folder")
    parameters = [(item, store_parameter(item)) for item in items]
    counts = Counter(item.callspec.params[name] for item, name in parameters if name is not None)
    for kind in STORES[:-1]:
        assert counts[kind] >= 50, counts
