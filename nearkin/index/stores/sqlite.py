"""The store behind `sqlite:///file.db`, which is the default of an embedded index.

The index is one file with a write-ahead log. Random look-ups and inserts of twenty keys a document
are slow in a B-tree. Therefore each row holds the band keys of its document, and the buckets are
arrays in memory, which are built when the file is opened. Several processes may share a file: each
step has a number, and a process reads the steps that it does not know before it uses its buckets.
It learns its own steps in the same way. An exception of a signal can come anywhere, for example
between a commit and the line after it, and the file alone says whether the step was written.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np

from nearkin.errors import (
    MissingIndexError,
    MovedError,
    NearkinError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import Changes, Event, LogPortion, number_documents
from nearkin.index.entry import (
    REF_SHIFT,
    RESERVED,
    PostingPortion,
    Postings,
    posting_of,
)
from nearkin.index.migration.state import StoreState
from nearkin.index.stores.addresses import require_known_options
from nearkin.index.stores.base import LOG_PORTION, require_layout
from nearkin.index.stores.bucket_table import BucketTable
from nearkin.index.stores.memory_bound import growing_keys, require_room
from nearkin.index.stores.sql import COLUMNS, Condition, Dialect, SqlStore, count_changes
from nearkin.runtime.files import make_folders, sync_folder
from nearkin.runtime.outputs import require_outside_work_folders
from nearkin.runtime.suggestions import did_you_mean

R = TypeVar("R")
KEY_BYTES = 8
"""The size of a band key, in bytes."""
UNREAD = -1
"""A data version that no file has. The steps that a process does not know are read then."""
FULL_SYNC = 2
"""The smallest value of `PRAGMA synchronous` with which each commit is synced."""
SCHEMA = 3
"""The version of the tables."""
BLOCK = 10_000
"""The number of rows that are read at once when a file is opened."""
GONE = 100_000
"""The number of steps whose removals are kept.

A process that is further behind reads the whole file again.
"""
BUSY = 30.0
"""The maximum time to wait for another process that writes, in seconds."""
MOST_TURN = 86_400.0
"""The maximum duration of a turn, in seconds."""
CACHE_KIB = 256 << 10
"""The size of the page cache, in KiB."""
LOG_PAGES = 16_000
"""The number of pages in the write-ahead log from which they are copied to the file.

It is large so that a page that many batches change is copied once.
"""
DIALECT = Dialect(
    documents="entries",
    meta="meta",
    events="events",
    # the content is stored in other pages of the file
    heads=(
        "scope, id, ref, digest, leader, cluster, similarity, size, created, seen, posted, x'', "
        "NULL, x''"
    ),
    json="TEXT",
    # a transaction that writes is alone
    for_update="",
    for_share="",
    no_limit="-1",
)
CREATE = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
  ref INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, id TEXT NOT NULL,
  digest BLOB NOT NULL, leader TEXT NOT NULL, cluster TEXT NOT NULL, similarity REAL NOT NULL,
  size INTEGER NOT NULL, created REAL NOT NULL, seen REAL NOT NULL, posted INTEGER NOT NULL,
  signature BLOB NOT NULL, text TEXT, payload BLOB NOT NULL, keys BLOB, step INTEGER NOT NULL);
CREATE UNIQUE INDEX entries_by_id ON entries (scope, id);
CREATE INDEX entries_by_leader ON entries (scope, leader) WHERE leader <> id;
CREATE INDEX entries_by_step ON entries (step);
CREATE TABLE gone (step INTEGER NOT NULL, ref INTEGER NOT NULL, keys BLOB NOT NULL);
CREATE INDEX gone_by_step ON gone (step);
CREATE TABLE loose (
  ref INTEGER PRIMARY KEY, word INTEGER NOT NULL, keys BLOB NOT NULL, step INTEGER NOT NULL);
CREATE INDEX loose_by_step ON loose (step);
CREATE TABLE events (
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL,
  into_id TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX entries_by_scope ON entries (scope);
CREATE INDEX entries_by_seen ON entries (seen);
CREATE INDEX entries_posted_by_seen ON entries (seen) WHERE posted;
INSERT INTO meta VALUES ('last_step', '0'), ('forgotten', '0'), ('reserved', '0'), ('records', '0'),
  ('leaders', '0');
PRAGMA user_version = 3
"""
LAST_STEPS = """SELECT
  CAST((SELECT value FROM meta WHERE name = 'last_step') AS INT),
  CAST((SELECT value FROM meta WHERE name = 'forgotten') AS INT)"""
