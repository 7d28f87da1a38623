"""Durable and private files.

A rename is durable only after three steps in this order: the data of the new file is synced, the
file is renamed, the folder is synced (T. S. Pillai et al., "All File Systems Are Not Created
Equal", OSDI 2014, section 4).
"""

import errno
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from threading import get_native_id
from typing import IO, Any, BinaryIO
from uuid import uuid4

from nearkin.errors import RunError, UsageError
from nearkin.runtime.suggestions import require_choice

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
SHARED_FILE = 0o644
READABLE_BY = "NEARKIN_READABLE_BY"
"""The environment variable that says who may read what commands write."""
COPIED_AT_ONCE = 1 << 20
"""The number of bytes that are copied between files at a time."""
SYNCED_AT_ONCE = 8
"""The number of files that are synced in parallel."""
FREE_SPACE = "Free some space"
RAISE_FILES = "Raise the limit of open files (ulimit -n)"
FIX_PERMISSIONS = "Fix the permissions"
DISK_REMEDIES = {
    errno.ENOSPC: FREE_SPACE,
    errno.EDQUOT: FREE_SPACE,
    errno.EMFILE: RAISE_FILES,
    errno.ENFILE: RAISE_FILES,
    errno.EACCES: FIX_PERMISSIONS,
    errno.EPERM: FIX_PERMISSIONS,
    errno.EROFS: FIX_PERMISSIONS,
}
"""What to do about failures to write, by their numbers."""


class Readers(Enum):
    """The users who can read the output of a run. Only the owner can read its work folder."""

    OWNER = "owner"
    GROUP = "group"
    EVERYONE = "everyone"

    @classmethod
    def parse(cls, name: str) -> "Readers":
        """Returns the readers that a name stands for."""
        require_choice("readable_by", name, (reader.value for reader in cls))
        return cls(name)

    @property
    def umask(self) -> int:
        """The umask with which new files have these readers."""
        return {Readers.OWNER: 0o077, Readers.GROUP: 0o027, Readers.EVERYONE: 0o022}[self]

    @property
    def file_mode(self) -> int:
        """The permissions of a file."""
        return 0o666 & ~self.umask

    @property
    def folder_mode(self) -> int:
        """The permissions of a folder."""
        return 0o777 & ~self.umask


def restrict_new_files(readable_by: str) -> str:
    """Sets who may read the files that this process writes from now on."""
    os.umask(Readers.parse(readable_by).umask)
    return readable_by


def set_readers(path: Path, readers: Readers) -> None:
    """Sets the permissions of a file, or of a folder and everything in it."""
    if not path.is_dir():
        path.chmod(readers.file_mode)
        return
    for parent, _, names in os.walk(path):
        for name in names:
            file = Path(parent, name)
            if not file.is_symlink():
                file.chmod(readers.file_mode)
        Path(parent).chmod(readers.folder_mode)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raises RunError for a failure to write. The message names the folder and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Free some space or fix the permissions")
        raise RunError(
            f"cannot write in {folder}: {error.strerror or error}. {remedy}, then run the same "
            "command again"
        ) from error


def reserve_blocks(file: IO[bytes], size: int) -> None:
    """Gives a file its size, and reserves the blocks if the system can do that.

    A process that writes to a mapped file without reserved blocks is ended by SIGBUS if the disk is
    full.

    Args:
        size: Number of bytes.
    """
    if hasattr(os, "posix_fallocate") and size:
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def write_at(file: IO[bytes], content: memoryview, position: int) -> None:
    """Writes bytes at a position of an open file without a buffer. Threads may share the file."""
    left = content.cast("B") if content.nbytes else memoryview(b"")
    while left:
        written = os.pwrite(file.fileno(), left, position)
        left = left[written:]
        position += written


