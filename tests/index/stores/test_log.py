"""Tests of the change log of every store."""

from typing import Any

import pytest

from nearkin.index.changes import TOUCHED
from nearkin.index.migration.state import COPYING, OPEN, MigrationState
from nearkin.index.stores import memory, postgres, redis, sql, sqlite
from tests.index.conftest import (
    Opener,
    corpus,
    count_shards,
    has_indexes,
    store_of,
)

pytestmark = pytest.mark.all_stores


def test_the_log_keeps_a_bounded_number_of_erasures(
    opened: Opener, url: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_indexes(url):
        pytest.skip("Aerospike keeps its log")
    for module in (sql, memory, redis):
        monkeypatch.setattr(module, "LOG_KEPT", 10)
    for module in (sql, sqlite, postgres, redis):
        monkeypatch.setattr(module, "LOG_PORTION", 4)
    index = opened()
    names = [f"d{i}" for i in range(80)]
    index.upsert_many("a", corpus(80, share=0.0), names)
    most = (10 + 4 + 1) * count_shards(url)
    for name in names[:50]:
        index.remove("a", name)
        assert len(list(store_of(index).events())) <= most
    lines = [event.id for event in store_of(index).events()]
    assert set(names[40:50]) <= set(lines)
    # during a copy, the log keeps everything that the copy needs
    store_of(index).redirect(
        MigrationState(store_of(index).state().migration.epoch + 1, COPYING, ("memory://",))
    )
    index.refresh()
    for name in names[50:]:
        index.remove("a", name)
    touched = [event.id for event in store_of(index).events() if event.kind == TOUCHED]
    assert sorted(set(touched)) == names[50:]
    store_of(index).redirect(MigrationState(store_of(index).state().migration.epoch + 1, OPEN))


def test_the_log_is_read_from_a_position(
    opened: Opener, url: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_indexes(url):
        pytest.skip("Aerospike reads its log as a whole")
    for module in (sql, sqlite, postgres, redis):
        monkeypatch.setattr(module, "LOG_PORTION", 4)
    index = opened()
    names = [f"d{i:02d}" for i in range(40)]
    index.upsert_many("a", corpus(40, share=0.0), names)
    for name in names[:25]:
        index.remove("a", name)
    place = store_of(index).log_end()
    assert list(store_of(index).events(place)) == []
    for name in names[25:]:
        index.remove("a", name)
    assert sorted(event.id for event in store_of(index).events(place)) == names[25:]
    assert sorted(event.id for event in store_of(index).events()) == names
