"""The folders of code that nearkin has compiled, which only this user can change."""

import errno
import os
import stat
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

NAMED = "NEARKIN_CACHE_DIR"
TRUSTED = "NEARKIN_CACHE_TRUSTED"
"""The variable that declares that no other user can reach the folder NEARKIN_CACHE_DIR.

For example, volumes of a Kubernetes pod are writable by everybody, but only the pod can reach them.
"""
MAX_LINKS = 40
"""The largest number of symbolic links that are followed, as in the Linux kernel."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS_MAY_ENTER = 0o077


def user_folder() -> Path | None:
    """Returns NEARKIN_CACHE_DIR or the cache folder of the user, or None if there is no HOME."""
    if named := os.environ.get(NAMED):
        return Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "nearkin"
    home = os.environ.get("HOME") or os.environ.get("LOCALAPPDATA")
    return Path(home) / ".cache" / "nearkin" if home else None


class UntrustedFolderError(Exception):
    """An error: another user can change a folder whose content would be run in this process."""


def trusted_folder(folder: Path, *, verify_above: bool = True) -> Path:
    """Returns the resolved path of a private cache folder, which is created if needed.

    Numba's index files are pickles, so whoever can write one runs code in this process. Every
    folder and every symbolic link on the way must belong to this user or to root, and no folder may
    be writable by others unless it is sticky. Each part is verified before the next one is looked
    up; another user can therefore not exchange a part after it was verified.
    """
    user = os.getuid()
    absolute = Path.cwd() / folder
    current = Path(absolute.anchor)
    pending = list(absolute.parts[1:])
    links = 0
    if verify_above:
        _require_unchangeable(current, current.lstat(), user)
    while pending:
        part = pending.pop(0)
        if part == "..":
            current = current.parent
            continue
        child = current / part
        status = _found_or_created(child)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(child))
            if verify_above:
                _require_owner(child, status, user)
            target = child.readlink()
            pending = [*target.parts[1 if target.is_absolute() else 0 :], *pending]
            current = Path(target.anchor) if target.is_absolute() else current
            continue
        if verify_above:
            _require_unchangeable(child, status, user)
        current = child
    _require_private(current, user)
    with tempfile.TemporaryFile(dir=current):
        return current


def _found_or_created(folder: Path) -> os.stat_result:
    with suppress(FileNotFoundError):
        return folder.lstat()
    with suppress(
        FileExistsError
    ):  # another process was faster; what it made is verified like everything else
        folder.mkdir(mode=0o700)
    return folder.lstat()


def _require_owner(path: Path, status: os.stat_result, user: int) -> None:
    if status.st_uid not in (0, user):
        raise UntrustedFolderError(
            f"{path} belongs to user {status.st_uid}, neither to user {user} nor to root"
        )


def _require_unchangeable(folder: Path, status: os.stat_result, user: int) -> None:
    """Verifies that other users cannot replace the files of this user and of root in a folder."""
    _require_owner(folder, status, user)
    if status.st_mode & OTHERS_MAY_WRITE and not status.st_mode & stat.S_ISVTX:
        raise UntrustedFolderError(f"{folder} is writable by other users")


def _require_private(folder: Path, user: int) -> None:
    """Verifies that nobody else has written, or can write, the files of a folder."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if status.st_uid != user:
        raise UntrustedFolderError(f"{folder} belongs to user {status.st_uid}, not to user {user}")
    if status.st_mode & OTHERS_MAY_WRITE:
        raise UntrustedFolderError(f"{folder} is writable by other users")
    for path in folder.iterdir():
        try:
            file_status = path.lstat()
        except FileNotFoundError:  # another process of this user has renamed it
            continue
        if file_status.st_uid != user or stat.S_ISLNK(file_status.st_mode):
            raise UntrustedFolderError(f"{path} was made by another user, or is a symbolic link")
        if status.st_mode & OTHERS_MAY_ENTER and file_status.st_mode & OTHERS_MAY_WRITE:
            raise UntrustedFolderError(f"{path} is writable by other users")


def _user_id() -> int | str:
    return os.getuid() if hasattr(os, "getuid") else "user"


@cache
def find_cache_folder(name: str, kept: str = "") -> Path | None:
    """Returns a folder that only this user can change, or None if no folder can be trusted.

    A folder inside that of the user comes first, then one of the user in the system's temporary
    folder.
    """
    candidates = [Path(tempfile.gettempdir()) / f"nearkin-jit-{_user_id()}" / name]
    if (chosen := user_folder()) is not None:
        candidates.insert(0, chosen / name)
    for folder in candidates:
        try:
            if hasattr(os, "getuid"):
                return trusted_folder(
                    folder, verify_above=not (os.environ.get(TRUSTED) and os.environ.get(NAMED))
                )
            folder.mkdir(parents=True, exist_ok=True)
        except UntrustedFolderError as error:
            if kept:
                warnings.warn(
                    f"{kept} are not kept in {folder}: {error}. Cached code is run, so fix the "
                    "owner and the mode, or name another folder in NEARKIN_CACHE_DIR",
                    RuntimeWarning,
                    stacklevel=2,
                )
        except OSError:
            continue
        else:
            return folder
    return None
