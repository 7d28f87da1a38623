"""Copies of the embedded store while others write to it, and the way back.

SQLite copies a file's pages under one read transaction (its online backup API), and where there is a write-ahead log no writer
waits for that; so the copy is the index as it was after one step. The copy has no log beside it: it is one file.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nearkin.errors import IncompatibleError, StoreError, UsageError
from nearkin.index.maintenance import check_resolutions
from nearkin.index.migration.state import MOVED
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.sqlite import SqliteStore, file_of, sqlite_errors
from nearkin.index.stores.urls import SCHEMES, scheme_of
from nearkin.runtime.files import create_exclusively, make_folders, replace_durably, sync_file
from nearkin.runtime.outputs import require_outside_work_folders

OWN_TOOLS = {
    "memory": "it is gone with its process",
    "redis": "Redis has its append-only file and BGSAVE",
    "rediss": "Redis has its append-only file and BGSAVE",
    "postgresql": "PostgreSQL has pg_dump and base backups",
    "postgres": "PostgreSQL has pg_dump and base backups",
}
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True)
class Copied:
    """A copy that was written and looked through.

    Attributes:
        path: Of the copy.
        documents: In it.
        clusters: Their clusters.
        bytes: Of the file.
        key_id: Of the secret key that it is hashed with, which is not in it; None where there is none.
    """

    path: Path
    documents: int
    clusters: int
    bytes: int
    key_id: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "path": str(self.path)}


def backup(url: str, out: Path) -> Copied:
    """Copies an index while it is in use; an existing file is replaced, whole or not at all.

    Args:
        url: `sqlite:///file.db`.
        out: The copy.

    Raises:
        UsageError: The store is of another kind, is not there, or has moved elsewhere.
        StoreError: It cannot be read, or the copy not be written.
    """
    source = _embedded(url)
    if out.exists() and out.samefile(source):
        raise UsageError(f"{out} is the index itself")
    require_outside_work_folders(out)
    with _staged(out) as staging:
        return _copied(source, staging, out)


def restore(source: Path, url: str, overwrite: bool = False) -> Copied:
    """Puts a backup where an index is opened from.

    Args:
        source: What `backup` wrote.
        url: `sqlite:///file.db`.
        overwrite: Replace an index that is there.

    Raises:
        UsageError: The backup is none, or an index is there that must not be replaced, or that another process has open.
        StoreError: The index cannot be written.
    """
    target = _embedded(url, there=False)
    if not source.is_file():
        raise UsageError(f"no such file: {source}")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists; replace it with --overwrite, or restore to another file")
    if target.exists() and target.samefile(source):
        raise UsageError(f"{source} is the index itself")
    with _alone(target), _staged(target) as staging:
        found = _copied(source, staging, target)
        # the log of what is replaced would be played into what replaces it
        for beside in ("-wal", "-shm", "-journal"):
            target.with_name(target.name + beside).unlink(missing_ok=True)
    return found


def _embedded(url: str, there: bool = True) -> Path:
    scheme = scheme_of(url)
    if scheme == "sqlite" and "," not in url:
        path = file_of(url)
        if there and not path.is_file():
            raise UsageError(f"no such file: {path}")
        return path
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme or 'a URL without a scheme'!r} is not a kind of store that can be backed up; give sqlite:///file.db"
        )
    why = OWN_TOOLS.get(scheme, "shards that are copied one by one are not of one moment")
    raise UsageError(
        f"backups are of one sqlite:///file.db, this is {scheme}://: {why}; nearkin index export writes any index as parquet, "
        "nearkin index migrate copies it into another store"
    )


@contextmanager
def _staged(path: Path) -> Iterator[Path]:
    """A file that takes the place of `path` when the body is through; nothing is left of it otherwise."""
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    with sqlite_errors(path):
        try:
            make_folders(path.parent)
            yield staging
            sync_file(staging)
            replace_durably(staging, path)
        finally:
            for beside in ("", "-wal", "-shm", "-journal"):
                staging.with_name(staging.name + beside).unlink(missing_ok=True)


def _copied(source: Path, staging: Path, path: Path) -> Copied:
    """Copies, and looks through the copy."""
    os.close(create_exclusively(staging, source.stat().st_mode & 0o777))
    with closing(_connect(source, "ro")) as there, closing(_connect(staging, "rw")) as copy:
        _require_index(there, source)
        there.backup(copy)
    found = _looked_through(source, staging, path)
    with closing(_connect(staging, "rw")) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")
    return found


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=30.0, isolation_level=None)


def is_index_file(path: Path) -> bool:
    """Returns whether a file is an index, or a copy of one."""
    with path.open("rb") as file:
        if not file.read(16).startswith(b"SQLite format 3"):
            return False
    with closing(_connect(path, "ro")) as db:
        try:
            _require_index(db, path)
        except (UsageError, sqlite3.DatabaseError):
            return False
    return True


def _require_index(db: sqlite3.Connection, path: Path) -> None:
    """Opening a file as a store would make one of what is none."""
    try:
        held = db.execute("SELECT value FROM meta WHERE name = 'header'").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in LOCKED:
            raise
        raise UsageError(f"{path} is no index: {error}") from error
    if held is None:
        raise UsageError(f"{path} is no index: it was never opened as one")


def _looked_through(source: Path, staging: Path, path: Path) -> Copied:
    """Whether pages, rows and clusters are as they should be; what keys and buckets hold is `check`'s."""
    with closing(_connect(staging, "rw")) as db:
        said = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        raise StoreError(f"{source} is damaged, and so would be its copy: {said}; restore an older one")
    with closing(SqliteStore(staging, IndexSettings().bucket_capacity)) as store:
        move = store.state().move
        if move.phase == MOVED:
            raise IncompatibleError(f"{source} has moved to {', '.join(move.urls)}: back that up")
        checked = check_resolutions(store)
        if not checked.sound:
            found = "; ".join(" ".join(filter(None, (one.scope, one.id, one.what))) for one in checked.problems[:3])
            raise StoreError(f"{source} is not sound, {checked.found:,} problems: {found}; nearkin index check shows more")
        header, counts = store.claim({}), store.counts()
    return Copied(path, checked.records, counts["leaders"], staging.stat().st_size, header["spec"].get("key_id"))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """That no other process has an index open; it cannot be opened meanwhile.

    A process that has a file with a write-ahead log open holds a lock on it, so the log cannot be put away.
    """
    if not path.exists():
        yield
        return
    with closing(_connect(path, "rw")) as db:
        try:
            db.execute("PRAGMA busy_timeout = 0")
            mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            # a damaged file is what one restores over; whether somebody has that open cannot be known
            mode = "wal" if error.sqlite_errorcode in LOCKED else "delete"
        if mode == "wal":
            raise UsageError(f"{path} is open in another process: stop it before its index is replaced")
        yield
