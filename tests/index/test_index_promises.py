"""Tests of promises of docs/reference/stores.md and docs/explanation/security.md.

The suite covers the index as a whole, over its stores, and not one module.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import OutcomeUnknownError, StoreError
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.index.stores.postgres import PostgresStore
from nearkin.index.stores.redis import RedisStore
from nearkin.index.stores.sharded import ShardedStore
from nearkin.index.stores.sqlite import SqliteStore
from tests.index.conftest import Clock, Opener, corpus, empty_store, postgres_transaction, store_of
from tests.index.processes import answer_questions, start_process

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


@contextmanager
def failing_in_the_middle(store: Any) -> Iterator[None]:
    """Makes the database fail in the middle of a step.

    A row is refused, or a script needs too much memory, or one shard fails.
    """
    if isinstance(store, ShardedStore):
        with failing_in_the_middle(store.shards[0]):
            yield
        return
    undo: Callable[[], object]
    if isinstance(store, SqliteStore):
        refuse = "SELECT CASE WHEN NEW.ref % 2 = 0 OR NEW.ref > 12 THEN RAISE(ABORT, 'refused') END"
        store._db.execute(f"CREATE TRIGGER refusing BEFORE INSERT ON entries BEGIN {refuse}; END")
        undo = partial(store._db.execute, "DROP TRIGGER refusing")
    elif isinstance(store, PostgresStore):
        s = store._s
        with postgres_transaction(store) as run:
            body = "BEGIN RAISE EXCEPTION 'refused'; END"
            run.execute(
                f"CREATE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"
            )
            run.execute(
                f"CREATE TRIGGER refusing BEFORE INSERT ON {s}.buckets FOR EACH ROW EXECUTE "
                f"FUNCTION {s}.refuse()"
            )

        def undo() -> None:
            with postgres_transaction(store) as run:
                run.execute(f"DROP FUNCTION {s}.refuse() CASCADE")
    else:
        assert isinstance(store, RedisStore)
        store._client.config_set("maxmemory", 1)
        undo = partial(store._client.config_set, "maxmemory", 0)
    try:
        yield
    finally:
        undo()


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres", "sharded"])
def test_a_failed_upsert_leaves_nothing_behind(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = empty_store(kind, request, tmp_path)
    with nk.Index.open(url, threshold=0.7) as index, nk.Index.open(url) as other:
        index.upsert_many("a", corpus(10))
        before = {(entry.scope, entry.id) for entry in index.scan()}
        postings = index.counts()["postings"]
        with failing_in_the_middle(store_of(index)), monkeypatch.context() as impatient:
            # the step fails however often it is tried
            impatient.setattr("nearkin.index.session.MAX_RACE_SECONDS", 0.2)
            with pytest.raises(StoreError) as caught:
                index.upsert_many("a", corpus(60, seed=9)[40:])
        assert kind == "sharded" or not isinstance(caught.value, OutcomeUnknownError)
        for one in (index, other):
            there = {(entry.scope, entry.id) for entry in one.scan()}
            if kind != "sharded":
                assert there == before
                assert one.counts()["postings"] == postings
            assert before <= there
            assert check_index(one).sound
        assert {outcome.kind for outcome in index.upsert_many("a", corpus(60, seed=9)[40:])} >= {
            "new"
        }
        assert check_index(other).sound


def test_five_seconds_of_staleness_are_harmless(tmp_path: Path, clock: Clock) -> None:
    """A process that does not know of a migration reads from the previous store, and writes to the
    new one.
    """
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new")]
    with (
        nk.Index.open(urls[0], threshold=0.7, clock=clock) as late,
        nk.Index.open(urls[1], threshold=0.7) as there,
    ):
        for one in (late, there):
            one.upsert("a", TEXT, "x")
            one.upsert("a", corpus(1)[0], "y")
        there.add_part("a", "parts", f"{TEXT} that comes in parts")
        store_of(late).redirect(MigrationState(1, MOVED, (urls[1],)))
        there.remove("a", "x")
        assert late.get("a", "x") is not None
        assert late.url.endswith("old.db")
        # the first step follows the migration, and so do all later ones
        assert late.upsert("a", TEXT, "x").kind == "new"
        assert there.get("a", "x") is not None
        assert late.url.endswith("new.db")
        assert late.remove("a", "y")
        assert there.get("a", "y") is None
        assert late.finish("a", "parts") is not None
        assert check_index(there).sound


def test_two_processes_that_upsert_one_document_store_one_record(opened: Opener) -> None:
    index = opened()
    if index.url == "memory://":
        pytest.skip("memory has no other processes")
    other = opened()
    kinds = [one.upsert("a", TEXT).kind for one in (index, other, index, other)]
    assert kinds == ["new", "exact", "exact", "exact"]
    assert len(list(other.scan())) == 1


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres", "sharded"])
def test_an_acknowledged_upsert_is_there_for_every_process(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Another process repeatedly deletes documents that are in the cache of this one."""
    url = empty_store(kind, request, tmp_path)
    with nk.Index.open(url, threshold=0.7) as index:
        other = start_process(answer_questions, url)
        assert other.pipe.recv() == "ready"

        def ask(what: str) -> bool:
            other.pipe.send((what, "x"))
            return bool(other.pipe.recv())

        for _ in range(5):
            index.upsert("a", TEXT, "x")
            assert index.upsert("a", TEXT, "x").layer == "memory"
            assert ask("get")
            assert ask("remove")
            assert index.upsert("a", TEXT, "x").kind == "new"
            assert ask("get")
        other.pipe.send(None)
        other.end()
