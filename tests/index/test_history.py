"""Tests of the history of an index, over all stores."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import ChangesGoneError, StoreError, UsageError
from nearkin.index.backup import backup, restore
from nearkin.index.changes import Change, Changes
from nearkin.index.history import NOW
from nearkin.index.index import Index
from nearkin.index.maintenance import merge_clusters
from nearkin.index.migration.cutover import cut_over
from nearkin.index.migration.key_rotation import rotate_key
from nearkin.index.stores.sharded import ShardedStore
from nearkin.runs.index_purge import purge_index
from nearkin.runs.loading import migrate
from nearkin.runtime.actor import Actor, acting_as
from nearkin.settings.decisions import Decision, Verdict
from nearkin.settings.keys import HashKey
from tests.index.conftest import (
    NEAR,
    TEXT,
    Clock,
    Opener,
    corpus,
    count_shards,
    postgres_transaction,
    store_of,
)
from tests.runs.test_index_purge import list_of

AGE = 1000.0
"""The age up to which lines are kept, in seconds."""


def read_all(index: Index, after: str | None = None, **fields: Any) -> list[Change]:
    """Returns all changes after a cursor, page by page."""
    changes: list[Change] = []
    while True:
        page = index.changes(after, **fields)
        changes += page.changes
        after = page.next
        if not page.has_more:
            return changes


def told(changes: list[Change]) -> set[tuple[str, str, str]]:
    return {(change.kind, change.id, change.into) for change in changes}


def replay(changes: list[Change]) -> dict[tuple[str, str], str]:
    """Returns the representative of each document, as a follower of the changes knows it."""
    stored: dict[tuple[str, str], str] = {}
    for change in changes:
        name = (change.scope, change.id)
        if change.kind in ("erased", "purged", "expired", "withdrawn"):
            stored.pop(name, None)
        elif change.kind not in ("merged", "decided-same", "decided-different"):
            stored[name] = change.into or change.id
    return stored


def documents(index: Index) -> dict[tuple[str, str], str]:
    """Returns the representative of each document that an index stores."""
    entries = [entry for entry in index.scan() if not entry.scope.startswith("\x1f")]
    return {(entry.scope, entry.id): entry.leader for entry in entries}


@pytest.mark.all_stores
def test_each_step_says_what_it_did(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.5, history=AGE, record_ttl=500.0)
    index.upsert("a", TEXT, "one")
    index.upsert("a", NEAR, "two")
    index.upsert("a", TEXT, "three")
    with acting_as(Actor("token shop")):
        index.remove("a", "one")
    index.upsert("a", "something else that nobody else says at all today", "three")
    changes = read_all(index)
    assert {("inserted", "one", ""), ("resolved", "two", "one"), ("resolved", "three", "one")} <= (
        told(changes)
    )
    assert ("erased", "one", "") in told(changes)
    assert ("promoted", "two", "") in told(changes)
    assert ("resolved", "three", "two") in told(changes)
    assert ("replaced", "three", "") in told(changes)
    actors = {change.actor for change in changes if change.kind in ("erased", "promoted")}
    assert actors == {"token shop"}
    assert {change.actor for change in changes if change.kind == "inserted"} == {"library"}
    assert replay(changes) == documents(index)
    cursor = index.changes(NOW).next
    clock.now += 600.0
    index.expire()
    assert {change.kind for change in read_all(index, cursor)} == {"expired"}
    assert replay(read_all(index)) == documents(index) == {}


@pytest.mark.all_stores
def test_a_page_continues_where_the_last_one_ended(opened: Opener) -> None:
    index = opened(history=AGE)
    names = [f"d{i:02d}" for i in range(25)]
    index.upsert_many("a", corpus(25, share=0.0), names)
    index.upsert("b", TEXT, "other")
    changes = read_all(index, limit=4)
    assert sorted(change.id for change in changes) == [*names, "other"]
    assert [change.id for change in read_all(index, scope="b")] == ["other"]
    middle = changes[9]
    assert read_all(index, middle.cursor, limit=3) == changes[10:]
    end = index.changes(NOW)
    assert (end.changes, index.changes(end.next).changes) == ((), ())
    index.remove("a", "d03")
    assert told(read_all(index, end.next)) == {("erased", "d03", "")}


@pytest.mark.all_stores
def test_lines_are_deleted_by_age_only(
    opened: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearkin.index.stores import memory, redis, sql

    for module in (sql, memory, redis):
        monkeypatch.setattr(module, "LOG_KEPT", 3)
    index = opened(history=AGE)
    start = index.changes(NOW).next
    index.upsert_many("a", corpus(20, share=0.0), [f"d{i}" for i in range(20)])
    old = read_all(index)
    assert len(old) == 20
    clock.now += AGE / 2
    index.upsert("a", TEXT, "new")
    current = index.changes(NOW).next
    clock.now += AGE / 2 + 1
    index.expire()
    assert [change.id for change in read_all(index)] == ["new"]
    for cursor in (start, old[3].cursor):
        with pytest.raises(ChangesGoneError, match="are not kept any more; start again"):
            index.changes(cursor)
    index.upsert("a", NEAR * 2, "newer")
    assert [change.id for change in read_all(index, current)] == ["newer"]
    clock.now += 2 * AGE
    index.expire()
    assert read_all(index) == []
    index.remove("a", "newer")
    assert [change.kind for change in read_all(index)] == ["erased"]


@pytest.mark.all_stores
def test_a_follower_of_two_writers_misses_nothing_and_keeps_the_order(
    opened: Opener, url: Any
) -> None:
    if url == "memory://":
        pytest.skip("one process has it open")
    index = opened(history=AGE)
    writers = [opened(), opened()]
    names = [f"d{i}" for i in range(6)]
    texts = corpus(60, share=0.0)

    def write(writer: Index, first: int) -> None:
        for i in range(first, 50, 2):
            writer.upsert("a", texts[i], names[i % 5 if first else i % 3])
            if i % 7 == 0:
                writer.remove("a", names[i % 3])

    threads = [Thread(target=write, args=(writers[i], i)) for i in range(2)]
    changes: list[Change] = []
    cursor: str | None = None
    for thread in threads:
        thread.start()
    is_running = True
    while is_running:
        is_running = any(thread.is_alive() for thread in threads)
        page = index.changes(cursor, limit=5)
        changes += page.changes
        cursor = page.next
    changes += read_all(index, cursor)
    assert len(set(changes)) == len(changes)
    # the order of lines of different shards may be another one
    lines, again = (
        Counter(replace(change, cursor="") for change in read)
        for read in (changes, read_all(index))
    )
    assert lines == again
    assert replay(changes) == documents(index)
    # a document is inserted before it is replaced, and inserted again only after it was deleted
    for name in names:
        is_stored = False
        for change in changes:
            if change.id == name:
                assert is_stored == (change.kind in ("replaced", "erased", "withdrawn"))
                is_stored = change.kind not in ("erased", "withdrawn")


def test_every_process_writes_lines_as_soon_as_one_asks_for_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with nk.Index.open(url) as first, nk.Index.open(url) as second:
        first.upsert("a", TEXT, "before")
        with pytest.raises(UsageError, match="keeps no history; open it once"):
            first.changes()
        with nk.Index.open(url, history=AGE) as third:
            second.upsert("a", "other words in another order", "after")
            assert [change.id for change in third.changes().changes] == ["after"]
            first.remove("a", "before")
        with nk.Index.open(url, history=0) as third:
            second.remove("a", "after")
            with pytest.raises(UsageError, match="keeps no history"):
                third.changes()


def test_decisions_and_purges_name_those_who_made_them(tmp_path: Path) -> None:
    with nk.Index.open(f"sqlite:///{tmp_path}/index.db", threshold=0.5, history=AGE) as index:
        index.upsert_many("a", [TEXT, NEAR], ["one", "two"])
        cursor = index.changes(NOW).next
        index.decide("a", [Decision("one", "two", Verdict.DIFFERENT, "ann")])
        decided = read_all(index, cursor)
        assert {(c.kind, c.id, c.into, c.actor) for c in decided if c.into} == {
            ("decided-different", "one", "two", "ann"),
            ("decided-different", "two", "one", "ann"),
        }
        assert ("promoted", "two", "") in told(decided)
        cursor = index.changes(NOW).next
        with acting_as(Actor("command line")):
            purge_index(index, "a", list_of([TEXT], index.spec), removes=True)
        assert {(c.kind, c.id, c.actor) for c in read_all(index, cursor)} == {
            ("purged", id, "command line") for id in ("one", "two")
        }


@pytest.mark.all_stores
def test_a_merge_is_told(opened: Opener) -> None:
    index = opened(threshold=0.5, history=AGE)
    index.decide("a", [Decision("one", "two", Verdict.DIFFERENT)])
    index.upsert_many("a", [TEXT, NEAR], ["one", "two"])
    cursor = index.changes(NOW).next
    later = Decision("one", "two", Verdict.SAME)
    index.decide("a", [later])
    changes = read_all(index, cursor)
    assert ("merged", "two", "one") in told(changes)
    assert ("resolved", "two", "one") in told(changes)
    assert replay(read_all(index)) == documents(index)


def test_contents_are_not_in_the_log(opened: Opener) -> None:
    index = opened(history=AGE)
    index.upsert("a", "sesame", "one")
    index.upsert("a", "sesame open", "one")
    index.remove("a", "one")
    assert not any("sesame" in str(line) for line in store_of(index).events())


@pytest.mark.all_stores
def test_a_migration_takes_the_history_along(tmp_path: Path, opened: Opener, url: Any) -> None:
    if url == "memory://" or count_shards(url) > 1:
        pytest.skip("an index in memory does not move")
    index = opened(threshold=0.5, history=AGE)
    index.upsert_many("a", [TEXT, NEAR], ["one", "two"])
    index.remove("a", "one")
    before = read_all(index)
    target = f"sqlite:///{tmp_path}/target.db"
    with nk.Index.open(target, threshold=0.5, follow=False) as copy:
        cut_over(index, copy, wait=0.0)
    after = read_all(index)
    assert [(c.kind, c.id, c.at, c.actor) for c in after] == [
        (c.kind, c.id, c.at, c.actor) for c in before
    ]
    with pytest.raises(ChangesGoneError, match="the index has moved, or was restored"):
        index.changes(before[-1].cursor)
    # the setting moved, too
    index.upsert("a", "words that nobody has said before", "three")
    assert read_all(index, after[-1].cursor)[0].id == "three"


def test_a_copy_and_a_new_key_take_the_history_along(tmp_path: Path) -> None:
    url, copy, keyed = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "copy", "keyed"))
    key = HashKey(b"k" * 16)
    with nk.Index.open(url, history=AGE * 1e6) as index:
        index.upsert_many("a", [TEXT, "other words"], ["one", "two"])
        index.remove("a", "one")
        before = read_all(index)
    migrate(url, copy, None)
    with acting_as(Actor("command line")):
        rotate_key(url, keyed, key)
    from nearkin.stages.sketch.resources import SpecResources

    with (
        nk.Index.open(copy, must_exist=True) as index,
        nk.Index.open(keyed, must_exist=True, resources=SpecResources(key)) as rotated,
    ):
        assert told(read_all(index)) == told(before)
        *lines, last = read_all(rotated)
        assert told(lines) == told(before)
        assert (last.kind, last.id, last.actor) == ("key-rotated", key.id, "command line")


def test_cursors_of_a_restored_index_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with nk.Index.open(url, history=AGE * 1e6) as index:
        index.upsert("a", TEXT, "one")
        backup(url, tmp_path / "backup.db")
        index.upsert("a", "other words", "two")
        cursor = index.changes(NOW).next
    restore(tmp_path / "backup.db", url, overwrite=True)
    with nk.Index.open(url) as index:
        index.upsert("a", "third words", "three")
        with pytest.raises(ChangesGoneError, match="restored"):
            index.changes(cursor)
        assert [change.id for change in read_all(index)] == ["one", "three"]


@pytest.mark.parametrize("cursor", ["", "x", "1.2.3", "x" * 2000, "A" * 32, "A" * 48, "ä"])
def test_a_bad_cursor_is_refused(cursor: str) -> None:
    with (
        nk.Index.open("memory://", history=AGE) as index,
        pytest.raises(UsageError, match="cursor"),
    ):
        index.changes(cursor)


@pytest.mark.all_stores
def test_a_reader_waits_for_lines_that_are_committed_later(opened: Opener, url: Any) -> None:
    if not str(url).startswith("postgresql"):
        pytest.skip("the steps of the other stores have one order")
    index = opened(history=AGE)
    cursor = index.changes(NOW).next
    pages: list[list[str]] = []

    def read() -> None:
        pages.append([change.id for change in read_all(index, cursor)])

    reader = Thread(target=read)
    with postgres_transaction(store_of(index)) as early:
        # it has its number, and is not visible yet
        early.execute(
            f"INSERT INTO {store_of(index)._s}.events (kind, scope, id, into_id, at) "  # type: ignore[attr-defined]
            "VALUES ('erased', 'a', 'early', '', 1.0)"
        )
        index.upsert("a", TEXT, "late")
        reader.start()
        reader.join(0.5)
        assert pages == []
        # nobody waits for the reader
        index.upsert("a", "other words", "later")
    reader.join()
    assert pages[0][:2] == ["early", "late"]


@pytest.mark.all_stores
def test_a_failure_between_the_parts_of_a_step_leaves_no_document_without_a_line(
    opened: Opener, url: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if count_shards(url) == 1:
        pytest.skip("a step of one store is atomic")
    index = opened(threshold=0.5, history=AGE)
    index.upsert("a", TEXT, "one")
    calls = 0
    write = ShardedStore._write_records

    def failing(failing_after: int) -> Callable[[ShardedStore, Changes], None]:
        def write_some(store: ShardedStore, changes: Changes) -> None:
            nonlocal calls
            calls += 1
            if calls > failing_after:
                raise StoreError("the shard is gone")
            write(store, changes)

        return write_some

    texts = corpus(12, share=0.0)
    for i, failing_after in enumerate((1, 2, 3, 4, 5)):
        calls = 0
        with monkeypatch.context() as broken, suppress(StoreError):
            broken.setattr(ShardedStore, "_write_records", failing(failing_after))
            index.upsert_many("a", [NEAR, texts[i], texts[i]], [f"m{i}", f"n{i}", f"o{i}"])
            index.remove("a", "one")
        assert replay(read_all(index)) == documents(index)
        index.upsert("a", TEXT, "one")
    assert replay(read_all(index)) == documents(index)


@pytest.mark.all_stores
@pytest.mark.parametrize("seed", [1, 2])
def test_a_follower_of_random_steps_knows_every_representative(
    opened: Opener, clock: Clock, seed: int
) -> None:
    draw = random.Random(seed)
    index = opened(threshold=0.6, history=1e9, record_ttl=300.0)
    texts = corpus(40, seed=seed, share=0.7)
    ids = [f"d{i}" for i in range(15)]
    changes: list[Change] = []
    cursor: str | None = None
    for _ in range(60):
        scope = draw.choice("ab")
        step = draw.random()
        some = draw.sample(ids, draw.randint(1, 4))
        clock.now += draw.choice((0.0, 1.0, 40.0))
        if step < 0.6:
            index.upsert_many(scope, [draw.choice(texts) for _ in some], some)
        elif step < 0.7:
            index.remove(scope, some[0])
        elif step < 0.78:
            index.remove_many(scope, some)
        elif step < 0.88 and len(some) > 1:
            verdict = draw.choice(list(Verdict))
            with suppress(UsageError):
                index.decide(scope, [Decision(some[0], some[1], verdict)])
        elif step < 0.92:
            merge_clusters(index)
        elif step < 0.97:
            index.expire(trust_clock=True)
        else:
            index.remove_scope(scope)
        changes += read_all(index, cursor)
        cursor = changes[-1].cursor if changes else None
        assert replay(changes) == documents(index)
        names = {(change.scope, change.id): change.cluster for change in changes if change.cluster}
        for entry in index.scan():
            if not entry.scope.startswith("\x1f"):
                assert names[entry.scope, entry.id] == entry.cluster
