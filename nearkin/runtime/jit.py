"""The compilation of kernels, and the cache of their machine code.

Numba's cache checks only the file of the compiled function. After a change of a callee in another
file, it would use outdated machine code. Here the cache folder is named by a hash of *all* kernel
sources, the versions and the compile mode (Numba adds the CPU to each entry), so any edit starts an
empty folder. Machine code that is installed with nearkin comes before the cache: see
`installed_code`.
"""

import errno
import hashlib
import io
import itertools
import os
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import llvmlite
import numba
from numba import njit
from numba.core import caching, config, event
from numba.core.bytecode import FunctionIdentity
from numba.core.runtime import rtsys

from nearkin.runtime.cache_folder import find_cache_folder
from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.environment import check_numba_settings
from nearkin.runtime.installed_code import PACKAGE, find_installed_code, read_machine_code

check_numba_settings()

Function = TypeVar("Function", bound=Callable[..., Any])

KERNEL_FILES = ("kernels.py", "jit.py")
CHECKSUM_BYTES = 4


@cache
def source_hash() -> str:
    """Returns a hash of all kernel sources, the versions of the compiler and its mode.

    It is the name of the cache folder, and a part of the name of a folder of installed code. As for
    Numba, all releases of a minor version of Python are the same.
    """
    digest = hashlib.sha256()
    for path in sorted(p for p in PACKAGE.rglob("*.py") if p.name in KERNEL_FILES):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    mode = (
        numba.__version__,
        llvmlite.__version__,
        sys.implementation.cache_tag,
        config.BOUNDSCHECK,
        config.OPT,
    )
    digest.update(repr(mode).encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path | None:
    """Returns the folder of compiled kernels, or None if no folder can be trusted.

    Without a folder, kernels are compiled by each process.
    """
    return find_cache_folder(source_hash(), "compiled kernels")


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


class _CheckedFiles(caching.IndexDataCacheFile):  # type: ignore[misc]
    """The files of a kernel, each with its checksum. A damaged one counts as missing.

    Numba would end the process, or run the machine code of a damaged file. Its readers ignore what
    follows a pickled value, so the checksum is behind it.
    """

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue())
            file.write(_checksum(content.getvalue()))

    def _load_index(self) -> dict[Any, str]:
        path = Path(self._index_path)
        return super()._load_index() if not path.exists() or _is_whole(path) else {}

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))
        if not _is_whole(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super()._load_data(name)


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")


def _is_whole(path: Path) -> bool:
    """Returns whether a file ends with its checksum."""
    content = path.read_bytes()
    return _checksum(content[:-CHECKSUM_BYTES]) == content[-CHECKSUM_BYTES:]


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

        if cache_folder() is None:
            self.disable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Loads the machine code of a kernel.

        Numba would first register the typing and the lowering of all functions that it can compile,
        which takes as long as importing Numba. Machine code needs only the functions of the
        runtime, which allocate arrays. If a kernel is compiled, the compiler registers the rest.
        """
        rtsys.initialize(target_context)
        installed = find_installed_code(source_hash())
        code = read_machine_code(installed, self._py_func, sig)
        if code is not None:
            return self._impl.rebuild(target_context, pickle.loads(code))
        return self._load_overload(sig, target_context)

    def has_overload(self, sig: Any, target_context: Any) -> bool:
        """Returns whether the machine code of a kernel is installed, or in the cache."""
        installed = find_installed_code(source_hash())
        if read_machine_code(installed, self._py_func, sig) is not None:
            return True
        key = self._index_key(sig, target_context.codegen())
        return self._enabled and self._cache_file.load(key) is not None


class _CompilationEvents(event.Listener):  # type: ignore[misc]
    """A listener that forwards the compilations of Numba. Loading from the cache is not one."""

    def on_start(self, event: event.Event) -> None:
        COMPILATION.start(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: event.Event) -> None:
        COMPILATION.finish()


event.register("numba:compile", _CompilationEvents())


def _number_functions_anew() -> None:
    """Lets the numbers of functions that Numba compiles begin at a random one.

    Numba names machine code by the name, the types and the number of a function. The closures of
    `numpy.sort` and `numpy.argsort` differ in the number alone. If every process began at 1, two
    processes could give it to one closure each, and a third one that loads the machine code of both
    from the cache would run one for the other.
    """
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(7), "little"))


_number_functions_anew()
os.register_at_fork(after_in_child=_number_functions_anew)


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
    # nobody calls kernels from C, and the functions for that would take long to compile
    compiled: Any = njit(
        nogil=True, error_model="numpy", forceinline=forceinline, no_cfunc_wrapper=True
    )(function)
    if not config.DISABLE_JIT:
        compiled._cache = _KernelCache(function)
    return compiled
