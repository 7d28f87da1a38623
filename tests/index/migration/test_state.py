"""Tests of the migration state of every store: epochs, the generation and the log."""

from typing import Any

import pytest

from nearkin.errors import MovedError, RacedError
from nearkin.index.changes import TOUCHED, Changes, KeyedEntry
from nearkin.index.migration.state import COPYING, MOVED, OPEN, MigrationState
from nearkin.index.session import REFRESH_SECONDS
from tests.index.conftest import (
    Clock,
    Opener,
    corpus,
    preparer_of,
    store_of,
)


def test_a_store_refuses_steps_of_another_epoch(opened: Opener) -> None:
    index = opened()
    index.upsert("a", corpus(1)[0], "x")
    entry, store = index.get("a", "x"), store_of(index)
    assert entry is not None
    assert store.state().migration == MigrationState()
    migration = MigrationState(3, COPYING, ("sqlite:////there.db",))
    store.redirect(migration)
    assert store.state().migration == migration
    for again in (MigrationState(3, OPEN), MigrationState(1, MOVED)):
        with pytest.raises(RacedError):
            store.redirect(again)
    assert store.state().migration == migration
    before = store.counts()
    keys = preparer_of(index).keys_of("a", [entry])[0]
    for changes in (
        Changes(dropped=[KeyedEntry(entry, keys)], epoch=0),
        Changes(new=[KeyedEntry(entry._replace(id="y", leader="y", ref=0), keys)], epoch=2),
    ):
        with pytest.raises(MovedError):
            store.apply(changes)
    assert {**store.counts(), "bytes": 0} == {**before, "bytes": 0}
    store.apply(Changes(changed=[entry], epoch=3))
    store.apply(Changes(changed=[entry]))


def test_only_steps_that_invalidate_caches_raise_the_generation(opened: Opener) -> None:
    index = opened()
    texts = corpus(20, share=0.0)
    index.upsert_many("a", texts, [f"d{i}" for i in range(20)])
    index.upsert_many("a", texts, [f"d{i}" for i in range(20)])
    first = store_of(index).state().generation
    assert first == 0
    index.remove("a", "d1")
    second = store_of(index).state().generation
    assert second > first
    index.upsert("a", texts[1], "d2")
    assert store_of(index).state().generation > second


def test_steps_log_the_documents_that_they_touch_during_a_copy(opened: Opener) -> None:
    index, texts = opened(), corpus(10, share=0.0)
    index.upsert("a", texts[0], "before")
    store_of(index).redirect(MigrationState(1, COPYING, ("x",)))
    index.upsert_many("a", texts[1:3], ["one", "two"])
    index.remove("a", "before")
    index.upsert("a", texts[4], "two")
    touched = [event.id for event in store_of(index).events() if event.kind == TOUCHED]
    assert sorted(set(touched)) == ["before", "one", "two"]


def test_removals_of_another_process_invalidate_the_cache(
    opened: Opener, url: Any, clock: Clock
) -> None:
    if url == "memory://":
        pytest.skip("memory has no other processes")
    one, two = opened(), opened()
    texts = corpus(3, share=0.0)
    one.upsert_many("a", texts, ["x", "y", "z"])
    assert two.upsert("a", texts[0], "x").layer == "record"
    one.remove("a", "x")
    one.upsert("a", texts[2] + " changed", "y")
    outcome = two.upsert("a", texts[0], "x")
    assert (outcome.kind, outcome.layer) == ("new", "search")
    assert two.upsert("a", texts[2] + " changed", "y").layer == "store"
    assert two.upsert("a", texts[2] + " changed", "y").layer == "memory"


def test_own_removals_keep_other_cached_resolutions(opened: Opener, url: Any, clock: Clock) -> None:
    index, texts = opened(), corpus(6, share=0.0)
    index.upsert_many("a", texts, [f"d{i}" for i in range(6)])
    index.remove("a", "d0")
    index.upsert("a", texts[0], "d1")
    clock.now += REFRESH_SECONDS
    layer = index.upsert("a", texts[5], "d5").layer
    # the generation of shards is a sum, which a step raises several times, so the entry is read
    assert layer == ("record" if isinstance(url, list) else "memory")