def copy_bytes(source: IO[bytes], target: IO[bytes], count: int) -> None:
    """Copies bytes from the position of an open file to that of another one."""
    while count:
        content = source.read(min(count, COPIED_AT_ONCE))
        if not content:
            raise OSError(f"{source.name} ended {count} bytes too early")
        target.write(content)
        count -= len(content)


def to_json(value: Any) -> bytes:
    """Returns readable JSON with sorted keys, so that equal values are equal bytes.

    Paths that are not UTF-8 become JSON escapes, from which `json.loads` restores them.
    """
    # The command line imports this module at its start, and needs no JSON for help.
    import json

    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, after files were created, renamed or deleted in it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(folder: Path) -> list[Path]:
    """Creates a folder and its missing parents, and makes their names durable."""
    missing = []
    for parent in (folder, *folder.parents):
        if os.path.lexists(parent):
            break
        missing.append(parent)
    folder.mkdir(parents=True, exist_ok=True)
    for created in reversed(missing):
        sync_folder(created.parent)
    return missing


def rename_to_delete(folder: Path) -> Path:
    """Renames a folder, so that other processes create no files in it while it is deleted.

    Returns:
        The new path, which does not exist if the folder did not.
    """
    renamed = folder.with_name(f".{uuid4().hex}")
    with suppress(FileNotFoundError):
        folder.rename(renamed)
    return renamed


def delete_shared_folder(folder: Path) -> None:
    """Deletes a folder, if it exists, to which other processes may still write."""
    shutil.rmtree(rename_to_delete(folder), ignore_errors=True)


def sync_file(path: Path) -> None:
    """Makes the content of a file durable. Its name is made durable by `sync_folder`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_files(paths: Sequence[Path]) -> None:
    """Makes the content of files durable, several at a time so that the disk waits only once."""
    if len(paths) < 2:
        for path in paths:
            sync_file(path)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(SYNCED_AT_ONCE, "nearkin-sync") as pool:
        for _ in pool.map(sync_file, paths):
            pass


def sync_tree(folder: Path) -> None:
    """Makes a folder and everything in it durable: first the content of files, then the names."""
    files: list[Path] = []
    folders: list[Path] = []
    for parent, _, names in os.walk(folder, topdown=False):
        paths = (Path(parent, name) for name in names)
        files.extend(path for path in paths if path.is_file() and not path.is_symlink())
        folders.append(Path(parent))
    sync_files(files)
    for path in folders:
        sync_folder(path)


def replace_durably(staged: Path, target: Path) -> None:
    """Renames a file or folder and makes the new name durable."""
    staged.replace(target)
    sync_folder(target.parent)
    if staged.parent != target.parent:
        sync_folder(staged.parent)


def create_exclusively(path: Path, mode: int) -> int:
    """Creates a file, and deletes one that a killed process left at the path.

    Links are never followed.
    """
    with suppress(FileNotFoundError):
        # A killed process with the same process id may have left it.
        path.unlink()
    # O_EXCL never follows a link and never opens a file that another process has created.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


def staging_name(path: Path) -> str:
    """Returns the name of a file that this thread writes before it replaces another one.

    The threads of all processes of a machine have different numbers, so that none of them writes
    into the file of another one. Containers that share a folder may number their threads equally,
    but have names of their own.
    """
    machine = zlib.crc32(os.uname().nodename.encode("utf-8", "surrogateescape"))
    return f".{path.name}.{machine:08x}-{get_native_id()}"


def require_file_path(path: Path) -> None:
    """Requires a path where a file can be created or replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}; create it first")


@contextmanager
def replacing_durably(path: Path, mode: int = SHARED_FILE) -> Iterator[BinaryIO]:
    """Yields a file to write to, which replaces `path` if the body ends without an error."""
    staged = path.with_name(f"{staging_name(path)}.tmp")
    handle = create_exclusively(staged, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        replace_durably(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes, mode: int = SHARED_FILE) -> None:
    """Writes a file that is complete or absent after a kill and after a power cut."""
    with replacing_durably(path, mode) as file:
        file.write(data)
