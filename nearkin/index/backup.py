"""The backup of an index in SQLite while others write to it, and its restoration.

SQLite copies the pages of a file in one read transaction (its online backup API). With a
write-ahead log no writer waits for that. So the copy is the index as it was after one step. It is
one file, without a log.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from nearkin.errors import IncompatibleError, StoreError, UsageError
from nearkin.index.history import SECRET
from nearkin.index.maintenance import check_resolutions
from nearkin.index.migration.state import MOVED
from nearkin.index.opening import read_header
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.sqlite import SqliteStore, connect_file, file_of, sqlite_errors
from nearkin.index.stores.urls import SCHEMES, scheme_of
from nearkin.runtime.files import create_exclusively
from nearkin.runtime.outputs import RESULT, claimed
from nearkin.runtime.setting_names import name_flag

REASONS = {
    "memory": "it ends with its process",
    "redis": "Redis has its append-only file and BGSAVE",
    "rediss": "Redis has its append-only file and BGSAVE",
    "postgresql": "PostgreSQL has pg_dump and base backups",
    "postgres": "PostgreSQL has pg_dump and base backups",
}
"""The reasons why stores other than SQLite are not backed up here, by scheme."""
LOGS = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps beside a file."""
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True)
class BackupResult:
    """A copy that was written and verified.

    Attributes:
        path: Path of the copy.
        documents: Number of documents in it.
        clusters: Number of clusters in it.
        bytes: Size of the file, in bytes.
        key_id: Id of the secret key that the index is hashed with, or None. The key is not in it.
    """

    path: Path
    documents: int
    clusters: int
    bytes: int
    key_id: str | None

    def to_dict(self) -> dict[str, object]:
        """Returns the result as values that JSON can hold."""
        return {**asdict(self), "path": str(self.path)}


def backup(url: str, out: Path) -> BackupResult:
    """Copies an index while it is in use. An existing file is replaced completely or not at all."""
    return _put_copy(_sqlite_file(url), out, "nearkin index backup")


def restore(source: Path, url: str, *, overwrite: bool = False) -> BackupResult:
    """Copies a backup to the place from which an index is opened."""
    target = _sqlite_file(url)
    if target.exists() and not overwrite:
        raise UsageError(
            f"{target} exists; replace it with {name_flag('overwrite')}, or restore to another file"
        )
    return _put_copy(source, target, "nearkin index restore")


def _put_copy(source: Path, target: Path, command: str) -> BackupResult:
    """Puts a verified copy of an index under a name, in place of the index that is there.

    The log of the replaced index is deleted, because SQLite would apply it to the copy. The copy is
    made in the work folder of the target, so that the next command deletes what a killed one left.
    """
    if target.is_symlink():
        # SQLite opens the file that the link names, and keeps its log beside that file
        target = target.resolve()
    if not source.is_file():
        raise UsageError(f"no such file: {source}")
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the index itself")
    with (
        sqlite_errors(target),
        _exclusive_access(target),
        claimed(target, command, replaces=True) as claim,
    ):
        staging = claim.path / RESULT
        result = _copy_index(source, staging, target)
        for suffix in LOGS:
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        claim.publish_file(staging)
    return result


def _sqlite_file(url: str) -> Path:
    """Returns the path of an index in SQLite."""
    scheme = scheme_of(url)
    if scheme == "sqlite" and "," not in url:
        return file_of(url)
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme or 'a URL without a scheme'!r} is not a kind of store that can be backed up; "
            "give sqlite:///file.db"
        )
    reason = REASONS.get(scheme, "shards that are copied one by one are not of one moment")
    raise UsageError(
        f"only one sqlite:///file.db can be backed up, this is {scheme}://: {reason}; nearkin "
        "index export writes any index as parquet, and nearkin index migrate "
        "copies it into another store"
    )


def _copy_index(source: Path, staging: Path, path: Path) -> BackupResult:
    """Copies an index to `staging`, verifies the copy, and describes it as the file `path`."""
    os.close(create_exclusively(staging, source.stat().st_mode & 0o777))
    with (
        closing(connect_file(source, "ro")) as original,
        closing(connect_file(staging, "rw")) as copy,
    ):
        _require_index(original, source)
        original.backup(copy)
    result = _verify_copy(source, staging, path)
    with closing(connect_file(staging, "rw")) as copy:
        # other changes than those of the original will follow, so cursors of its log are not valid
        copy.execute("DELETE FROM meta WHERE name = ?", (SECRET,))
        copy.execute("PRAGMA journal_mode = DELETE")
    return result


def is_index_file(path: Path) -> bool:
    """Returns True if a file is an index in SQLite, or a backup of one."""
    with path.open("rb") as file:
        if not file.read(16).startswith(b"SQLite format 3"):
            return False
    with closing(connect_file(path, "ro")) as db:
        try:
            _require_index(db, path)
        except (UsageError, sqlite3.DatabaseError):
            return False
    return True


def _require_index(db: sqlite3.Connection, path: Path) -> None:
    """Verifies that a file is an index. To open it as a store would create one."""
    try:
        header = db.execute("SELECT value FROM meta WHERE name = 'header'").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in LOCKED:
            raise
        raise UsageError(f"{path} is not an index: {error}") from error
    if header is None:
        raise UsageError(f"{path} is not an index: it has no header")


def _verify_copy(source: Path, staging: Path, path: Path) -> BackupResult:
    """Verifies the pages, rows and clusters of a copy. Buckets are not verified."""
    with closing(connect_file(staging, "rw")) as db:
        page_check = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if page_check != "ok":
        raise StoreError(
            f"{source} is damaged, so that its copy would be, too: {page_check}; restore an older "
            "one"
        )
    with closing(SqliteStore(staging, IndexSettings().bucket_capacity)) as store:
        migration = store.state().migration
        if migration.phase == MOVED:
            raise IncompatibleError(
                f"{source} has moved to {', '.join(migration.urls)}; back that store up instead"
            )
        report = check_resolutions(store)
        if not report.sound:
            problems = "; ".join(
                " ".join(filter(None, (problem.scope, problem.id, problem.what)))
                for problem in report.problems[:3]
            )
            raise StoreError(
                f"{source} is not sound, {report.found:,} problems: {problems}; run nearkin index "
                "check for all of them"
            )
        key_id = read_header(store)["spec"].get("key_id")
        clusters = store.counts()["leaders"]
    return BackupResult(
        path=path,
        documents=report.records,
        clusters=clusters,
        bytes=staging.stat().st_size,
        key_id=None if key_id is None else str(key_id),
    )


@contextmanager
def _exclusive_access(path: Path) -> Iterator[None]:
    """Makes sure that no other process has an index open, and that none opens it meanwhile.

    A process that has a file with a write-ahead log open holds a lock on it, so that the log cannot
    be turned off.
    """
    if not path.exists():
        yield
        return
    with closing(connect_file(path, "rw")) as db:
        try:
            db.execute("PRAGMA busy_timeout = 0")
            mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            # a damaged file may be replaced; it is unknown if another process has it open
            mode = "wal" if error.sqlite_errorcode in LOCKED else "delete"
        if mode == "wal":
            raise UsageError(
                f"{path} is open in another process; stop that process before its index is replaced"
            )
        yield
