"""Tests of results that are returned without a write.

They agree with the store, whatever other processes have changed meanwhile.

The suite covers the index as a whole, over its stores, and not one module.
"""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import MovedError, RacedError, StoreError
from nearkin.index.cache import Resolution, ResolvedCache
from nearkin.index.changes import Changes, Event
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import MOVED, OPEN, MigrationState
from nearkin.index.preparation import Preparer
from nearkin.index.stores.sqlite import SqliteStore
from tests.index.conftest import Clock, Opener, corpus, replace_store, store_of
from tests.index.interleaving import Between, Countdown, beside
from tests.index.processes import change_the_same_documents, start_process

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


def test_an_acknowledged_upsert_is_stored_after_another_process_deleted_it(opened: Opener) -> None:
    """All documents are in the cache of the first process, and its next refresh is not due."""
    index = opened()
    other = beside(index)
    index.upsert("a", TEXT, "x")
    index.upsert("a", f"{TEXT} more", "y")
    assert [
        outcome.layer for outcome in index.upsert_many("a", [TEXT, f"{TEXT} more"], ["x", "y"])
    ] == ["memory"] * 2
    assert other.remove("a", "y")
    assert index.upsert("a", f"{TEXT} more", "y").kind == "match"
    assert other.get("a", "y") is not None
    assert other.remove("a", "x")
    outcomes = index.upsert_many("a", [TEXT, f"{TEXT} more"], ["x", "y"])
    assert [outcome.layer for outcome in outcomes] == ["search", "store"] or outcomes[
        1
    ].representative == "y"
    assert all(other.get("a", name) is not None for name in "xy")
    assert check_index(index).sound


def test_a_known_document_is_answered_from_memory_while_nothing_changes(opened: Opener) -> None:
    index = opened()
    index.upsert_many("a", corpus(20))
    entries = store_of(index).entries
    store_of(index).entries = lambda scope, ids: pytest.fail(
        "the store is asked for documents that are known"
    )
    try:
        assert {outcome.layer for outcome in index.upsert_many("a", corpus(20))} == {"memory"}
        assert index.upsert("a", corpus(20)[3]).layer == "memory"
    finally:
        store_of(index).entries = entries


def test_a_known_document_names_the_representative_that_it_has_now(opened: Opener) -> None:
    index = opened()
    other = beside(index)
    index.upsert("a", TEXT, "x")
    index.upsert("a", f"{TEXT} more", "y")
    assert index.upsert("a", f"{TEXT} more", "y").representative == "x"
    other.remove("a", "x")
    outcome = index.upsert("a", f"{TEXT} more", "y")
    assert (outcome.kind, outcome.representative) == ("exact", "y")


def test_an_expired_document_is_stored_again(opened: Opener, clock: Clock) -> None:
    index = opened(record_ttl=100.0)
    index.upsert("a", TEXT, "x")
    later = Clock()
    later.now = clock.now + 1000.0
    other = beside(index, record_ttl=100.0)
    other._session.clock = later
    assert other.expire()["records"] == 1
    index.upsert("a", TEXT, "x")
    assert other.get("a", "x") is not None


