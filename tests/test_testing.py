"""Tests of the contract of stores: the stores of nearkin pass it, and broken ones do not."""

import itertools
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.changes import Changes
from nearkin.index.maintenance import check_index
from nearkin.index.stores import urls
from nearkin.index.stores.base import Store
from nearkin.index.stores.memory import MemoryStore
from nearkin.index.stores.urls import open_store
from nearkin.testing import StoreContract, run_contract


class TestMemory(StoreContract):
    def open_store(self) -> Store:
        return open_store("memory://", nk.index_types.IndexSettings())


class TestSqlite(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    def open_store(self) -> Store:
        return open_store(f"sqlite:///{next(self.paths)}", nk.index_types.IndexSettings())


def small_store() -> Store:
    """Returns a store that has the methods that each store must have, and no others."""
    memory = MemoryStore(1000)

    def method(name: str) -> Callable[..., Any]:
        return lambda _, *arguments, **fields: getattr(memory, name)(*arguments, **fields)

    methods = {name: method(name) for name in Store.__abstractmethods__ - {"url"}}
    assert len(methods) == 12
    kind: type[Store] = type("SmallStore", (Store,), {**methods, "url": "small://store"})
    return kind()


class TestSmallStore(StoreContract):
    def open_store(self) -> Store:
        return small_store()


def test_an_index_over_a_small_store_expires_documents_and_checks_itself() -> None:
    times = iter(range(0, 1_000_000, 100))
    with nk.Index.open(store=small_store(), clock=lambda: next(times), record_ttl=1.0) as index:
        index.upsert("a", "one two three four five", "x")
        index.upsert("a", "another text of some words", "y")
        assert check_index(index).sound
        assert index.scopes() == ["a"]
        assert index.expire() == {"records": 2, "postings": 0}


class AppliesHalf(MemoryStore):
    """A store that does not check what a step relies on."""

    def _check(self, changes: Changes) -> None:
        pass


class ForgetsPostings(MemoryStore):
    """A store that leaves postings of deleted documents in their buckets."""

    def apply(self, changes: Changes) -> list[int]:
        changes.dropped = [keyed._replace(keys=None) for keyed in changes.dropped]
        return super().apply(changes)


@pytest.mark.parametrize("kind", [AppliesHalf, ForgetsPostings])
def test_contract_refuses_a_broken_store(kind: type[MemoryStore]) -> None:
    class Contract(StoreContract):
        def open_store(self) -> Store:
            return kind(1000)

    with pytest.raises((AssertionError, KeyError)):
        run_contract(Contract())


def test_contract_runs_without_a_test_runner() -> None:
    assert len(run_contract(TestMemory())) >= 12


def test_index_opens_over_a_given_store_and_closes_it() -> None:
    closed: list[bool] = []

    class Closing(MemoryStore):
        def close(self) -> None:
            closed.append(True)

    store = Closing(1000)
    with nk.Index.open(store=store, threshold=0.6) as index:
        assert index.upsert("a", "one two three four", "x").kind == "new"
        assert store.counts()["records"] == 1
    assert closed == [True]


@pytest.mark.parametrize("given", [{}, {"url": "memory://", "store": MemoryStore(10)}])
def test_a_url_or_a_store_is_required(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="exactly one"):
        nk.Index.open(**given)


def test_registered_schemes_open_their_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "mine": EntryPoint("mine", "tests.test_testing:open_mine", urls.STORE_GROUP),
        "broken": EntryPoint("broken", "no_such_module:open", urls.STORE_GROUP),
    }

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == "nearkin.stores"
        return [point for point in points.values() if name in (None, point.name)]

    monkeypatch.setattr(urls, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda point: load(point))
    with nk.Index.open("mine://place") as index:
        assert index.upsert("a", "one two three four", "x").kind == "new"
    with pytest.raises(UsageError, match=r"broken:// \(no_such_module:open\) cannot be loaded"):
        nk.Index.open("broken://x")
    with pytest.raises(UsageError, match="aerospike://, broken://, mine://"):
        nk.Index.open("other://x")


def load(point: EntryPoint) -> Any:
    """Loads an entry point of this module, which has no importable name here."""
    if point.name == "mine":
        return open_mine
    raise ModuleNotFoundError("No module named 'no_such_module'")


def open_mine(url: str, settings: nk.index_types.IndexSettings) -> Store:
    """Opens the store of the scheme mine://."""
    assert url == "mine://place"
    return MemoryStore(settings.bucket_capacity)
