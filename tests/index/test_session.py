"""Tests of steps that conflict with others: they are repeated for a bounded time."""

import copy
import pickle
from pathlib import Path

import pytest

from nearkin.errors import RacedError, StoreError, UsageError
from nearkin.index.async_index import AsyncIndex
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.index import Index
from nearkin.index.session import MIN_RACES
from tests.index.conftest import (
    TEXT,
    Opener,
    store_of,
)


def test_errors_of_a_conflict_contain_no_id_scope_or_text(opened: Opener) -> None:
    """Servers log these errors, and their logs must not contain ids, scopes or texts."""
    index = opened()
    index.upsert("marked-scope", TEXT, "marked-id")
    entry = index.get("marked-scope", "marked-id")
    assert entry is not None
    (ref,) = store_of(index).reserve(1)
    again, gone = Changes(), Changes()
    again.new = [KeyedEntry(entry._replace(ref=ref), None)]
    gone.changed.append(entry._replace(id="marked-other", ref=ref))
    for changes in (again, gone):
        with pytest.raises(StoreError) as raised:
            index._session.apply(changes)
        assert not [word for word in ("marked", "quick", "brown") if word in str(raised.value)]


RACES = 40


def race(index: Index, monkeypatch: pytest.MonkeyPatch, times: float) -> list[int]:
    """Makes the next steps of a store conflict with another step.

    Returns a list that grows by one item with each conflict.
    """
    raced: list[int] = []
    apply = store_of(index).apply

    def apply_or_race(changes: Changes) -> list[int]:
        if len(raced) < times:
            raced.append(1)
            raise RacedError("forced")
        return apply(changes)

    monkeypatch.setattr(store_of(index), "apply", apply_or_race)
    return raced


def test_repeated_conflicts_are_hidden_from_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.index.session.MAX_RACE_SECONDS", 600.0)
    monkeypatch.setattr("nearkin.index.session.LONGEST_BACKOFF", 0.01)
    with Index.open("memory://") as index:
        raced = race(index, monkeypatch, RACES)
        assert index.upsert("a", "one two three", id="1").kind == "new"
        assert len(raced) == RACES
        race(index, monkeypatch, RACES)
        assert index.remove("a", "1")


def test_endless_conflicts_end_in_an_error_after_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.index.session.MAX_RACE_SECONDS", 0.2)
    monkeypatch.setattr("nearkin.index.session.LONGEST_BACKOFF", 0.01)
    with Index.open("memory://") as index:
        race(index, monkeypatch, float("inf"))
        with pytest.raises(RacedError, match="forced"):
            index.upsert("a", "one two three", id="1")


def test_slow_attempts_are_repeated_after_the_time_for_conflicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A first attempt that takes longer than the time for conflicts is not the last one."""
    monkeypatch.setattr("nearkin.index.session.MAX_RACE_SECONDS", 0.0)
    monkeypatch.setattr("nearkin.index.session.LONGEST_BACKOFF", 0.01)
    with Index.open("memory://") as index:
        raced = race(index, monkeypatch, MIN_RACES - 1)
        assert index.upsert("a", "one two three", id="1").kind == "new"
        assert len(raced) == MIN_RACES - 1


def test_pickled_index_is_refused_with_how_to_open_it_in_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with Index.open(url) as index, Index.open("memory://") as in_memory:
        for copy_index in (pickle.dumps, copy.deepcopy):
            with pytest.raises(UsageError, match=r"open it in each process with nearkin\.Index"):
                copy_index(index)
            with pytest.raises(UsageError, match="use a store that processes share"):
                copy_index(in_memory)
            with pytest.raises(UsageError, match="cannot be pickled"):
                copy_index(AsyncIndex(index))
