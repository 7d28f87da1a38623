"""Tests of indexes that an older version made.

They are converted, and steps of processes of the older version are refused.
"""

import itertools
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import COPYING, MOVED, OPEN, STOPPED, MigrationState
from nearkin.index.opening import FORMAT
from nearkin.index.stores import postgres, redis, sqlite
from nearkin.index.stores.sharded import ShardedStore
from tests.index.conftest import (
    Clock,
    corpus,
    empty_store,
    family,
    fill,
    postgres_transaction,
    store_of,
)

pytestmark = pytest.mark.all_stores


def downgrade_sqlite(path: Path) -> None:
    """Removes from a file what schemas 2 and 3 added."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER older_versions_are_stopped")
        db.execute(
            "UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'last_step') WHERE name "
            "= 'step'"
        )
        db.execute("DELETE FROM meta WHERE name IN ('last_step', 'move')")
        db.execute("UPDATE meta SET name = 'move' WHERE name = 'place'")
        for name in ("entries_by_scope", "entries_by_seen", "entries_posted_by_seen"):
            db.execute(f"DROP INDEX {name}")
        db.execute("DELETE FROM meta WHERE name IN ('records', 'leaders')")
        db.execute("PRAGMA user_version = 1")


def downgrade_postgres(store: Any) -> None:
    """Removes from a schema what versions 2 to 4 added."""
    s = store._s
    with postgres_transaction(store) as run:
        for statement in (
            f"ALTER TABLE {s}.documents RENAME TO entries",
            f"ALTER TABLE {s}.buckets RENAME TO postings",
            f"DELETE FROM {s}.meta WHERE name = 'move'",
            f"UPDATE {s}.meta SET name = 'move' WHERE name = 'place'",
            f"DROP INDEX {s}.entries_by_scope",
            f"DROP INDEX {s}.entries_members",
            f"CREATE INDEX entries_by_leader ON {s}.entries (scope, leader) WHERE leader <> id",
            f"DROP INDEX {s}.entries_in_order",
            f"CREATE INDEX entries_by_seen ON {s}.entries (seen)",
            f"DROP INDEX {s}.entries_posted",
            f"DROP INDEX {s}.events_by_step",
            f"ALTER TABLE {s}.events DROP COLUMN step",
            f"DROP TABLE {s}.tallies",
            f"DROP TABLE {s}.overflowed",
            f"UPDATE {s}.meta SET value = '1' WHERE name = 'schema'",
        ):
            run.execute(statement)


def downgrade_redis(store: Any) -> None:
    """Removes from an index what layouts 2 and 3 added."""
    client, prefix = store._client, store._prefix
    for key in list(client.scan_iter(prefix + b"n:*")):
        client.sadd(
            prefix + b"m:" + key[len(prefix) + 2 :],
            *(b"%d" % int(ref) for ref in client.zrange(key, 0, -1)),
        )
        client.delete(key)
    for key in [
        *client.scan_iter(prefix + b"s:*"),
        *(prefix + name for name in (b"scopes", b"seen", b"posted", b"layout", b"move")),
        *(prefix + name for name in (b"overflowed", b"evictions-marked")),
    ]:
        client.delete(key)
    client.rename(prefix + b"made", prefix + b"header")
    if client.exists(prefix + b"place"):
        client.rename(prefix + b"place", prefix + b"move")


def downgrade(store: Any) -> None:
    for one in store.shards if isinstance(store, ShardedStore) else [store]:
        if isinstance(one, sqlite.SqliteStore):
            downgrade_sqlite(one.path)
        elif isinstance(one, postgres.PostgresStore):
            downgrade_postgres(one)
        else:
            downgrade_redis(one)


@pytest.fixture(params=["sqlite", "redis", "postgres", "sharded"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    return empty_store(request.param, request, tmp_path)  # type: ignore[return-value]


def test_an_index_of_the_older_layout_is_converted(old_url: Any, clock: Clock) -> None:
    texts = family(30)
    with nk.Index.open(old_url, threshold=0.6, clock=clock) as index:
        fill(index, texts)
        index.upsert_many("b", corpus(20))
        index.remove("b", next(iter(index.scan("b"))).id)
        before = {(entry.scope, entry.id): entry for entry in index.scan()}
        counts = index.counts()
        whole = index.cluster("a", "base")
        downgrade(store_of(index))
    for _ in range(2):
        with nk.Index.open(old_url, threshold=0.6, clock=clock) as index:
            assert {(entry.scope, entry.id): entry for entry in index.scan()} == before
            assert {**index.counts(), "bytes": 0} == {**counts, "bytes": 0}
            assert index.cluster("a", "base") == whole
            assert index.scopes() == ["a", "b"]
            assert len(list(store_of(index).due(np.inf, posted=False))) == len(before)
            assert [event.kind for event in store_of(index).events()] == ["erased"]
            assert check_index(index).sound
    with nk.Index.open(old_url, threshold=0.6, clock=clock) as index:
        assert index.remove("a", "base")
        assert check_index(index).sound
        assert index.counts()["records"] == len(before) - 1


@pytest.mark.parametrize("old_url", ["sqlite", "redis", "postgres"], indirect=True)
def test_searches_after_evictions_that_an_older_version_did_not_record_are_not_complete(
    old_url: str,
) -> None:
    settings: dict[str, Any] = {"passages": 4, "bucket_capacity": 3, "threshold": 0.95}
    notice = "nobody may enter the reading room with food"
    rare = "stalls of the market are assigned at seven"
    with nk.Index.open(old_url, **settings) as index:
        index.upsert("s", rare, id="rare")
        for number in range(4):
            index.upsert("s", f"{notice} x{number} y{number} z{number}", id=f"n{number}")
        assert index.passages("s", rare).complete
        downgrade(store_of(index))
    with nk.Index.open(old_url, **settings) as index:
        assert not index.passages("s", notice).complete
        index.remove("s", "n3")
        # SQLite and Redis keep postings beyond the capacity
        assert index.passages("s", notice).complete == old_url.startswith("sqlite")
        # SQLite fills the buckets again from the documents, so it knows which ones overflow.
        assert index.passages("s", rare).complete == old_url.startswith("sqlite")
        for number in range(4, 8):
            index.upsert("s", f"{notice} x{number} y{number} z{number}", id=f"n{number}")
        assert index.passages("s", rare).complete == old_url.startswith("sqlite")


class FirstVersion:
    """A process of the first version that has an index open.

    It reads and writes with the statements of that version.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._sent = itertools.count()

    def format(self) -> object:
        """Returns the format or schema that such a process reads when it opens the index."""
        raise NotImplementedError

    def migration(self) -> tuple[int, str, list[str]]:
        raise NotImplementedError

    def write(self, epoch: int | None) -> bool:
        """Writes a step under an epoch, or under none.

        Returns False if the process reads the migration state first.

        Raises:
            Exception: If the step is refused otherwise. It is the error of the driver.
        """
        raise NotImplementedError


