"""The store behind `postgresql://user@host/db?schema=name`.

Each step is one transaction of statements over sets of rows. Connections come from a pool.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from nearkin.errors import (
    MissingExtraError,
    MissingIndexError,
    MovedError,
    NearkinError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import Changes, Event, LogPortion, number_documents
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion, Postings
from nearkin.index.migration.state import MigrationState, StoreState
from nearkin.index.stores.addresses import require_known_options, without_password
from nearkin.index.stores.base import LOG_PORTION, PROTECTED, require_layout
from nearkin.index.stores.pool_log import watch_pool_log
from nearkin.index.stores.sql import COLUMNS, Condition, Dialect, SqlStore, count_changes

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
TYPES = (
    "text",
    "text",
    "int8",
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
LINES = "events_number_seq"
"""The sequence of the numbers of lines, as PostgreSQL names it."""
LINES_PAUSE = 0.002
"""The interval between two checks of the steps that write lines, in seconds."""
log = logging.getLogger("nearkin.postgres")
MERGED_AFTER = 1000
"""The number of steps of this process after which the tallies are added up."""
NAMED_VALUE = re.compile("(?<!:):([a-z]+)")
"""A named value in a statement of `SqlStore`. Two colons precede a type."""
LOCK = 0x6E6B
"""The advisory lock under which the schema is created."""


class PostgresStore(SqlStore):
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
        self.dialect = Dialect(
            documents=f"{self._s}.documents",
            meta=f"{self._s}.meta",
            events=f"{self._s}.events",
            heads=(
                "scope, id, ref, digest, leader, cluster, similarity, size, created, seen, posted, "
                "''::bytea, NULL::text, ''::bytea"
            ),
            json="jsonb",
            for_update="FOR UPDATE",
            for_share="FOR SHARE",
            no_limit="ALL",
        )
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        require_known_options(options, ["schema", "ssl", *known], without_password(url))
        self._applied = 0
        self._most = most
        self._url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        self._recorded_url = without_password(url)
        self._psycopg = psycopg
        self._pool_errors = (psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed)
        self._race_errors = (
            psycopg.errors.DeadlockDetected,
            psycopg.errors.SerializationFailure,
            psycopg.errors.UniqueViolation,
        )
        self._connection_errors = watch_pool_log()
        address = urlunsplit(parts._replace(query=urlencode(options)))
        try:
            psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            # the message of libpq quotes the part that it cannot read, which may be the password
            raise UsageError(
                f"{self._url}: the address is not valid; write blanks, % and other special "
                "characters of a name or a password as % and two hexadecimal digits"
            ) from None
        self._create_pool: Callable[[], Any] = partial(
            psycopg_pool.ConnectionPool,
            address,
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
                self._write(self._create_tables)
            except BaseException:
                self._pool.close()
                raise

    def _configure_connection(self, connection: Any) -> None:
        """Makes each query use an index: statistics of a fast-growing table are outdated.

        The costs of other plans are huge then, and the server would compile short queries.
        """
        for setting in ("enable_seqscan", "enable_bitmapscan", "jit"):
            connection.execute(f"SET {setting} = off")
        self._connection_errors.forget(self._pool.name)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Provides a connection, which is closed if an error leaves it in an unknown state.

        An error of psycopg can come in place of an interruption, and the connection would count a
        transaction that has ended. It is kept if another step was faster, which is usual.
        """
        has_failed = self._connection_errors.last_reason(self._pool.name) is not None
        with self._pool.connection(FAILED_TIMEOUT if has_failed else None) as connection:
            try:
                yield connection
            except (NearkinError, *self._race_errors):
                raise
            except BaseException:
                connection.close()
                raise

    @property
    def url(self) -> str:
        """The address of the database, without a password."""
        return self._url

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        """Turns errors of psycopg into RacedError and StoreError."""
        try:
            yield
        except self._race_errors as error:
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

    def _text(self, query: str) -> str:
        return NAMED_VALUE.sub(r"%(\1)s", super()._text(query))

    def _fetch(self, run: Any, query: str, values: Any = None) -> list[Any]:
        rows: list[Any] = run.execute(self._text(query), values).fetchall()
        return rows

    def _refs_among(self, refs: Sequence[int]) -> Condition:
        return Condition("ref = ANY(:refs::bigint[])", {"refs": _array_literal(refs)})

    def _ids_among(self, ids: Sequence[str]) -> Condition:
        return Condition("id = ANY(:ids)", {"ids": list(ids)})

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        entry = super()._entry(row)
        return entry if entry.text is None else entry._replace(text=unescape_text(entry.text))

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
                    result = self._act(action, cursor)
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

    def _act(self, action: Callable[[Any], R], cursor: Any) -> R:
        """Returns the result of an action. Its connection is closed if the action is interrupted.

        A COPY that is interrupted at its end still holds the lock of the connection, for which the
        end of the transaction would wait forever.
        """
        try:
            return action(cursor)
        except BaseException as error:
            if self._may_come_anywhere(error):
                cursor.connection.close()
            raise

    def _may_come_anywhere(self, error: BaseException) -> bool:
        """Returns whether an exception is not one of the store, for example that of Ctrl-C."""
        return not isinstance(error, (self._psycopg.Error, *self._pool_errors, NearkinError))

    def _replace_pool(self, error: BaseException) -> None:
        """Replaces the connections if an exception may have come anywhere.

        An answer may be unread, or a connection may be missing in the pool.
        """
        if not self._may_come_anywhere(error):
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

    def _create_tables(self, run: Any) -> None:
        run.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if self._has_tables(run):
            query = f"SELECT value FROM {self._s}.meta WHERE name = 'schema'"
            require_layout(self._url, "schema", run.execute(query).fetchone()[0], SCHEMA)
        else:
            for statement in CREATE.format(s=self._s).strip().split(";\n"):
                run.execute(statement)
        # steps read or count up these rows
        run.execute(
            f"INSERT INTO {self._s}.meta VALUES ('place', %s::jsonb), ('generation', '0') "
            "ON CONFLICT DO NOTHING",
            (json.dumps(MigrationState()),),
        )

    def protect(self) -> None:
        self.write_once(PROTECTED, value=True)

    def state(self) -> StoreState:
        return self._read(self._read_state)

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
        tally = (*count_changes(changes, leaders), added - removed)
        if any(tally):
            run.execute(f"INSERT INTO {self._s}.tallies VALUES (%s, %s, %s)", tally)
        if changes.events:
            query = (
                f"INSERT INTO {self._s}.events (kind, scope, id, into_id, at) VALUES (%s, %s, "
                f"%s, %s, %s)"
            )
            run.executemany(query, [event.row for event in changes.events])
            if not changes.keeps_log:
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
        numbers = number_documents(changes.new, partial(self._take_numbers, run))
        entries = [
            _escape_entry(entry._replace(ref=number))
            for (entry, _), number in zip(changes.new, numbers, strict=True)
        ]
        # steps that insert documents of the same ids wait for each other in one order
        entries.sort(key=lambda entry: (entry.scope, entry.id))
        with run.copy(f"COPY {self._s}.documents ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(TYPES)
            for entry in entries:
                copy.write_row(entry)
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
            yield from (Event.of_row(*row[:-2]) for row in rows)

    def log_lines(self, after: int, limit: int) -> LogPortion:
        query = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {self._s}.{LINES}"
        end = self._read_rows(query)[0][0]
        if end > after:
            self._await_writers()
        return self._read(lambda run: self._read_lines(run, after, end, limit))

    def _await_writers(self) -> None:
        """Waits until the steps have ended that are writing to the change log.

        A line gets its number before its step is committed, so that lines become visible in another
        order. Each step that has a number holds the lock of the table until everybody sees its
        lines. Nobody waits for the reader.
        """
        query = (
            "SELECT virtualtransaction FROM pg_locks WHERE relation = %s::regclass AND "
            "mode = 'RowExclusiveLock' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        until = time.monotonic() + STATUS_SECONDS
        writers: set[Any] | None = None
        while writers is None or writers:
            rows = self._read_rows(query, (f"{self._s}.events",))
            present = {row[0] for row in rows}
            writers = present if writers is None else writers & present
            if writers and time.monotonic() > until:
                raise StoreError(
                    f"{self._url}: a step has been writing for {STATUS_SECONDS:g} s; repeat the "
                    "call later"
                )
            if writers:
                time.sleep(LINES_PAUSE)

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


def _escape_entry(entry: Entry) -> Entry:
    """Returns the entry of a document, with its text as the server can store it."""
    return entry if entry.text is None else entry._replace(text=escape_text(entry.text))


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
