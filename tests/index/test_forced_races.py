"""Steps that meet others again and again: they are tried again for a bounded time, so that callers
see no race."""

import pytest

from nearkin.errors import RacedError
from nearkin.index.changes import Changes
from nearkin.index.index import Index

RACES = 40


def race(index: Index, monkeypatch: pytest.MonkeyPatch, times: float) -> list[int]:
    """Makes the next steps of a store meet another one.

    Returns a list that grows by one item each time.
    """
    raced: list[int] = []
    apply = index._session.store.apply

    def apply_or_race(changes: Changes) -> list[int]:
        if len(raced) < times:
            raced.append(1)
            raise RacedError("forced")
        return apply(changes)

    monkeypatch.setattr(index._session.store, "apply", apply_or_race)
    return raced


def test_many_races_are_not_seen_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.index.session.MAX_RACE_SECONDS", 600.0)
    monkeypatch.setattr("nearkin.index.session.LONGEST_BACKOFF", 0.01)
    with Index.open("memory://") as index:
        raced = race(index, monkeypatch, RACES)
        assert index.upsert("a", "one two three", id="1").kind == "new"
        assert len(raced) == RACES
        race(index, monkeypatch, RACES)
        assert index.remove("a", "1")


def test_races_without_end_are_an_error_after_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.index.session.MAX_RACE_SECONDS", 0.2)
    with Index.open("memory://") as index:
        race(index, monkeypatch, float("inf"))
        with pytest.raises(RacedError, match="forced"):
            index.upsert("a", "one two three", id="1")