class FirstVersionOverRedis(FirstVersion):
    STEP = (
        "if (redis.call('HGET', KEYS[1], 'epoch') or '0') ~= ARGV[1] then return 'moved' end "
        "redis.call('SET', KEYS[2], 'x')"
    )

    def format(self) -> object:
        """Returns the format or schema that such a process reads when it opens the index."""
        return json.loads(self._store._client.get(self._store._key("header")))["format"]

    def migration(self) -> tuple[int, str, list[str]]:
        epoch, phase, urls = self._store._client.hmget(
            self._store._key("move"), "epoch", "phase", "urls"
        )
        return int(epoch or 0), (phase or b"open").decode(), json.loads(urls or b"[]")

    def write(self, epoch: int | None) -> bool:
        """Writes a step under an epoch, or under none.

        Returns False if the process reads the migration state first.

        Raises:
            Exception: If the step is refused otherwise. It is the error of the driver.
        """
        key = self._store._key
        return self._store._client.eval(self.STEP, 2, key("move"), key("written"), epoch) is None


class FirstVersionOverSqlite(FirstVersion):
    INSERT = (
        "INSERT INTO entries VALUES (NULL, 'a', ?, x'00', ?, ?, 1, 9, 1, 1, 0, x'', '', "
        "x'00', NULL, ?)"
    )

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._db = sqlite3.connect(store.path, isolation_level=None)

    def format(self) -> object:
        """Returns the format or schema that such a process reads when it opens the index."""
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def migration(self) -> tuple[int, str, list[str]]:
        stored_place = self._db.execute("SELECT value FROM meta WHERE name = 'move'").fetchone()
        epoch, phase, urls = json.loads(stored_place[0]) if stored_place else MigrationState()
        return epoch, phase, list(urls)

    def write(self, epoch: int | None) -> bool:
        """Writes a step under an epoch, or under none.

        Returns False if the process reads the migration state first.

        Raises:
            Exception: If the step is refused otherwise. It is the error of the driver.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if epoch not in (None, self.migration()[0]):
                return False
            step = 1 + int(
                self._db.execute("SELECT value FROM meta WHERE name = 'step'").fetchone()[0]
            )
            name = f"old{next(self._sent)}"
            self._db.execute(self.INSERT, (name, name, name, step))
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'step'", (str(step),))
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        return True


class FirstVersionOverPostgres(FirstVersion):
    INSERT = (
        "COPY {s}.entries (ref, scope, id, digest, leader, cluster, similarity, size, created, "
        "seen, posted, signature, "
        "payload) FROM STDIN"
    )

    def format(self) -> object:
        """Returns the format or schema that such a process reads when it opens the index."""
        with self._store._pool.connection() as run:
            return run.execute(
                f"SELECT value FROM {self._store._s}.meta WHERE name = 'schema'"
            ).fetchone()[0]

    def migration(self) -> tuple[int, str, list[str]]:
        with self._store._pool.connection() as run:
            return tuple(
                run.execute(
                    f"SELECT value FROM {self._store._s}.meta WHERE name = 'move'"
                ).fetchone()[0]
            )  # type: ignore[return-value]

    def write(self, epoch: int | None) -> bool:
        """Writes a step under an epoch, or under none.

        Returns False if the process reads the migration state first.

        Raises:
            Exception: If the step is refused otherwise. It is the error of the driver.
        """
        s = self._store._s
        with self._store._pool.connection() as connection, connection.cursor() as run:
            if epoch is not None:
                query = f"SELECT (value->>0)::int FROM {s}.meta WHERE name = 'move' FOR SHARE"
                if run.execute(query).fetchone()[0] != epoch:
                    return False
            (ref,) = run.execute(f"SELECT nextval('{s}.refs')").fetchone()
            name = f"old{next(self._sent)}"
            with run.copy(self.INSERT.format(s=s)) as copy:
                copy.write_row(
                    (ref, "a", name, "\\x00", name, name, 1.0, 9, 1.0, 1.0, False, "\\x", "\\x00")
                )
        return True


FIRST_VERSIONS = {
    "redis": FirstVersionOverRedis,
    "sqlite": FirstVersionOverSqlite,
    "postgres": FirstVersionOverPostgres,
}


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_steps_of_processes_of_the_first_version_are_refused(
    kind: str, moved: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Such processes have the index open while this version converts it.

    Their steps are refused from then on, because they would not update the counts. The migration
    state that they read names an index that they cannot open.
    """
    url = str(empty_store(kind, request, tmp_path))
    texts = list(dict.fromkeys(corpus(20)))
    with nk.Index.open(url, threshold=0.7) as index:
        index.upsert_many("a", texts)
        if moved:
            store_of(index).redirect(MigrationState(3, COPYING, ("redis://elsewhere/0",)))
            store_of(index).redirect(MigrationState(4, OPEN))
        downgrade(store_of(index))
        first = FIRST_VERSIONS[kind](store_of(index))
        epoch = first.migration()[0]
        assert (first.format(), epoch) == (1, 4 if moved else 0)
        assert first.write(epoch)
        before = len(texts) + (kind != "redis")
        with nk.Index.open(url) as again:
            assert first.write(epoch) is False
            assert first.format() not in (1, FORMAT)
            stopped, phase, places = first.migration()
            assert (stopped, phase) == (STOPPED, MOVED)
            if kind == "redis":
                assert places == [f"{url}%3Astopped"]
                assert FirstVersionOverRedis(redis.RedisStore(places[0], 10, 10)).format() != FORMAT
            else:
                # at its own address: such a process opens it again and refuses the schema
                assert places == [url]
                with pytest.raises(
                    (sqlite3.DatabaseError, psycopg.DatabaseError), match=r"schema 3|does not exist"
                ):
                    # steps of bulk loads name no epoch
                    first.write(None)
            assert store_of(again).state().migration.epoch == epoch
            assert again.upsert_many("a", texts)[0].kind == "exact"
            assert again.counts()["records"] == before
            assert [
                problem for problem in check_index(again).problems if "counted" in problem.what
            ] == []


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_new_index_is_not_opened_by_the_first_version(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with nk.Index.open(str(empty_store(kind, request, tmp_path))) as index:
        first = FIRST_VERSIONS[kind](store_of(index))
        assert first.format() != FORMAT
        assert first.migration()[:2] == (STOPPED, MOVED)
        assert index.upsert("a", "one two three four").kind == "new"
