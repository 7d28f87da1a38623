"""Tests of times to live, of the window, and of sweeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import RacedError
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import MOVED, MigrationState
from tests.index.conftest import (
    NEAR,
    TEXT,
    Clock,
    Opener,
    assert_integrity,
    corpus,
    has_indexes,
    store_of,
)
from tests.services import wait_until


def test_documents_and_postings_expire_after_their_times_to_live(
    opened: Opener, clock: Clock
) -> None:
    index = opened(record_ttl=90.0, bucket_ttl=14.0)
    index.upsert("a", TEXT, "x")
    index.upsert("a", NEAR, "y")
    clock.now += 10
    assert index.upsert("a", TEXT, "x").kind == "exact"
    clock.now += 10
    # the hit kept the bucket alive
    assert index.upsert("a", TEXT + " once more", "z").representative == "x"
    clock.now += 15
    assert index.upsert("a", TEXT + " again", "u").representative == "u"
    assert index.expire() == {"records": 0, "postings": 1}
    # a document that was resolved before keeps its cluster
    assert index.upsert("a", NEAR, "y").cluster == "x"
    assert_integrity(index)
    clock.now += 80
    index.expire()
    clock.now += 91
    gone = index.expire()
    assert gone["records"] > 0
    assert index.stats()["records"] == index.stats()["postings"] == 0
    assert_integrity(index)


def test_a_representative_outside_the_window_is_not_matched(opened: Opener, clock: Clock) -> None:
    index = opened(window=72 * 3600.0)
    index.upsert("a", TEXT, "x")
    clock.now += 71 * 3600
    assert index.upsert("a", NEAR, "y").representative == "x"
    clock.now += 73 * 3600
    assert index.upsert("a", TEXT + " again", "z").representative == "z"


def test_a_sweep_deletes_all_due_documents_in_portions(
    opened: Opener, clock: Clock, small_portions: int
) -> None:
    index = opened(record_ttl=50.0)
    index.upsert_many("a", corpus(60), [f"d{i}" for i in range(60)])
    clock.now += 100.0
    index.upsert_many("b", corpus(10), [f"d{i}" for i in range(10)])
    assert index.expire()["records"] == 60
    assert index.stats()["records"] == 10
    assert check_index(index).sound


def test_one_of_several_processes_sweeps(
    opened: Opener, url: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_indexes(url) or url == "memory://":
        pytest.skip("every process sweeps")
    first, second = opened(record_ttl=50.0), opened(record_ttl=50.0)
    first.upsert_many("a", corpus(20), [f"d{i}" for i in range(20)])
    clock.now += 100.0

    def due(before: float, *, posted: bool) -> Iterator[Entry]:
        raise AssertionError("it was not its turn")

    # fewer than half of the documents are due at once, as opposed to a clock that is wrong
    first.upsert_many("b", corpus(30), [f"d{i}" for i in range(30)])
    assert first.sweep(1_000.0)["records"] == 20
    with monkeypatch.context() as patched:
        patched.setattr(store_of(second), "due", due)
        assert second.sweep(1_000.0) == {"records": 0, "postings": 0}
    assert store_of(first).take_turn("other", "first", 0.05)
    wait_until(
        lambda: store_of(second).take_turn("other", "second", 100.0),
        "the turn of the first one is over",
    )
    assert not store_of(first).take_turn("other", "first", 100.0)


def test_a_sweep_goes_on_when_the_index_moves(
    tmp_path: Path, clock: Clock, small_portions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    with (
        nk.Index.open(old, clock=clock, record_ttl=50.0) as index,
        nk.Index.open(new, clock=clock) as target,
    ):
        for opened in (index, target):
            opened.upsert_many("a", corpus(20), [f"d{i}" for i in range(20)])
        clock.now += 100.0
        expire_document = index._expiry._expire_document

        def move_first(due: Entry, before: float) -> bool:
            if store_of(index).url == old:
                store_of(index).redirect(MigrationState(1, MOVED, (new,)))
                index.refresh()
            return expire_document(due, before)

        monkeypatch.setattr(index._expiry, "_expire_document", move_first)
        assert index.expire(trust_clock=True)["records"] == 20
        assert target.stats()["records"] == 0


def test_documents_that_stay_in_their_buckets_are_not_counted(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nk.Index.open("memory://", clock=clock, bucket_ttl=10.0) as index:
        index.upsert("a", TEXT, "x")
        clock.now += 20.0

        def refuse(changes: object) -> None:
            raise RacedError("a document was deleted by another process")

        with monkeypatch.context() as patched:
            patched.setattr(index._session, "apply", refuse)
            assert index.expire(trust_clock=True)["postings"] == 0
        assert index.expire(trust_clock=True)["postings"] == 1
