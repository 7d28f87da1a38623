"""The compilation of kernels, and the cache of their machine code.

Numba's cache checks only the file of the compiled function. After a change of a callee in another
file, it would use outdated machine code. Here the cache folder is named by a hash of *all* kernel
sources, the versions and the compile mode (Numba adds the CPU to each entry), so any edit starts an
empty folder.
"""

import errno
import hashlib
import os
import platform
import stat
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import llvmlite
import numba
from numba import njit
from numba.core import caching, config, event
from numba.core.runtime import rtsys

from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.environment import check_numba_settings

check_numba_settings()

Function = TypeVar("Function", bound=Callable[..., Any])

KERNEL_FILES = ("kernels.py", "jit.py")
PACKAGE = Path(__file__).parents[1]
NAMED = "NEARKIN_CACHE_DIR"
TRUSTED = "NEARKIN_CACHE_TRUSTED"
"""The variable that declares that no other user can reach the folder NEARKIN_CACHE_DIR.

For example, volumes of a Kubernetes pod are writable by everybody, but only the pod can reach them.
"""
MAX_LINKS = 40
"""The largest number of symbolic links that are followed, as in the Linux kernel."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS_MAY_ENTER = 0o077


@cache
def source_hash() -> str:
    """Returns a hash of all kernel sources, the versions of the compiler and its mode.

    It is the name of the cache folder.
    """
    digest = hashlib.sha256()
    for path in sorted(p for p in PACKAGE.rglob("*.py") if p.name in KERNEL_FILES):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    mode = (
        numba.__version__,
        llvmlite.__version__,
        platform.python_version(),
        config.BOUNDSCHECK,
        config.OPT,
    )
    digest.update(repr(mode).encode())
    return digest.hexdigest()[:16]


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

    Args:
        folder: The cache folder. It must belong to this user and must not be writable by others,
            sticky or not.
        verify_above: True if the folders above it are verified too. False is for volumes that only
            one container uses.

    Raises:
        UntrustedFolderError: If another user can change the folder or the way to it. The message
            names the part.
        OSError: If the folder cannot be created or entered.
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
def cache_folder() -> Path | None:
    """Returns the folder of compiled kernels, or None if no folder can be trusted.

    The user's folder comes first, then one of the user's in the system's temporary folder. Without
    either, kernels are compiled by each process.
    """
    name = source_hash()
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
            warnings.warn(
                f"compiled kernels are not kept in {folder}: {error}. Cached machine code is run, "
                f"so fix the owner and the "
                "mode, or name another folder in NEARKIN_CACHE_DIR",
                RuntimeWarning,
                stacklevel=2,
            )
        except OSError:
            continue
        else:
            return folder
    return None


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """A locator that makes Numba use `cache_folder`. The stamp of a file is constant."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._unit = f"{Path(path).parent.name}.{function.__qualname__}"
        # Numba uses both in a warning about a function that it cannot cache.
        self._py_file = path
        self._lineno = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_hash()

    def get_disambiguator(self) -> str:
        return hashlib.sha256(self._unit.encode()).hexdigest()[:10]

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> "_Locator":
        return cls(function, path)


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_Locator]


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Loads the machine code of a kernel.

        Numba would first register the typing and the lowering of all functions that it can compile,
        which takes as long as importing Numba. Machine code needs only the functions of the
        runtime, which allocate arrays. If a kernel is compiled, the compiler registers the rest.

        Args:
            sig: The types of the arguments.
            target_context: The target of the compiler.

        Returns:
            The compiled kernel, or None if it is not in the cache.
        """
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)


class _CompilationEvents(event.Listener):  # type: ignore[misc]
    """A listener that forwards the compilations of Numba. Loading from the cache is not one."""

    def on_start(self, event: event.Event) -> None:
        COMPILATION.start(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: event.Event) -> None:
        COMPILATION.finish()


event.register("numba:compile", _CompilationEvents())


def kernel(function: Function) -> Function:
    """Compiles a function over arrays with Numba at its first call.

    The compiled function releases the GIL, is cached, and does not start threads.
    """
    return _compiled(function, forceinline=False)


def inlined(function: Function) -> Function:
    """Compiles a short function, which is inlined into the kernels that call it.

    A call passes arrays word by word, which would take longer than the function.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Function, *, forceinline: bool) -> Function:
    compiled: Any = njit(nogil=True, error_model="numpy", forceinline=forceinline)(function)
    if not config.DISABLE_JIT and cache_folder() is not None:
        compiled._cache = _KernelCache(function)
    return compiled
