"""Tests of steps whose response is lost.

Nothing is done twice, and no wrong result is reported.

The suite covers the index as a whole, over its stores, and not one module.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import OutcomeUnknownError, RacedError, StoreError
from nearkin.index.changes import Changes
from nearkin.index.entry import Outcome
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import COPYING, OPEN, MigrationState
from nearkin.service.server.http.middleware import problem_from_error
from tests.index.conftest import NUMBERS, corpus, postgres_transaction, replace_store, store_of
from tests.index.dropping import DroppingProxy, dropping, url_of
from tests.index.interleaving import Between, Countdown

pytestmark = pytest.mark.all_stores

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
SIGNS = {"redis": b"EVALSHA", "postgres": b"COMMIT"}
MANY = 1000


class Lossy:
    """Two indexes over one store: one through a proxy that loses responses, and a direct one."""

    def __init__(self, url: Any, sure: Any, proxy: DroppingProxy, sign: bytes) -> None:
        self.index = nk.Index.open(url, threshold=0.7)
        self.sure = nk.Index.open(sure, follow=False)
        self.proxy = proxy
        self.sign = sign

    def lose(self, answers: int) -> None:
        self.proxy.left = answers


@pytest.fixture(params=["redis", "postgres", "sharded"])
def lossy(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lossy]:
    monkeypatch.setattr("nearkin.index.stores.postgres.TIMEOUT", 2.0)
    monkeypatch.setattr("nearkin.index.stores.postgres.STATUS_SECONDS", 2.0)
    kind = "redis" if request.param == "sharded" else request.param
    port = request.getfixturevalue(f"{kind}_port")
    name = f"lost{next(NUMBERS)}"
    with dropping(port, SIGNS[kind]) as proxy:
        urls: Any = [url_of(kind, one, name) for one in (proxy.port, port)]
        if request.param == "sharded":
            urls = [[f"sqlite:///{tmp_path}/shard.db", url] for url in urls]
        pair = Lossy(*urls, proxy, SIGNS[kind])
        yield pair
        pair.index.close()
        pair.sure.close()


class BeforeApply(Between):
    """A store that loses the response of its next step, but not that of the reads before it."""


def losing_step(found: Lossy, answers: int = 1) -> None:
    replace_store(
        found.index, Between(store_of(found.index), Countdown(1, lambda: found.lose(answers)))
    )


def test_a_step_whose_response_is_lost_is_done_once(lossy: Lossy) -> None:
    index, texts = lossy.index, list(dict.fromkeys(corpus(60)))[:40]
    store = store_of(index)
    for at in range(0, 40, 10):
        losing_step(lossy)
        outcomes = index.upsert_many("a", texts[at : at + 10])
        assert {outcome.kind for outcome in outcomes} <= {"new", "match"}
        replace_store(index, store)
    assert lossy.proxy.lost >= 4
    assert check_index(lossy.sure).sound
    records = len(list(lossy.sure.scan()))
    assert lossy.sure.counts()["records"] == records == len(set(texts))


def test_a_deletion_whose_response_is_lost_is_reported_as_done(lossy: Lossy) -> None:
    index, texts = lossy.index, corpus(20)
    ids = [outcome.id for outcome in index.upsert_many("a", texts)]
    store = store_of(index)
    for name in dict.fromkeys(ids):
        losing_step(lossy)
        assert index.remove("a", name)
        replace_store(index, store)
    assert lossy.proxy.lost > 5
    events = list(store_of(lossy.sure).events())
    assert len([event for event in events if event.kind == "erased"]) == len(set(ids))
    assert lossy.sure.counts()["records"] == 0
    assert check_index(lossy.sure).sound


def upsert_when_connected(index: nk.Index) -> Outcome:
    """Repeats a call, as its error says, until the store has a connection again."""
    for _ in range(1000):
        with contextlib.suppress(StoreError):
            return index.upsert("a", corpus(1)[0], "y")
    pytest.fail("the store has no connection")


def test_an_unknown_outcome_is_reported_and_the_call_may_be_repeated(
    lossy: Lossy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    index = lossy.index
    index.upsert("a", TEXT, "x")
    store = store_of(index)

    def lose_all() -> None:
        lossy.lose(MANY)
        lossy.proxy.refusing = True

    replace_store(index, Between(store, Countdown(1, lose_all)))
    with pytest.raises(OutcomeUnknownError, match="repeated safely") as caught:
        index.upsert("a", corpus(1)[0], "y")
    assert "nothing was written" not in str(caught.value)
    problem = problem_from_error(caught.value)
    assert (problem.code, problem.status) == ("outcome-unknown", 503)
    lossy.proxy.refusing = False
    lossy.lose(0)
    replace_store(index, store)
    assert upsert_when_connected(index).kind in ("new", "exact", "updated")
    assert lossy.sure.get("a", "y") is not None
    assert len(list(lossy.sure.scan())) == lossy.sure.counts()["records"] == 2
    assert not check_index(lossy.sure).problems


@pytest.mark.parametrize("kind", ["redis"])
def test_a_migration_state_whose_response_is_lost_is_written_once(
    kind: str, request: pytest.FixtureRequest
) -> None:
    port = request.getfixturevalue(f"{kind}_port")
    name = f"lost{next(NUMBERS)}"
    with (
        dropping(port, SIGNS[kind]) as proxy,
        nk.Index.open(url_of(kind, proxy.port, name)) as index,
    ):
        proxy.left = 1
        store_of(index).redirect(MigrationState(1, COPYING, ("memory://",)))
        assert proxy.lost == 1
        with pytest.raises(RacedError):
            store_of(index).redirect(MigrationState(1, OPEN))
        assert store_of(index).state().migration.phase == COPYING


class FailingCommit:
    """A connection whose COMMIT of a step fails, before or after it took effect."""

    def __init__(self, db: Any, code: int, done: bool) -> None:
        self._db = db
        self._code = code
        self._done = done
        self._writes = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, query: str, values: Any = ()) -> Any:
        if query.startswith("BEGIN"):
            self._writes = query == "BEGIN IMMEDIATE"
        if query != "COMMIT" or not self._writes:
            return self._db.execute(query, values)
        if self._done:
            self._db.execute(query)
        error = sqlite3.OperationalError(
            "disk I/O error" if self._code == sqlite3.SQLITE_IOERR else "database is full"
        )
        error.sqlite_errorcode = self._code
        raise error


@pytest.mark.parametrize("done", [True, False])
def test_a_sqlite_commit_that_fails_in_the_file_system(done: bool, tmp_path: Path) -> None:
    with nk.Index.open(f"sqlite:///{tmp_path}/kin.db", threshold=0.7) as index:
        index.upsert_many("a", [TEXT, f"{TEXT} more"], ["x", "y"])
        store = store_of(index)
        db = store._db
        for name in ("x", "y"):
            store._db = FailingCommit(db, sqlite3.SQLITE_IOERR, done)
            entry = index.get("a", name)
            assert entry is not None
            with pytest.raises(OutcomeUnknownError, match="repeated safely"):
                index.remove("a", name)
            store._db = db
            assert index.remove("a", name) != done
            assert check_index(index).sound
        assert store.counts()["records"] == 0


def test_a_failed_upsert_leaves_nothing_behind(tmp_path: Path) -> None:
    """The file cannot grow: the step is not stored, as the error says."""
    with nk.Index.open(f"sqlite:///{tmp_path}/kin.db", threshold=0.7) as index:
        index.upsert("a", TEXT, "x")
        before = index.counts()
        db = store_of(index)._db
        store_of(index)._db = FailingCommit(db, sqlite3.SQLITE_FULL, False)
        with pytest.raises(StoreError, match="nothing was written") as caught:
            index.upsert_many("a", corpus(20))
        assert not isinstance(caught.value, OutcomeUnknownError)
        store_of(index)._db = db
        after = index.counts()
        assert (after["records"], after["postings"]) == (before["records"], before["postings"])
        assert index.query("a", corpus(20)[0]) == []
        assert check_index(index).sound


def test_postgres_is_asked_for_a_transaction_whose_answer_was_lost(
    postgres_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.index.stores.postgres.STATUS_SECONDS", 0.1)
    name = f"lost{next(NUMBERS)}"
    with nk.Index.open(url_of("postgres", postgres_port, name), threshold=0.7) as index:
        with postgres_transaction(store_of(index)) as run:
            transaction = run.execute("SELECT txid_current()").fetchone()[0]
            # the transaction does not end in time
            assert not store_of(index)._committed(transaction)
        assert store_of(index)._committed(transaction)
        with postgres_transaction(store_of(index)) as run:
            transaction = run.execute("SELECT txid_current()").fetchone()[0]
            run.execute("ROLLBACK")
        with pytest.raises(StoreError, match="nothing was written"):
            store_of(index)._committed(transaction)


# -- counters


def test_postgres_counts_generations_beyond_31_bits(postgres_port: int) -> None:
    """The column of older versions is at its limit, where every deletion would fail."""
    url = url_of("postgres", postgres_port, f"lost{next(NUMBERS)}")
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("a", [TEXT, f"{TEXT} more"], ["x", "y"])
        s = store_of(index)._s
        with postgres_transaction(store_of(index)) as run:
            run.execute(
                f"UPDATE {s}.meta SET value = to_jsonb({2**31 - 1}) WHERE name = 'generation'"
            )
            run.execute(
                f"UPDATE {s}.meta SET value = jsonb_set(value, '{{0}}', '{2**31 - 1}') WHERE name "
                f"= 'place'"
            )
    with nk.Index.open(url) as index:
        assert store_of(index).state().generation == 2**31 - 1
        assert index.remove("a", "x")
        assert index.upsert("a", corpus(1)[0], "y").kind == "updated"
        assert store_of(index).state().generation == 2**31 + 1
        store_of(index).redirect(MigrationState(2**31, OPEN))
        store_of(index).redirect(MigrationState(2**31 + 1, OPEN))
        index.refresh()
        assert index.remove("a", "y")
        assert check_index(index).sound


def test_counters_of_every_store_pass_53_bits(opened: Any) -> None:
    """The generation, the epoch and document numbers pass through no float and no 32-bit number."""
    index = opened()
    store_of(index).redirect(MigrationState(2**53 + 1, OPEN))
    with pytest.raises(RacedError):
        store_of(index).redirect(MigrationState(2**53 + 1, COPYING))
    store_of(index).redirect(MigrationState(2**53 + 2, OPEN))
    index.refresh()
    index.upsert("a", TEXT, "x")
    assert index.remove("a", "x")
    assert store_of(index).state().migration.epoch == 2**53 + 2
    assert store_of(index).apply(Changes()) == []


def test_a_step_is_done_although_the_connection_is_lost_after_it(
    postgres_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tallies of many steps are added up after one of them, in a transaction of its own."""
    monkeypatch.setattr("nearkin.index.stores.postgres.MERGED_AFTER", 1)
    url = url_of("postgres", postgres_port, f"lost{next(NUMBERS)}")
    with nk.Index.open(url, threshold=0.7) as index:

        def lose_connection(run: Any) -> None:
            run.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        with monkeypatch.context() as patch:
            patch.setattr(store_of(index), "_merge_tallies", lose_connection)
            assert index.upsert("a", TEXT, "x").kind == "new"
            assert index.remove("a", "x")
        assert index.upsert("a", TEXT, "y").kind == "new"
        assert check_index(index).sound
