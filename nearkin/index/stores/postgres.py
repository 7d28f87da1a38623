"""The store behind `postgresql://user@host/db?schema=name`.

Each step is one transaction of statements over sets of rows. Connections come from a pool.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from nearkin.errors import (
    IncompatibleError,
    MissingExtraError,
    MissingIndexError,
    MovedError,
    NearkinError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import Changes, Event, count_leaders
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion, Postings, content_size
from nearkin.index.migration.state import (
    CLOSING,
    COPYING,
    MigrationState,
    StoreState,
)
from nearkin.index.stores.addresses import require_known_options, without_password
from nearkin.index.stores.base import LOG_KEPT, LOG_PORTION, PORTION, Portions
from nearkin.index.stores.entry_rows import COLUMNS, entry_of_row, row_of_entry
from nearkin.index.stores.pool_log import watch_pool_log

R = TypeVar("R")
SCHEMA = 4
"""The version of the tables."""
CONNECTIONS = 8
"""The maximum number of connections."""
TIMEOUT = 30.0
"""The maximum time to wait for a connection, in seconds."""
FAILED_TIMEOUT = 1.0
"""The maximum time to wait for a connection after the last attempt to connect failed, in seconds.
Whoever waits holds a thread."""
HEADS = (
    "ref, scope, id, digest, leader, cluster, similarity, size, created, seen, posted, "
    "''::bytea, NULL::text, ''::bytea"
)
"""The columns of an entry without its content."""
TYPES = (
    "int8",
    "text",
    "text",
    "bytea",
    "text",
    "text",
    "float8",
    "int4",
    "float8",
    "float8",
    "bool",
    "bytea",
    "text",
    "bytea",
)
CREATE = """
CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE {s}.meta (name text PRIMARY KEY, value jsonb NOT NULL);
CREATE TABLE {s}.documents (
  ref bigint PRIMARY KEY, scope text NOT NULL, id text NOT NULL, digest bytea NOT NULL,
  leader text NOT NULL, cluster text NOT NULL, similarity float8 NOT NULL, size integer NOT NULL,
  created float8 NOT NULL, seen float8 NOT NULL,
  posted boolean NOT NULL,  signature bytea NOT NULL, text text, payload bytea NOT NULL);
CREATE UNIQUE INDEX entries_by_id ON {s}.documents (scope, id);
CREATE INDEX entries_by_scope ON {s}.documents (scope, ref);
CREATE INDEX entries_members ON {s}.documents (scope, leader, ref) WHERE leader <> id;
CREATE INDEX entries_in_order ON {s}.documents (seen, ref);
CREATE INDEX entries_posted ON {s}.documents (seen, ref) WHERE posted;
CREATE TABLE {s}.buckets (key bigint NOT NULL, word bigint NOT NULL, PRIMARY KEY (key, word));
CREATE TABLE {s}.overflowed (key bigint PRIMARY KEY);
CREATE TABLE {s}.events (
  number bigserial PRIMARY KEY, kind text NOT NULL, scope text NOT NULL, id text NOT NULL,
  into_id text NOT NULL, at float8 NOT NULL,
  step bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint);
CREATE INDEX events_by_step ON {s}.events (step, number);
CREATE TABLE {s}.tallies (
  records bigint NOT NULL, leaders bigint NOT NULL, postings bigint NOT NULL);
INSERT INTO {s}.tallies VALUES (0, 0, 0);
CREATE SEQUENCE {s}.refs;
CREATE SEQUENCE {s}.evicted MINVALUE 0 START 0;
INSERT INTO {s}.meta VALUES ('schema', '4');
"""
"""The statements that create the tables.