"""The last step, and the last one whose removals are not kept."""
COUNT = "UPDATE meta SET value = CAST(CAST(value AS INT) + ? AS TEXT) WHERE name = ?"
UPDATE = """UPDATE entries
  SET leader = ?, cluster = ?, similarity = ?, seen = ?, posted = ?, signature = ?, step = ?
  WHERE ref = ?"""
LAST_LINE = """COALESCE((SELECT MAX(number) FROM events),
  (SELECT CAST(value AS INT) FROM meta WHERE name = 'dropped'), 0)"""
"""The number of the last line of the change log, which may have been deleted."""
LOG = f"INSERT INTO events VALUES ({LAST_LINE} + 1, ?, ?, ?, ?, ?)"


def file_of(url: str) -> Path:
    """Returns the path in `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or not path:
        raise UsageError(
            f"invalid store URL {url!r}; write sqlite:///file.db or sqlite:////absolute/file.db"
        )
    return Path(path)


def connect_file(path: Path, mode: str) -> sqlite3.Connection:
    """Opens an SQLite file. The mode is `ro`, `rw`, or `rwc` to create it if it does not exist."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY,
        isolation_level=None,
        check_same_thread=False,
    )


def require_index_file(path: Path) -> None:
    """Requires that a file is an index. It is opened for reading only."""
    if not path.is_file():
        reason = "it is a folder" if path.is_dir() else "no such file"
        raise MissingIndexError(f"there is no index at sqlite:///{path}: {reason}")
    with closing(connect_file(path, "ro")) as db:
        tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchall()
        if tables and db.execute("SELECT 1 FROM meta WHERE name = 'header'").fetchall():
            return
    raise MissingIndexError(
        f"there is no index at sqlite:///{path}: the file has no header of one; check the path"
    )


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and of the file system into StoreError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_CANTOPEN:
            raise StoreError(
                f"cannot open the index file {path}: {_explain_unopened(path)}; correct the path "
                f"or its permissions"
            ) from error
        if code == sqlite3.SQLITE_READONLY:
            raise StoreError(
                f"cannot write the index file {path}: SQLite writes the file and others beside it, "
                "also to read; permit this process to write the file and its folder"
            ) from error
        if code == sqlite3.SQLITE_NOTADB:
            raise StoreError(
                f"{path} is not an index: it is not an SQLite file; correct the path, or restore a "
                "backup with nearkin index restore"
            ) from error
        raise StoreError(
            f"{path}: {error}; nothing was written; the call may be repeated"
        ) from error
    except OSError as error:
        raise StoreError(
            f"cannot use the index file {path}: {error.strerror or error}; correct the path or its "
            f"permissions"
        ) from error