@contextmanager
def moved(tmp_path: Path, clock: Clock) -> Iterator[tuple[nk.Index, nk.Index]]:
    """Yields an index that does not know of a migration, and one that does."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new")]
    with (
        nk.Index.open(urls[0], threshold=0.7, clock=clock) as late,
        nk.Index.open(urls[1], threshold=0.7) as there,
    ):
        late.upsert("a", TEXT, "x")
        there.upsert("a", TEXT, "x")
        there.upsert("a", corpus(1)[0], "z")
        there.add_part("a", "p", f"{TEXT} in parts")
        epoch = store_of(late).state().migration.epoch
        store_of(late).redirect(MigrationState(epoch + 1, MOVED, (urls[1],)))
        yield late, there


@pytest.mark.parametrize("cached", [True, False])
def test_an_answer_is_of_the_store_that_the_index_moved_to(
    cached: bool, tmp_path: Path, clock: Clock
) -> None:
    with moved(tmp_path, clock) as (late, there):
        there.remove("a", "x")
        if not cached:
            late._session.cache.clear()
        assert late.upsert("a", TEXT, "x").kind == "new"
        assert there.get("a", "x") is not None


def test_a_document_that_is_only_where_the_index_moved_to_is_deleted(
    tmp_path: Path, clock: Clock
) -> None:
    with moved(tmp_path, clock) as (late, there):
        assert late.remove("a", "z")
        assert there.get("a", "z") is None


def test_parts_that_are_only_where_the_index_moved_to_are_resolved(
    tmp_path: Path, clock: Clock
) -> None:
    with moved(tmp_path, clock) as (late, there):
        assert late.finish("a", "p") is not None
        assert there.get("a", "p") is not None


def test_a_copy_in_the_making_does_not_answer_after_a_move_began(
    tmp_path: Path, clock: Clock
) -> None:
    with nk.Index.open(
        f"sqlite:///{tmp_path}/kin.db", threshold=0.7, clock=clock, follow=False
    ) as index:
        index.upsert("a", TEXT, "x")
        store_of(index).redirect(MigrationState(7, OPEN))
        with pytest.raises(MovedError):
            index.upsert("a", TEXT, "x")
        with pytest.raises(MovedError):
            index.remove("a", "nobody")


def test_steps_of_this_process_do_not_empty_the_cache(opened: Opener) -> None:
    """Over shards, a step raises the generation several times, so entries are read again."""
    index = opened()
    if " " in index.url:
        pytest.skip("over shards what is remembered is confirmed by the documents themselves")
    index.upsert_many("a", corpus(10))
    index.upsert("a", TEXT, "x")
    index.remove("a", "x")
    assert {outcome.layer for outcome in index.upsert_many("a", corpus(10))} == {"memory"}


def test_a_cache_says_nothing_while_a_step_of_its_process_is_under_way() -> None:
    cache = ResolvedCache(10, 10_000)
    cache.sync_generation(5, cache.stamp())
    cache.put("a", "x", Resolution(bytes(16), "x", "x", 1.0), cache.clear_count)
    stamp = cache.stamp()
    assert cache.sync_generation(5, stamp)
    cache.begin_step("one")
    assert not cache.sync_generation(5, cache.stamp())
    cache.end_step("one", done=True)
    assert not cache.sync_generation(6, stamp)
    assert cache.sync_generation(6, cache.stamp())
    assert cache.get("a", "x") is not None
    cache.begin_step("two")
    cache.end_step("two", done=False)
    assert not cache.sync_generation(6, cache.stamp())
    assert cache.get("a", "x") is None


def test_the_resolution_cache_is_bounded_in_bytes() -> None:
    """A limit of half a million entries alone would allow two gigabytes, with ids of a kilobyte."""
    most = 200_000
    cache = ResolvedCache(500_000, most)
    long = "n" * 1000
    for at in range(1000):
        cache.put(
            long,
            f"{long}{at}",
            Resolution(bytes(16), f"{long}{at}", f"{long}{at}", 1.0),
            cache.clear_count,
        )
        assert cache.nbytes <= most
    assert cache.nbytes > most // 3
    assert cache.get(long, f"{long}999") is not None
    assert cache.get(long, f"{long}0") is None
    kept = [at for at in range(1000) if cache.get(long, f"{long}{at}") is not None]
    assert len(kept) == len(cache)
    for at in kept:
        cache.forget(long, f"{long}{at}")
    assert (len(cache), cache.nbytes) == (0, 0)


def test_a_setting_bounds_the_resolution_cache(tmp_path: Path) -> None:
    with nk.Index.open("memory://", threshold=0.7, cache_bytes=0) as index:
        index.upsert("a", TEXT, "x")
        assert index.upsert("a", TEXT, "x").layer == "record"
        assert index.stats()["cached_bytes"] == 0


# -- SQLite: one state of the file


@contextmanager
def without_collector() -> Iterator[None]:
    """Turns the garbage collector off, which rarely runs in a server."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def raced(index: nk.Index, other: nk.Index, at: int) -> None:
    """Makes a step of one index conflict with a step of another one, and drops the error."""
    store = store_of(index)
    replace_store(index, Between(store, Countdown(1, lambda: other.remove("a", f"m{at}"))))
    try:
        index.remove("a", "x")
    finally:
        replace_store(index, store)