Each step adds a row of tallies, so that steps do not wait for each other. The rows are added up
from time to time. Buckets that have lost postings are in `overflowed`.
"""
FEW_POSTINGS = 4
"""The number of postings of most buckets, at most."""
LOST = ("08", "57")
"""The error classes of a broken connection, and of a server that shuts down."""
STATUS_SECONDS = 10.0
"""The maximum time to wait for the end of a transaction whose answer was lost, in seconds."""
STATUS_PAUSE = 0.05
"""The interval between two checks of such a transaction, in seconds."""
log = logging.getLogger("nearkin.postgres")
MERGED_AFTER = 1000
"""The number of steps of this process after which the tallies are added up."""
RESOLVED_TO = "scope = %(scope)s AND leader = %(leader)s AND leader <> id"
LOCK = 0x6E6B
"""The advisory lock under which the schema is created."""


class PostgresStore:
    """A store in PostgreSQL.

    Args:
        url: URL of the database, with the options of libpq, and `?schema=` for the schema
            (`nearkin` by default). `connect_timeout` also bounds the wait for the first connection,
            which is at least 30 seconds.
    """

    def __init__(self, url: str, most: int, *, must_exist: bool = False) -> None:
        try:
            import psycopg
            import psycopg_pool
        except ImportError as error:
            raise MissingExtraError.for_extra(
                "postgresql:// requires psycopg and psycopg-pool", "postgres"
            ) from error
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        self._s = options.pop("schema", "nearkin")
        if not self._s.isidentifier():
            raise UsageError(
                f"invalid schema={self._s!r}; use letters, digits and underscores, not a digit "
                f"first"
            )
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        require_known_options(options, ["schema", "ssl", *known], without_password(url))
        self._applied = 0
        self._most = most
        self._url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        self._recorded_url = without_password(url)
        self._psycopg = psycopg
        self._pool_errors = (psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed)
        self._connection_errors = watch_pool_log()
        self._create_pool: Callable[[], Any] = partial(
            psycopg_pool.ConnectionPool,
            urlunsplit(parts._replace(query=urlencode(options))),
            min_size=1,
            max_size=CONNECTIONS,
            timeout=TIMEOUT,
            open=False,
            # transactions begin explicitly; a prepared plan would be the one of empty tables
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=self._configure_connection,
        )
        self._pool = self._create_pool()
        with self._database_errors():
            # the first connection may take longer than later ones; the URL says how long
            self._pool.open(
                wait=True, timeout=max(TIMEOUT, float(options.get("connect_timeout", 0)))
            )
            try:
                if must_exist:
                    self._require_index()
                self._create_schema()
            except BaseException:
                self._pool.close()
                raise

    def _configure_connection(self, connection: Any) -> None:
        """Configures a new connection of the pool."""
        _configure(connection)
        self._connection_errors.forget(self._pool.name)

    def _connection(self) -> Any:
        """Returns a context manager that provides a connection."""
        has_failed = self._connection_errors.last_reason(self._pool.name) is not None
        return self._pool.connection(FAILED_TIMEOUT if has_failed else None)

    @property
    def url(self) -> str:
        """The address of the database, without a password."""
        return self._url

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        """Turns errors of psycopg into RacedError and StoreError."""
        errors = self._psycopg.errors
        try:
            yield
        except (
            errors.DeadlockDetected,
            errors.SerializationFailure,
            errors.UniqueViolation,
        ) as error:
            # only the primary message, because the detail of a violation contains the id
            raise RacedError(
                f"{self._url}: {error.diag.message_primary or type(error).__name__}"
            ) from error
        except (self._psycopg.Error, *self._pool_errors) as error:
            raise StoreError(
                f"{self._url}: {self._error_message(error)}; nothing was written; the call may be "
                f"repeated"
            ) from error

    def _error_message(self, error: BaseException) -> str:
        """Returns the message of an error without its details, which may contain ids."""
        if isinstance(error, self._pool_errors):
            reason = self._connection_errors.last_reason(self._pool.name)
            if reason is not None:
                return (
                    f"cannot connect: {reason}; check the address, and that the server accepts "
                    f"connections"
                )
        diagnosed: str | None = (
            error.diag.message_primary if isinstance(error, self._psycopg.Error) else None
        )
        return diagnosed or " ".join(str(error).split()) or type(error).__name__

    def _read(self, action: Callable[[Any], R]) -> R:
        """Returns the result of an action with a cursor. Each statement is a transaction."""
        with self._database_errors():
            try:
                with (
                    self._connection() as connection,
                    connection.cursor(binary=True) as cursor,
                ):
                    return action(cursor)
            except BaseException as error:
                self._replace_pool(error)
                raise

    def _read_rows(self, query: str, values: Any = None) -> list[Any]:
        """Returns the rows of one statement."""

        def read(run: Any) -> list[Any]:
            rows: list[Any] = run.execute(query, values).fetchall()
            return rows

        return self._read(read)

    def _write(self, action: Callable[[Any], R]) -> R:
        """Returns the result of an action with a cursor of one transaction."""
        committing = False
        with self._database_errors():
            try:
                with (
                    self._connection() as connection,
                    connection.transaction(),
                    connection.cursor(binary=True) as cursor,
                ):
                    result = action(cursor)
                    committing = True
            except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
                if committing and (error.sqlstate is None or error.sqlstate[:2] in LOST):
                    raise OutcomeUnknownError(
                        f"{self._url}: {self._error_message(error)}; the answer to the commit was "
                        "lost, so that the outcome is unknown; the call may be repeated safely"
                    ) from error
                raise
            except BaseException as error:
                self._replace_pool(error)
                raise
            return result

    def _replace_pool(self, error: BaseException) -> None:
        """Replaces the connections if an exception may have come anywhere, for example Ctrl-C.

        An answer may be unread, or a connection may be missing in the pool.
        """
        if isinstance(error, (self._psycopg.Error, *self._pool_errors, NearkinError)):
            return
        replaced = self._pool
        self._pool = self._create_pool()
        self._pool.open()
        replaced.close(timeout=0)

    def _require_index(self) -> None:
        """Verifies that there is an index, and writes nothing."""
        if not self._read(self._has_tables) or self.read_header() is None:
            raise MissingIndexError(
                f"there is no index at {self._recorded_url}: no index in schema {self._s!r}"
            )

    def _has_tables(self, run: Any) -> bool:
        query = "SELECT to_regclass(%s) IS NOT NULL"
        return bool(run.execute(query, (f"{self._s}.meta",)).fetchone()[0])

    def _create_schema(self) -> None:
        self._write(self._create_tables)

    def _create_tables(self, run: Any) -> None:
        run.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if self._has_tables(run):
            version = run.execute(
                f"SELECT value FROM {self._s}.meta WHERE name = 'schema'"
            ).fetchone()[0]
            if version != SCHEMA:
                remedy = (
                    "upgrade nearkin"
                    if version > SCHEMA
                    else "export it with the version of nearkin that made it, and build it again"
                )
                raise IncompatibleError(
                    f"{self._url} has schema {version}, and this version of nearkin supports "
                    f"{SCHEMA}; {remedy}"
                )
        else:
            self._run_all(run, CREATE)
        self._write_state_rows(run)

    def _run_all(self, run: Any, script: str) -> None:
        for statement in script.format(s=self._s).split(";"):
            if statement.strip():
                run.execute(statement)

    def _write_state_rows(self, run: Any) -> None:
        """Writes the rows that steps read or count up."""
        query = (
            f"INSERT INTO {self._s}.meta VALUES ('place', %s::jsonb), ('generation', '0') "
            "ON CONFLICT DO NOTHING"
        )
        run.execute(query, (json.dumps(MigrationState()),))

    def claim(self, header: dict[str, object]) -> dict[str, object]:
        def claim(run: Any) -> dict[str, object]:
            run.execute(
                f"INSERT INTO {self._s}.meta VALUES ('header', %s::jsonb) ON CONFLICT DO NOTHING",
                (json.dumps(header, sort_keys=True),),
            )
            stored_header: dict[str, object] = run.execute(
                f"SELECT value FROM {self._s}.meta WHERE name = 'header'"
            ).fetchone()[0]
            return stored_header

        return self._write(claim)

    def read_header(self) -> dict[str, object] | None:
        rows = self._read_rows(f"SELECT value FROM {self._s}.meta WHERE name = 'header'")
        header: dict[str, object] | None = rows[0][0] if rows else None
        return header or None

    def protect(self) -> None:
        query = f"INSERT INTO {self._s}.meta VALUES ('protected', 'true') ON CONFLICT DO NOTHING"
        self._write(lambda run: run.execute(query))

    def is_protected(self) -> bool:
        query = f"SELECT value FROM {self._s}.meta WHERE name = 'protected'"
        return bool(self._read_rows(query))

    def state(self) -> StoreState:
        values_by_name = dict(
            self._read_rows(
                f"SELECT name, value FROM {self._s}.meta WHERE name IN ('place', 'generation')"
            )
        )
        epoch, phase, urls = values_by_name["place"]
        return StoreState(MigrationState(epoch, phase, tuple(urls)), values_by_name["generation"])

    def redirect(self, migration: MigrationState) -> None:
        query = (
            f"UPDATE {self._s}.meta SET value = %s::jsonb WHERE name = 'place' AND "
            f"(value->>0)::bigint < %s"
        )
        values = (json.dumps(migration), migration.epoch)
        if not self._write(lambda run: run.execute(query, values).rowcount):
            raise RacedError(f"{self._url} has reached epoch {migration.epoch} already")

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        query = f"SELECT {COLUMNS} FROM {self._s}.documents WHERE scope = %s AND id = ANY(%s)"
        rows = self._read_rows(query, (scope, list(ids)))
        entries_by_id = {row[2]: _entry(row) for row in rows}
        return [entries_by_id.get(name) for name in ids]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        query = f"SELECT {COLUMNS} FROM {self._s}.documents WHERE ref = ANY(%s::bigint[])"
        rows = self._read_rows(query, (_array_literal(refs),))
        entries_by_ref = {row[0]: _entry(row) for row in rows}
        return [entries_by_ref.get(ref) for ref in refs]

    def postings(self, keys: np.ndarray) -> Postings:
        signed = keys.view(np.int64)
        limit = self._most + FEW_POSTINGS * len(keys)
        query = f"SELECT key, word FROM {self._s}.buckets WHERE key = ANY(%s::bigint[]) LIMIT %s"
        rows = self._read_rows(query, (_array_literal(signed.tolist()), limit))
        if len(rows) == limit:
            # a flooded bucket is not read as a whole; this is slower for many small ones
            query = (
                f"SELECT key, word FROM unnest(%s::bigint[]) AS wanted (key), LATERAL (SELECT word "
                f"FROM {self._s}.buckets b WHERE b.key = wanted.key ORDER BY word LIMIT %s) AS o"
            )
            wanted = _array_literal(np.unique(signed).tolist())
            rows = self._read_rows(query, (wanted, self._most))
        if not rows:
            return Postings(np.empty(0, np.int64), np.zeros(len(keys) + 1, np.int64))
        keys_and_words = np.array(rows, np.int64)
        keys_and_words = keys_and_words[np.lexsort((keys_and_words[:, 1], keys_and_words[:, 0]))]
        starts = np.searchsorted(keys_and_words[:, 0], signed, "left")
        ends = np.searchsorted(keys_and_words[:, 0], signed, "right")
        ends = np.minimum(ends, starts + self._most)
        offsets = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
        places = np.repeat(starts - offsets[:-1], ends - starts) + np.arange(offsets[-1])
        return Postings(keys_and_words[places, 1], offsets)

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        signed = keys.view(np.int64)
        query = f"SELECT key FROM {self._s}.overflowed WHERE key = ANY(%s::bigint[])"
        rows = self._read_rows(query, (_array_literal(signed.tolist()),))
        marked = [key for (key,) in rows]
        return np.isin(signed, np.array(marked, np.int64))

    def reserve(self, count: int) -> list[int]:
        return self._read(lambda run: self._take_numbers(run, count))

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def last_number(self) -> int:
        last, called = self._read_rows(f"SELECT last_value, is_called FROM {self._s}.refs")[0]
        return int(last) if called else 0

    def _take_numbers(self, run: Any, count: int) -> list[int]:
        if not count:
            return []
        query = f"SELECT nextval('{self._s}.refs') FROM generate_series(1, %s)"
        return sorted(row[0] for row in run.execute(query, (count,)))

    def apply(self, changes: Changes) -> list[int]:
        transaction: int | None = None
        numbers: list[int] = []

        def write(run: Any) -> None:
            nonlocal transaction, numbers
            transaction = self._begin_step(run, changes)
            numbers = self._apply(run, changes)

        try:
            self._write(write)
        except OutcomeUnknownError:
            if not self._committed(transaction):
                raise
        self._applied += 1
        if self._applied % MERGED_AFTER == 0:
            self._try_to_merge_tallies()
        return numbers

    def _tally_changes(
        self, run: Any, changes: Changes, leaders: dict[int, str], postings: int
    ) -> None:
        """Adds a row with the changes of the counts."""
        gained = count_leaders(changes.new)
        last = {entry.ref: entry for entry in changes.changed}
        gained += sum(entry.is_leader - (leaders[entry.ref] == entry.id) for entry in last.values())
        gained -= sum(leaders[entry.ref] == entry.id for entry, _ in changes.dropped)
        tally = (len(changes.new) - len(changes.dropped), gained, postings)
        if any(tally):
            run.execute(f"INSERT INTO {self._s}.tallies VALUES (%s, %s, %s)", tally)

    def _try_to_merge_tallies(self) -> None:
        """Adds up the tallies. The step before it is written, so a failure must not look like its.

        Tallies that are not added up now are added up after later steps.
        """
        try:
            self._write(self._merge_tallies)
        except StoreError as error:
            log.warning("tallies could not be added up", extra={"error": str(error)})

    def _merge_tallies(self, run: Any) -> None:
        """Adds up the tallies. If two processes do so at once, the second finds no rows."""
        rows = run.execute(
            f"DELETE FROM {self._s}.tallies RETURNING records, leaders, postings"
        ).fetchall()
        if rows:
            total = [sum(column) for column in zip(*rows, strict=True)]
            run.execute(f"INSERT INTO {self._s}.tallies VALUES (%s, %s, %s)", total)

    def _trim_log(self, run: Any) -> None:
        """Deletes the oldest lines of the change log, at most one portion.

        Nothing is deleted while the index is copied.
        """
        bounds = f"SELECT min(number), max(number) FROM {self._s}.events"
        first, last = run.execute(bounds).fetchone()
        if last - first < LOG_KEPT + LOG_PORTION:
            return
        migration = run.execute(
            f"SELECT value FROM {self._s}.meta WHERE name = 'place'"
        ).fetchone()[0]
        if migration[1] not in (COPYING, CLOSING):
            until = min(first + 2 * LOG_PORTION, last - LOG_KEPT)
            run.execute(f"DELETE FROM {self._s}.events WHERE number <= %s", (until,))

    def _committed(self, transaction: int | None) -> bool:
        """Asks the server whether a transaction was committed whose answer was lost."""
        until = time.monotonic() + STATUS_SECONDS
        status = None
        while status in (None, "in progress"):
            try:
                status = self._read_rows("SELECT txid_status(%s::bigint)", (transaction,))[0][0]
            except StoreError as error:
                # other connections of the pool may be broken, too, and a server may be restarting
                if time.monotonic() > until:
                    raise OutcomeUnknownError(
                        f"{self._url}: the answer to a commit was lost, and the server cannot be "
                        f"asked for the outcome, "
                        "which is unknown; the call may be repeated safely"
                    ) from error
            if time.monotonic() > until:
                break
            if status in (None, "in progress"):
                time.sleep(STATUS_PAUSE)
        if status == "aborted":
            raise StoreError(
                f"{self._url}: the connection was lost; nothing was written; the call may be "
                f"repeated"
            )
        return bool(status == "committed")

    def _apply(self, run: Any, changes: Changes) -> list[int]:
        """Checks the conditions of a step and writes it."""
        leaders = self._check(run, changes)
        removed = self._delete_documents(run, changes)
        self._update_documents(run, changes.changed)
        numbers = self._insert_documents(run, changes)
        entering = [
            (entry._replace(ref=number), keys)
            for (entry, keys), number in zip(changes.new, numbers, strict=True)
        ]
        pairs = [
            (entry.posting, keys)
            for entry, keys in (*entering, *changes.posted)
            if keys is not None
        ]
        added = self._insert_postings(
            run, [*pairs, *changes.postings_added], may_overflow=changes.may_overflow
        )
        self._tally_changes(run, changes, leaders, added - removed)
        if changes.events:
            query = (
                f"INSERT INTO {self._s}.events (kind, scope, id, into_id, at) VALUES (%s, %s, "
                f"%s, %s, %s)"
            )
            run.executemany(query, [tuple(event) for event in changes.events])
            self._trim_log(run)
        if changes.invalidates_caches:
            # the last statement, so that a step that waits for this row causes no deadlock
            run.execute(
                f"UPDATE {self._s}.meta SET value = to_jsonb(value::bigint + 1) WHERE name = "
                f"'generation'"
            )
        return numbers

    def _begin_step(self, run: Any, changes: Changes) -> int:
        """Refuses a step of another epoch.

        The row is locked until the step ends, so that the state of a migration is not written while
        steps of the previous epoch are running.
        """
        number: int
        if changes.epoch is None:
            (number,) = run.execute("SELECT txid_current()").fetchone()
            return number
        query = (
            f"SELECT (value->>0)::bigint, txid_current() FROM {self._s}.meta WHERE name = "
            f"'place' FOR SHARE"
        )
        epoch, number = run.execute(query).fetchone()
        if epoch != changes.epoch:
            raise MovedError(f"{self._url} is being moved")
        return number

    def _check(self, run: Any, changes: Changes) -> dict[int, str]:
        """Checks the conditions of a step, and locks its rows in the order of their numbers."""
        there = {entry.ref: entry.id for entry in changes.present}
        leaders: dict[int, str] = {}
        if there:
            query = (
                f"SELECT ref, id, leader FROM {self._s}.documents WHERE ref = "
                f"ANY(%s::bigint[]) ORDER BY ref FOR UPDATE"
            )
            rows = run.execute(query, (_array_literal(sorted(there)),)).fetchall()
            if {ref: name for ref, name, _ in rows} != there:
                raise RacedError("a document was deleted by another process")
            leaders = {ref: leader for ref, _, leader in rows}
        if any(leaders.get(entry.ref) != entry.leader for entry in changes.expected):
            raise RacedError("a document was resolved to another representative by another process")
        for standing in changes.leader_snapshots:
            # A statement of its own sees what was committed until the statement above locked the
            # row. A step that resolves a document to this one needs the row, and waits for it.
            query = (
                f"SELECT ref FROM {self._s}.documents WHERE scope = %s AND leader = %s AND "
                f"leader <> id LIMIT %s"
            )
            member_refs = run.execute(
                query, (standing.entry.scope, standing.entry.id, len(standing.members) + 1)
            ).fetchall()
            standing.require_unchanged(
                leaders.get(standing.entry.ref), (ref for (ref,) in member_refs)
            )
        needed = sorted({entry.ref for entry in changes.required_leaders})
        if needed:
            query = (
                f"SELECT ref FROM {self._s}.documents WHERE ref = ANY(%s::bigint[]) AND "
                f"leader "
                f"= id ORDER BY ref FOR SHARE"
            )
            if len(run.execute(query, (_array_literal(needed),)).fetchall()) < len(needed):
                raise RacedError("a representative was deleted by another process")
        return leaders

    def _delete_documents(self, run: Any, changes: Changes) -> int:
        """Deletes postings and documents, and returns the number of deleted postings."""
        removed = 0
        again = [(entry, keys) for entry, keys in changes.posted if keys is not None]
        leaving = [
            (entry.ref, keys)
            for entry, keys in (*changes.dropped, *changes.unposted, *again)
            if keys is not None
        ]
        for ref, keys in (*leaving, *changes.postings_removed):
            query = (
                f"DELETE FROM {self._s}.buckets WHERE key = ANY(%s::bigint[]) AND word >= %s AND "
                f"word < %s"
            )
            limits = (ref << REF_SHIFT, (ref + 1) << REF_SHIFT)
            removed += run.execute(
                query, (_array_literal(keys.view(np.int64).tolist()), *limits)
            ).rowcount
        if changes.dropped:
            refs = [entry.ref for entry, _ in changes.dropped]
            run.execute(
                f"DELETE FROM {self._s}.documents WHERE ref = ANY(%s::bigint[])",
                (_array_literal(refs),),
            )
        return removed

    def _update_documents(self, run: Any, entries: list[Entry]) -> None:
        if not entries:
            return
        run.executemany(
            f"UPDATE {self._s}.documents SET leader = %s, cluster = %s, similarity = %s, seen = "
            f"%s, posted = %s, "
            "signature = %s WHERE ref = %s",
            [
                (e.leader, e.cluster, e.similarity, e.seen, e.posted, e.signature, e.ref)
                for e in entries
            ],
        )

    def _insert_documents(self, run: Any, changes: Changes) -> list[int]:
        if not changes.new:
            return []
        fresh = iter(self._take_numbers(run, sum(not entry.ref for entry, _ in changes.new)))
        numbers = [entry.ref or next(fresh) for entry, _ in changes.new]
        stored = [
            _row(entry._replace(ref=number))
            for (entry, _), number in zip(changes.new, numbers, strict=True)
        ]
        rows = sorted(stored, key=_by_id)
        with run.copy(f"COPY {self._s}.documents ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(TYPES)
            for row in rows:
                copy.write_row(row)
        return numbers

    def _insert_postings(
        self, run: Any, pairs: list[tuple[int, np.ndarray]], *, may_overflow: bool
    ) -> int:
        """Inserts postings, marks the buckets that overflow, and returns their number."""
        if not pairs:
            return 0
        keys = np.concatenate([keys for _, keys in pairs]).view(np.int64)
        words = np.repeat(
            np.array([word for word, _ in pairs], np.int64), [len(keys) for _, keys in pairs]
        )
        order = np.lexsort((words, keys))
        with run.copy(f"COPY {self._s}.buckets FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_pack_rows(keys[order], words[order]))
        if may_overflow:
            query = f"""WITH marked AS (INSERT INTO {self._s}.overflowed
                SELECT key FROM unnest(%s::bigint[]) AS entered (key) WHERE EXISTS (
                  SELECT FROM {self._s}.buckets b WHERE b.key = entered.key
                  ORDER BY word OFFSET %s LIMIT 1)
                ORDER BY key ON CONFLICT DO NOTHING RETURNING key)
                SELECT count(*) FROM marked"""
            limits = (_array_literal(sorted(set(keys.tolist()))), self._most)
            (marked,) = run.execute(query, limits).fetchone()
            if marked:
                run.execute(f"SELECT nextval('{self._s}.evicted')")
        return len(keys)

    def members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        query = (
            f"SELECT {COLUMNS} FROM {self._s}.documents WHERE {RESOLVED_TO} ORDER BY ref "
            f"LIMIT "
            f"%(limit)s"
        )
        return [
            _entry(row)
            for row in self._read_rows(query, {"scope": scope, "leader": leader, "limit": limit})
        ]

    def member_page(
        self, scope: str, leader: str, after: int, skip: int, limit: int
    ) -> list[Entry]:
        query = (
            f"SELECT {HEADS} FROM {self._s}.documents WHERE {RESOLVED_TO} AND ref > %(after)s "
            "ORDER BY ref LIMIT %(limit)s OFFSET %(skip)s"
        )
        values = {"scope": scope, "leader": leader, "after": after, "skip": skip, "limit": limit}
        return [_entry(row) for row in self._read_rows(query, values)]

    def member_count(self, scope: str, leader: str) -> int:
        query = f"SELECT count(*) FROM {self._s}.documents WHERE {RESOLVED_TO}"
        return int(self._read_rows(query, {"scope": scope, "leader": leader})[0][0])

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        last, inside = 0, "" if scope is None else "AND scope = %(scope)s"
        columns = COLUMNS if content else HEADS
        order = "ref" if scope is None else "scope, ref"
        query = (
            f"SELECT {columns} FROM {self._s}.documents WHERE ref > %(last)s {inside} ORDER "
            f"BY "
            f"{order} LIMIT %(limit)s"
        )
        portions = Portions(PORTION)
        while rows := self._read_rows(
            query, {"last": last, "scope": scope, "limit": portions.size if content else PORTION}
        ):
            last = rows[-1][0]
            entries = [_entry(row) for row in rows]
            portions.read(len(entries), content_size(entries))
            yield from entries

    def scopes(self) -> Iterator[str]:
        s, last = self._s, None
        query = f"""WITH RECURSIVE found AS (
            (SELECT scope FROM {s}.documents WHERE %(last)s::text IS NULL OR scope > %(last)s
              ORDER BY scope LIMIT 1)
            UNION ALL SELECT (
              SELECT e.scope FROM {s}.documents e WHERE e.scope > found.scope
              ORDER BY e.scope LIMIT 1)
              FROM found WHERE found.scope IS NOT NULL)
            SELECT scope FROM found WHERE scope IS NOT NULL LIMIT {PORTION}"""
        while rows := self._read_rows(query, {"last": last}):
            last = rows[-1][0]
            yield from (name for (name,) in rows)

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        query = (
            f"SELECT key, word FROM {self._s}.buckets WHERE (key, word) > (%s::bigint, "
            f"%s::bigint) ORDER BY key, word LIMIT %s"
        )
        rows = self._read_rows(query, (*(place or (-(2**63), 0)), most))
        keys_and_words = np.array(rows, np.int64).reshape(-1, 2)
        last = rows[-1] if len(rows) == most else None
        return PostingPortion(
            np.ascontiguousarray(keys_and_words[:, 0]).view(np.uint64), keys_and_words[:, 1], last
        )

    def times(self) -> list[float]:
        query = "SELECT extract(epoch FROM clock_timestamp())::float8"
        return [float(self._read_rows(query)[0][0])]

    def median_seen(self, before: float, *, posted: bool) -> float | None:
        return None

    def first_seen(self, after: float, before: float, *, posted: bool) -> float | None:
        return None

    def due(self, before: float, *, posted: bool) -> Iterator[Entry]:
        only = "AND posted" if posted else ""
        query = (
            f"SELECT {HEADS} FROM {self._s}.documents WHERE (seen, ref) > (%(seen)s, %(ref)s) AND "
            f"seen < %(before)s {only} "
            f"ORDER BY seen, ref LIMIT {PORTION}"
        )
        values: dict[str, float] = {"seen": -math.inf, "ref": 0, "before": float(before)}
        while rows := self._read_rows(query, values):
            entries = [_entry(row) for row in rows]
            values["seen"], values["ref"] = entries[-1].seen, entries[-1].ref
            yield from entries

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        now = "extract(epoch FROM clock_timestamp())::float8"
        query = f"""INSERT INTO {self._s}.meta AS m
            VALUES (%(name)s, jsonb_build_array(%(holder)s::text, {now} + %(seconds)s))
            ON CONFLICT (name) DO UPDATE SET value = excluded.value
            WHERE m.value->>0 = %(holder)s OR (m.value->>1)::float8 < {now}"""
        values = {"name": f"turn:{work}", "holder": holder, "seconds": float(seconds)}
        return bool(self._write(lambda run: run.execute(query, values).rowcount))

    def log_end(self) -> int:
        """Returns the oldest transaction that may still write.

        Older ones have written all their lines.
        """
        query = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        return int(self._read_rows(query)[0][0])

    def events(self, after: int | None = None) -> Iterator[Event]:
        order = "number" if after is None else "step, number"
        behind = (
            "number > %(number)s" if after is None else "(step, number) > (%(step)s, %(number)s)"
        )
        columns = "kind, scope, id, into_id, at, step, number"
        query = (
            f"SELECT {columns} FROM {self._s}.events WHERE {behind} ORDER BY {order} LIMIT "
            f"{LOG_PORTION}"
        )
        values = {"step": after or 0, "number": -1}
        while rows := self._read_rows(query, values):
            values["step"], values["number"] = rows[-1][-2:]
            for kind, scope, name, into, at, _, _ in rows:
                yield Event(kind=kind, scope=scope, id=name, into=into, at=at)

    def counts(self) -> dict[str, int]:
        return self._write(self._count)

    def _count(self, run: Any) -> dict[str, int]:
        s = self._s
        sums = (
            "coalesce(sum(records), 0)::bigint, coalesce(sum(leaders), 0)::bigint, "
            "coalesce(sum(postings), 0)::bigint"
        )
        kept = f"SELECT count(*), {sums} FROM {s}.tallies"
        rows, records, leaders, postings = run.execute(kept).fetchone()
        if rows > MERGED_AFTER:
            self._merge_tallies(run)
        # only buckets that have overflowed are counted
        (evicted,) = run.execute(
            f"SELECT coalesce(sum(greatest(size - %s, 0)), 0)::bigint FROM {s}.overflowed o, "
            f"LATERAL (SELECT count(*) AS size FROM {s}.buckets b WHERE b.key = o.key) AS counted",
            (self._most,),
        ).fetchone()
        size = (
            f"SELECT pg_total_relation_size('{s}.documents') + "
            f"pg_total_relation_size('{s}.buckets')"
        )
        (used,) = run.execute(size).fetchone()
        counted = {
            "records": records,
            "leaders": leaders,
            "postings": postings - evicted,
            "evicted": evicted,
        }
        return {**counted, "bytes": int(used)}

    @property
    def durability(self) -> str:
        query = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
        durability_settings = self._read_rows(query)[0]
        if durability_settings[0] == "off":
            return (
                "fsync is off: survives the end of the server process, but a power cut may "
                "damage the database"
            )
        if durability_settings[1] == "off":
            return "synchronous_commit is off: a killed server loses the last acknowledged steps"
        return "synced before it is acknowledged: survives a power cut"

    def close(self) -> None:
        self._pool.close()


def _configure(connection: Any) -> None:
    """Makes every query use an index, because statistics of a fast-growing table are outdated."""
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET enable_bitmapscan = off")


def _array_literal(numbers: Sequence[int]) -> str:
    """Returns numbers as an array literal, which the driver sends faster than many parameters."""
    return f"{{{','.join(map(str, numbers))}}}"


def _pack_rows(keys: np.ndarray, words: np.ndarray) -> bytes:
    """Returns rows of two bigints in the binary form of COPY."""
    rows = np.empty(
        len(keys), [("fields", ">i2"), ("a", ">i4"), ("key", ">i8"), ("b", ">i4"), ("word", ">i8")]
    )
    rows["fields"] = 2
    rows["a"] = 8
    rows["b"] = 8
    rows["key"] = keys
    rows["word"] = words
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff"


def _row(entry: Entry) -> tuple[Any, ...]:
    """Returns the row of an entry, with its text as the server can store it."""
    text = None if entry.text is None else escape_text(entry.text)
    return row_of_entry(entry._replace(text=text))


def _by_id(row: tuple[Any, ...]) -> tuple[str, str]:
    return row[1], row[2]


def _entry(row: tuple[Any, ...]) -> Entry:
    """Returns the entry of a row with COLUMNS or HEADS."""
    entry = entry_of_row(row)
    return entry if entry.text is None else entry._replace(text=unescape_text(entry.text))


def escape_text(text: str) -> str:
    r"""Escapes U+0000, which PostgreSQL cannot store, and the escape character U+001A.

    Examples:
        >>> [escape_text(text) for text in ("plain", "a\0b", "a\x1ab")]
        ['plain', 'a\x1a0b', 'a\x1aSb']
        >>> unescape_text(escape_text("a\0b\x1a0\x1aS")) == "a\0b\x1a0\x1aS"
        True
    """
    return text.replace("\x1a", "\x1aS").replace("\0", "\x1a0")


def unescape_text(text: str) -> str:
    """Returns the text that `escape_text` escaped."""
    return text.replace("\x1a0", "\0").replace("\x1aS", "\x1a")