def _explain_unopened(path: Path) -> str:
    """Returns why SQLite cannot open a file, which its own message does not say."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"{path.parent} is not a folder"
    if not path.exists():
        return f"it cannot be created in {path.parent}"
    return "permission denied"


class SqliteStore(SqlStore):
    """A store in an SQLite file.

    Args:
        max_memory: Maximum memory of buckets and pages in this process, in bytes, or None for no
            limit. A quarter of it is for pages.
    """

    dialect = DIALECT

    def __init__(
        self,
        path: Path,
        most: int,
        synchronous: str = "full",
        max_memory: int | None = None,
        *,
        must_exist: bool = False,
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise UsageError(
                f"unknown synchronous={synchronous!r}; valid values are full and normal"
                f"{did_you_mean(synchronous, ('full', 'normal'))}"
            )
        self.path = path
        self.most = most
        cache_kib = CACHE_KIB
        self._max_bucket_memory = None
        if max_memory is not None:
            cache_kib = min(CACHE_KIB, max_memory // 4 // 1024)
            self._max_bucket_memory = max_memory - 1024 * cache_kib
        self._pragmas = (
            "journal_mode = WAL",
            f"synchronous = {synchronous}",
            f"cache_size = -{cache_kib}",
            f"wal_autocheckpoint = {LOG_PAGES}",
        )
        self._lock = RLock()
        self.table = BucketTable(most)
        self._is_table_whole = False
        """False if the table was not built yet, or was changed in part."""
        self._step = 0
        """The last step that the table contains."""
        self._last_ref = 0
        """The largest number of a document that the table may contain."""
        self._version = UNREAD
        self._remembered: tuple[int, StoreState] | None = None
        """The state of the index, with the data version at which it was read.

        None after own writes.
        """
        self._is_lost = False
        """True if the connection was closed because an exception had come anywhere."""
        with self._converted_errors():
            if must_exist:
                require_index_file(path)
            is_new = not path.exists()
            if is_new:
                require_outside_work_folders(path)
                make_folders(path.parent)
            self._db = self._connect("rwc")
            try:
                self._prepare_tables()
                if is_new:
                    sync_folder(path.parent)
                self._learn_steps()
            except BaseException:
                self._db.close()
                raise

    @classmethod
    def of_url(
        cls, url: str, most: int, max_memory: int | None = None, *, must_exist: bool = False
    ) -> "SqliteStore":
        """Opens the store of a URL.

        Args:
            max_memory: Maximum memory of buckets and pages in this process, in bytes.
        """
        options = parse_qs(urlsplit(url).query)
        require_known_options(options, ["synchronous"], repr(url))
        synchronous = options.get("synchronous", ["full"])[0]
        return cls(file_of(url), most, synchronous, max_memory, must_exist=must_exist)

    @property
    def url(self) -> str:
        """The address of the file."""
        return f"sqlite:///{self.path}"

    def _converted_errors(self) -> AbstractContextManager[None]:
        return sqlite_errors(self.path)

    def _connect(self, mode: str) -> sqlite3.Connection:
        """Opens the file, and sets how it is used."""
        db = connect_file(self.path, mode)
        try:
            for pragma in self._pragmas:
                db.execute(f"PRAGMA {pragma}")
        except BaseException:
            db.close()
            raise
        return db

    def _read(self, action: Callable[[sqlite3.Connection], R]) -> R:
        """Returns the result of an action that uses the connection, which no other thread uses."""
        with self._lock, self._converted_errors():
            try:
                self._reconnect()
                return action(self._db)
            except BaseException as error:
                self._restore_connection(error)
                raise

    def _write(self, action: Callable[[sqlite3.Connection], R]) -> R:
        """Returns the result of an action in one transaction, which is synced."""
        with self._lock, self._converted_errors():
            try:
                self._reconnect()
                self._db.execute("BEGIN IMMEDIATE")
                result = action(self._db)
                self._version = UNREAD
                self._remembered = None
                self._commit()
                return result
            except BaseException as error:
                self._restore_connection(error)
                raise

    def _reconnect(self) -> None:
        """Opens the file again if the connection was closed because of an exception."""
        if self._is_lost:
            self._db = self._connect("rw")
            self._version = UNREAD
            self._remembered = None
            self._is_lost = False

    def _restore_connection(self, error: BaseException) -> None:
        """Rolls a transaction back, or closes the connection if its state is unknown.

        Errors of SQLite and of nearkin come from known places, and others, such as
        KeyboardInterrupt, from anywhere.
        """
        if isinstance(error, (sqlite3.Error, NearkinError)):
            # a closed connection has no transaction
            with suppress(sqlite3.ProgrammingError):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            return
        self._is_lost = True
        self._db.close()

    def _prepare_tables(self) -> None:
        version = self._fetch_rows("PRAGMA user_version")[0][0]
        if version == 0:
            self._write(self._create_tables)
        else:
            require_layout(str(self.path), "schema", version, SCHEMA)

    def _create_tables(self, run: sqlite3.Connection) -> None:
        # another process may have created them since the check
        if self._fetch_rows("PRAGMA user_version")[0][0] == 0:
            for statement in CREATE.split(";\n"):
                run.execute(statement)

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR:
                raise
            raise OutcomeUnknownError(
                f"{self.path}: {error} during a commit, so that the outcome is unknown; the call "
                f"may be repeated safely"
            ) from error

    def _fetch(self, run: Any, query: str, values: Any = None) -> list[Any]:
        return self._fetch_rows(self._text(query), values or {})

    def _refs_among(self, refs: Sequence[int]) -> Condition:
        return _among("ref", refs)

    def _ids_among(self, ids: Sequence[str]) -> Condition:
        return _among("id", ids)

    def _fetch_rows(self, query: str, values: Any = ()) -> list[Any]:
        """Returns all rows of a statement, and closes its cursor.

        An open cursor that has not reached its last row keeps the connection in an old snapshot.
        After another process has written, each step would fail with "database is locked".
        """
        with closing(self._db.execute(query, values)) as cursor:
            return cursor.fetchall()

    def _data_version(self) -> int:
        """Returns a number that changes when another connection has written."""
        cursor = self._db.execute("PRAGMA data_version")
        version: int = cursor.fetchone()[0]
        cursor.close()
        return version

    def _read_blocks(self, query: str, values: Any = ()) -> Generator[list[Any], None, None]:
        """Yields the rows of a statement in blocks.

        The cursor is closed if the caller stops early.
        """
        with closing(self._db.execute(query, values)) as cursor:
            while rows := cursor.fetchmany(BLOCK):
                yield rows

    def _load_buckets(self) -> None:
        """Builds all buckets from the file."""
        table = BucketTable(self.most)
        step = self._number("last_step")
        query = (
            "SELECT ref, leader = id, size, keys FROM entries WHERE posted AND keys IS NOT NULL "
            "ORDER BY ref"
        )
        with closing(self._read_blocks(query)) as blocks:
            for rows in blocks:
                self._require_room(table, _count_keys(rows))
                _append_rows(table, rows)
        with closing(self._read_blocks("SELECT word, keys FROM loose ORDER BY ref")) as blocks:
            for word, blob in chain.from_iterable(blocks):
                table.append(np.frombuffer(blob, np.uint64), word)
        # set only now, because a table that was read in part would hide documents
        self.table = table
        self._last_ref = self._fetch_rows("SELECT COALESCE(MAX(ref), 0) FROM entries")[0][0]
        self._step = step
        self._is_table_whole = True

    def _number(self, name: str) -> int:
        return int(self._fetch_rows("SELECT value FROM meta WHERE name = ?", (name,))[0][0])

    def _learn_steps(self) -> None:
        """Applies the steps of all processes to the buckets, those of this one included."""
        version = self._data_version()
        if version == self._version and self._is_table_whole:
            return
        if self._db.in_transaction:
            self._update_buckets()
        else:
            # one snapshot of the file
            self._db.execute("BEGIN")
            self._update_buckets()
            self._db.execute("COMMIT")
        self._version = version

    def _require_room(self, table: BucketTable, more: int) -> None:
        """Verifies that buckets stay within their memory if postings are appended."""
        if self._max_bucket_memory is not None:
            require_room(table.peak_bytes(more), self._max_bucket_memory, self.url)

    def _update_buckets(self) -> None:
        last_step, forgotten = self._fetch_rows(LAST_STEPS)[0]
        if not self._is_table_whole or self._step < forgotten:
            self._load_buckets()
            return
        if last_step == self._step:
            return
        # SQLite would read all rows in the order of their numbers
        rows = self._fetch_rows(
            "SELECT ref, leader = id, size, keys, posted FROM entries INDEXED BY entries_by_step "
            "WHERE step > ? AND keys IS NOT NULL ORDER BY ref",
            (self._step,),
        )
        posted = [row[:4] for row in rows if row[4]]
        self._require_room(self.table, _count_keys(posted))
        gone = self._fetch_rows("SELECT ref, keys FROM gone WHERE step > ?", (self._step,))
        loose = self._fetch_rows(
            "SELECT ref, word, keys FROM loose INDEXED BY loose_by_step WHERE step > ? "
            "ORDER BY ref",
            (self._step,),
        )
        self._is_table_whole = False
        for ref, blob in gone:
            self.table.remove(np.frombuffer(blob, np.uint64), ref)
        for ref, _, _, blob, _ in rows:
            if ref <= self._last_ref:
                self.table.remove(np.frombuffer(blob, np.uint64), ref)
        _append_rows(self.table, posted)
        if rows:
            self._last_ref = max(self._last_ref, rows[-1][0])
        for ref, word, blob in loose:
            keys = np.frombuffer(blob, np.uint64)
            self.table.remove(keys, ref)
            self.table.append(keys, word)
        self._step = last_step
        self._is_table_whole = True

    def state(self) -> StoreState:
        return self._read(self._remembered_state)

    def _remembered_state(self, run: sqlite3.Connection) -> StoreState:
        version = self._data_version()
        if self._remembered is None or self._remembered[0] != version:
            self._remembered = version, self._read_state(run)
        return self._remembered[1]

    def postings(self, keys: np.ndarray) -> Postings:
        def look_up(_: sqlite3.Connection) -> Postings:
            self._learn_steps()
            return self.table.look_up(keys)

        return self._read(look_up)

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        def look_up(_: sqlite3.Connection) -> np.ndarray:
            self._learn_steps()
            return self.table.overflowed(keys)

        return self._read(look_up)

    def reserve(self, count: int) -> list[int]:
        return self._write(lambda _: self._take_numbers(self._number("reserved"), count))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._lock:
            self._read_rows("BEGIN")
            try:
                yield
            finally:
                # an error that came from the connection has ended the transaction already
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")

    def last_number(self) -> int:
        return self._read(self._last_number)

    def _last_number(self, _: sqlite3.Connection) -> int:
        """Returns the larger one of the last number that was recorded and the last one stored.

        Older versions did not record the numbers that a step gave.
        """
        stored = self._fetch_rows("SELECT seq FROM sqlite_sequence WHERE name = 'entries'")
        return max(self._number("reserved"), stored[0][0] if stored else 0)

    def _number_new(self, count: int) -> list[int]:
        """Returns numbers for new documents, which follow the largest stored number, too.

        `reserve` does not count it, because shards encode their place in the numbers that they
        reserve.
        """
        return self._take_numbers(self._last_number(self._db), count) if count else []

    def _take_numbers(self, last: int, count: int) -> list[int]:
        """Returns document numbers that were not given before, and records that they are given."""
        end = last + count
        self._db.execute("UPDATE meta SET value = ? WHERE name = 'reserved'", (str(end),))
        return list(range(last + 1, end + 1))

    def apply(self, changes: Changes) -> list[int]:
        def apply(run: sqlite3.Connection) -> list[int]:
            self._learn_steps()
            if changes.epoch not in (None, self._read_state(run).migration.epoch):
                raise MovedError(f"{self.path} is being moved")
            keys = growing_keys(changes)
            if keys:
                self._require_room(self.table, keys)
            counted = count_changes(changes, self._check(run, changes))
            numbers = self._write_step(run, changes, self._step + 1)
            names = ("records", "leaders")
            run.executemany(COUNT, [(n, name) for n, name in zip(counted, names, strict=True) if n])
            return numbers

        return self._write(apply)

    def _write_step(self, run: sqlite3.Connection, changes: Changes, step: int) -> list[int]:
        leaving = [
            (step, entry.ref, keys.tobytes())
            for entry, keys in (*changes.dropped, *changes.unposted)
            if keys is not None
        ]
        leaving += [(step, ref, keys.tobytes()) for ref, keys in changes.postings_removed]
        changed = [
            (e.leader, e.cluster, e.similarity, e.seen, e.posted, e.signature, step, e.ref)
            for e in changes.changed
        ]
        posted = [
            (keys.tobytes(), step, entry.ref) for entry, keys in changes.posted if keys is not None
        ]
        run.executemany("INSERT INTO gone VALUES (?, ?, ?)", leaving)
        run.executemany(
            "DELETE FROM entries WHERE ref = ?", [(entry.ref,) for entry, _ in changes.dropped]
        )
        run.executemany(
            "DELETE FROM loose WHERE ref = ?", [(ref,) for ref, _ in changes.postings_removed]
        )
        loose = [
            (word >> REF_SHIFT, word, keys.tobytes(), step) for word, keys in changes.postings_added
        ]
        run.executemany("INSERT OR REPLACE INTO loose VALUES (?, ?, ?, ?)", loose)
        run.executemany(UPDATE, changed)
        run.executemany("UPDATE entries SET keys = ?, step = ? WHERE ref = ?", posted)
        numbers = number_documents(changes.new, self._number_new)
        try:
            run.executemany(
                f"INSERT INTO entries ({COLUMNS}, keys, step) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
                f"?, ?, ?, ?, ?, ?, ?)",
                (
                    (*entry[:2], number, *entry[3:], None if keys is None else keys.tobytes(), step)
                    for (entry, keys), number in zip(changes.new, numbers, strict=True)
                ),
            )
        except sqlite3.IntegrityError as error:
            raise RacedError("a document with this id exists already") from error
        run.executemany(LOG, [event.row for event in changes.events])
        if changes.events and not changes.keeps_log:
            self._trim_log(run)
        run.execute("UPDATE meta SET value = ? WHERE name = 'last_step'", (str(step),))
        if changes.invalidates_caches:
            run.execute(
                "INSERT INTO meta VALUES ('generation', '1') ON CONFLICT DO UPDATE SET value = "
                "CAST(value AS INT) + 1"
            )
        if step % GONE == 0:
            run.execute("DELETE FROM gone WHERE step <= ?", (step - GONE,))
            run.execute("UPDATE meta SET value = ? WHERE name = 'forgotten'", (str(step - GONE),))
        return numbers

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        query = "SELECT ref, word, keys FROM loose WHERE ref > ? ORDER BY ref LIMIT ?"
        # a row has about twenty postings, one for each band
        rows_at_once = max(1, most // 20)
        rows = self._read_rows(query, (place or 0, rows_at_once))
        keys = [np.frombuffer(blob, np.uint64) for _, _, blob in rows]
        words = [
            np.full(len(keys_of_word), word, np.int64)
            for keys_of_word, (_, word, _) in zip(keys, rows, strict=True)
        ]
        nothing = PostingPortion(np.empty(0, np.uint64), np.empty(0, np.int64), None)
        last = rows[-1][0] if len(rows) == rows_at_once else None
        return (
            PostingPortion(np.concatenate(keys), np.concatenate(words), last) if rows else nothing
        )

    def median_seen(self, before: float, *, posted: bool) -> float | None:
        documents = f"FROM entries WHERE seen < :before {'AND posted' if posted else ''}"
        rows = self._read_rows(
            f"SELECT seen {documents} ORDER BY seen LIMIT 1 "
            f"OFFSET (SELECT COUNT(*) / 2 {documents})",
            {"before": before},
        )
        return rows[0][0] if rows else None

    def first_seen(self, after: float, before: float, *, posted: bool) -> float | None:
        rows = self._read_rows(
            "SELECT seen FROM entries WHERE seen >= :after AND seen < :before "
            f"AND substr(scope, 1, 1) <> :reserved {'AND posted' if posted else ''} "
            "ORDER BY seen LIMIT 1",
            {"after": after, "before": before, "reserved": RESERVED},
        )
        return rows[0][0] if rows else None

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        name = f"turn:{work}"
        now = time.time()

        def take(run: sqlite3.Connection) -> bool:
            rows = self._fetch_rows("SELECT value FROM meta WHERE name = ?", (name,))
            last, until = json.loads(rows[0][0]) if rows else (holder, 0.0)
            # a turn that ends too late was taken by a process with a wrong clock
            if last != holder and now < until <= now + MOST_TURN:
                return False
            run.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                (name, json.dumps([holder, now + seconds])),
            )
            return True

        return self._write(take)

    def log_end(self) -> int:
        return int(self._read_rows(f"SELECT {LAST_LINE}")[0][0])

    def events(self, after: int | None = None) -> Iterator[Event]:
        last = after or 0
        query = (
            f"SELECT kind, scope, id, into_id, at, number FROM events WHERE number > :last "
            f"ORDER BY number LIMIT {LOG_PORTION}"
        )
        while rows := self._read_rows(query, {"last": last}):
            last = rows[-1][-1]
            yield from (Event.of_row(*row[:-1]) for row in rows)

    def log_lines(self, after: int, limit: int) -> LogPortion:
        def read(run: sqlite3.Connection) -> LogPortion:
            end = self._fetch_rows(f"SELECT {LAST_LINE}")[0][0]
            return self._read_lines(run, after, end, limit)

        return self._read(read)

    def counts(self) -> dict[str, int]:
        def count(_: sqlite3.Connection) -> dict[str, int]:
            self._learn_steps()
            records, leaders = self._number("records"), self._number("leaders")
            pages, size = (
                self._fetch_rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "page_size")
            )
            return {
                "records": records,
                "leaders": leaders,
                "postings": self.table.postings,
                "evicted": self.table.evicted,
                "bytes": pages * size,
                "bucket_bytes": self.table.nbytes,
            }

        return self._read(count)

    @property
    def durability(self) -> str:
        if int(self._read_rows("PRAGMA synchronous")[0][0]) >= FULL_SYNC:
            return "synced before it is acknowledged: survives a power cut"
        return "survives the end of the process; a power cut may lose the last acknowledged steps"

    def close(self) -> None:
        with self._lock:
            self._is_lost = False
            self._db.close()


def _append_rows(table: BucketTable, rows: Sequence[Any]) -> None:
    """Appends the postings of rows (ref, leads, size, keys) to buckets."""
    words = [posting_of(ref, size, leads=leads) for ref, leads, size, _ in rows]
    # kernels are compiled for arrays that may be written, so bytes would need another compilation
    keys = np.frombuffer(bytearray().join(row[3] for row in rows), np.uint64)
    # documents of an index of texts and vectors have different numbers of keys
    counts = [len(row[3]) // KEY_BYTES for row in rows]
    table.append_all(keys, np.repeat(np.array(words, np.int64), counts))


def _among(column: str, values: Sequence[int] | Sequence[str]) -> Condition:
    """Returns the condition that the value of a column is among some values."""
    if len(values) == 1:
        # most reads are of one document, and a table of one value takes as long as reading it
        return Condition(f"{column} = :{column}", {column: values[0]})
    among = f"{column} IN (SELECT value FROM json_each(:{column}))"
    return Condition(among, {column: json.dumps(values)})


def _count_keys(rows: Sequence[Any]) -> int:
    """Returns the number of band keys of rows (ref, leads, size, keys)."""
    return sum(len(row[3]) for row in rows) // KEY_BYTES
