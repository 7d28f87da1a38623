"""How kernels are compiled and where their machine code is cached.

Numba's own cache looks at the file of the compiled function alone: an edited callee in another file would leave stale
machine code behind, silently wrong. Here the cache folder is named by a hash of *all* kernel sources, the versions and the
compile mode (Numba adds the CPU to each entry), so any edit starts an empty folder.
"""

import atexit
import hashlib
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import llvmlite
import numba
from numba import njit
from numba.core import caching, config

Function = TypeVar("Function", bound=Callable[..., Any])

KERNEL_FILES = ("kernels.py", "jit.py")
PACKAGE = Path(__file__).parent


def source_hash() -> str:
    """Hash over every kernel source, the compiler's versions and its mode: the name of the cache folder."""
    digest = hashlib.sha256()
    for path in sorted(p for p in PACKAGE.rglob("*.py") if p.name in KERNEL_FILES):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    mode = (numba.__version__, llvmlite.__version__, platform.python_version(), config.BOUNDSCHECK, config.OPT)
    digest.update(repr(mode).encode())
    return digest.hexdigest()[:16]


def user_folder() -> Path | None:
    """NEARKIN_CACHE_DIR, else the user's cache folder; None where there is neither (no HOME)."""
    if named := os.environ.get("NEARKIN_CACHE_DIR"):
        return Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "nearkin"
    home = os.environ.get("HOME") or os.environ.get("LOCALAPPDATA")
    return Path(home) / ".cache" / "nearkin" if home else None


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private(folder: Path) -> bool:
    """Whether nobody else can write there: cached machine code is loaded and run."""
    status = folder.lstat()
    own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and own and not status.st_mode & 0o022


def _temporary_folder(name: str) -> Path:
    """A folder shared by this user's processes, or one of this process alone if somebody else owns that name."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    shared = Path(tempfile.gettempdir()) / f"nearkin-jit-{user}"
    if _writable(shared) and _private(shared):
        return shared / name
    alone = Path(tempfile.mkdtemp(prefix="nearkin-jit-"))
    atexit.register(shutil.rmtree, alone, ignore_errors=True)
    return alone


@cache
def cache_folder() -> Path:
    """Where this process keeps compiled kernels."""
    name = source_hash()
    user = user_folder()
    if user is not None and _writable(user / name):
        return user / name
    return _temporary_folder(name)


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """Tells Numba to use `cache_folder`; staleness is the folder's name, so the stamp of a file is constant."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._unit = f"{Path(path).parent.name}.{function.__qualname__}"

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return cache_folder().name

    def get_disambiguator(self) -> str:
        return hashlib.sha256(self._unit.encode()).hexdigest()[:10]

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> "_Locator":
        return cls(function, path)


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_Locator]


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation


def kernel(function: Function) -> Function:
    """Compiles a function over arrays with Numba at its first call: without the GIL, cached, never parallel inside."""
    return _compiled(function, forceinline=False)


def inlined(function: Function) -> Function:
    """As `kernel`, for functions so short that a call, which hands arrays over word by word, would cost more than they do."""
    return _compiled(function, forceinline=True)


def _compiled(function: Function, forceinline: bool) -> Function:
    compiled: Any = njit(nogil=True, error_model="numpy", forceinline=forceinline)(function)
    if not config.DISABLE_JIT:
        compiled._cache = _KernelCache(function)
    return compiled