def test_sqlite_does_not_stay_in_an_old_state_after_races(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kin.db"
    with (
        without_collector(),
        nk.Index.open(url, threshold=0.7) as index,
        nk.Index.open(url) as other,
    ):
        for at in range(12):
            index.upsert("a", TEXT, "x")
            index.upsert_many(
                "a", [f"{TEXT} m{n}" for n in range(30)], [f"m{n}" for n in range(30)]
            )
            raced(index, other, at)
            assert not store_of(index)._db.in_transaction
            other.upsert("a", f"{TEXT} o{at}", "o")
            assert index.get("a", "o") is not None
            index.upsert("a", f"{TEXT} own {at}", "own")
        assert check_index(index).sound


def test_sqlite_errors_keep_no_cursor_and_no_frame_alive(tmp_path: Path) -> None:
    """The error itself is kept, as by a log handler or a debugger."""
    url = f"sqlite:///{tmp_path}/kin.db"
    with (
        without_collector(),
        nk.Index.open(url, threshold=0.7) as index,
        nk.Index.open(url) as other,
    ):
        index.upsert_many(
            "a", [TEXT, *(f"{TEXT} m{n}" for n in range(50))], ["x", *(f"m{n}" for n in range(50))]
        )
        kept: list[BaseException] = []
        gone = index.get("a", "x")
        assert gone is not None
        from nearkin.index.changes import KeyedEntry, LeaderSnapshot

        for standing in (
            LeaderSnapshot(gone._replace(leader="else"), frozenset()),
            LeaderSnapshot(gone, frozenset([1, 2])),
        ):
            with pytest.raises(RacedError) as caught:
                store_of(index).apply(
                    Changes(dropped=[KeyedEntry(gone, None)], leader_snapshots=[standing])
                )
            kept.append(caught.value)
        other.upsert("b", TEXT, "there")
        assert index.get("b", "there") is not None
        index.upsert("b", f"{TEXT} more", "here")
        assert len(kept) == 2


def test_several_processes_may_share_sqlite(tmp_path: Path, full: bool) -> None:
    """Processes without a garbage collector change the same documents.

    None is locked out, and the index is sound.
    """
    url = f"sqlite:///{tmp_path}/kin.db"
    nk.Index.open(url, threshold=0.7).close()
    rounds = 400 if full else 60
    workers = [start_process(change_the_same_documents, url, rounds, name) for name in "pqr"]
    for worker in workers:
        assert worker.pipe.recv() == "ready"
    for worker in workers:
        worker.pipe.send("go")
    for worker in workers:
        assert worker.pipe.recv() == "done"
        worker.end()
    with nk.Index.open(url) as index:
        assert check_index(index).sound


def test_a_sqlite_table_that_was_read_in_part_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while the buckets are read again does not leave an incomplete table in use."""
    url = f"sqlite:///{tmp_path}/kin.db"
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert("a", TEXT, "x")
        store = store_of(index)
        assert isinstance(store, SqliteStore)
        blocks = SqliteStore._read_blocks

        def failing(self: SqliteStore, query: str, values: Any = ()) -> Iterator[list[Any]]:
            yield from blocks(self, query, values)
            raise OSError("a read failed")

        monkeypatch.setattr(SqliteStore, "_read_blocks", failing)
        with pytest.raises(StoreError, match="a read failed"), store._converted_errors():
            store._load_buckets()
        monkeypatch.undo()
        assert index.query("a", f"{TEXT} more")[0].id == "x"


# -- scopes


def test_keys_that_collide_do_not_cross_scopes(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every scope has the same salt, as if 64-bit keys collided by chance."""
    monkeypatch.setattr(Preparer, "scope_salt", lambda self, scope: np.uint64(7))
    for postings in ("leaders",):
        index = opened(postings=postings)
        assert index.upsert("a", TEXT, "x").kind == "new"
        assert index.upsert("b", f"{TEXT} more", "y").kind == "new"
        assert index.query("c", TEXT) == []
        assert [match.id for match in index.query("b", TEXT)] == ["y"]
        assert [
            outcome.kind for outcome in index.upsert_many("c", [TEXT, f"{TEXT} less"], ["p", "q"])
        ] == ["new", "match"]
        assert index.upsert("b", f"{TEXT} most", "z").representative == "y"
        # the second representative of each scope resembles the first of another one only
        assert index.merge_into_older("b", "y") == 0
        assert index.merge_into_older("c", "p") == 0
        index.remove("b", "y")
        assert index.cluster("b", "z").representative == "z"
        assert index.upsert("b", corpus(1)[0], "z").kind == "updated"
        index.add_part("d", "parts", TEXT)
        outcome = index.finish("d", "parts")
        assert outcome is not None
        assert outcome.kind == "new"
        assert {match.id for match in index.query("a", TEXT)} == {"x"}


def test_keys_that_collide_do_not_cross_scopes_where_all_are_posted(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preparer, "scope_salt", lambda self, scope: np.uint64(7))
    index = opened(postings="all")
    index.upsert_many("a", [TEXT, f"{TEXT} more"], ["x", "y"])
    index.upsert_many("b", [f"{TEXT} other", f"{TEXT} most"], ["p", "q"])
    assert {match.id for match in index.query("a", TEXT)} == {"x", "y"}
    assert {match.id for match in index.query("b", TEXT)} == {"p", "q"}
    assert index.query("c", TEXT) == []


# -- what logs may say


def test_race_errors_name_no_document(opened: Opener) -> None:
    """Their messages are logged, and an id may be the name of a person."""
    index = opened()
    other = beside(index)
    index.upsert_many("a", [TEXT, f"{TEXT} more"], ["secret-id-one", "secret-id-two"])
    store, messages = store_of(index), list[str]()
    works = [
        (lambda: other.remove("a", "secret-id-one"), lambda: index.remove("a", "secret-id-one")),
        (
            lambda: other.upsert("a", corpus(1)[0], "secret-id-three"),
            lambda: index.upsert("a", TEXT, "secret-id-three"),
        ),
        (
            lambda: other.upsert("a", f"{TEXT} most", "secret-id-four"),
            lambda: index.remove("a", "secret-id-two"),
        ),
    ]
    for meanwhile, work in works:
        countdown = Countdown(1, meanwhile)

        class Saying(Between):
            def apply(self, changes: Changes) -> list[int]:
                try:
                    return super().apply(changes)
                except StoreError as error:
                    messages.append(str(error))
                    raise

        replace_store(index, Saying(store, countdown))
        work()
        replace_store(index, store)
    assert messages
    assert "secret" not in json.dumps(messages)
    assert Event("erased", "a", "secret-id-one", "", 1_000_000.0) in list(store.events())
