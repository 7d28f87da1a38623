"""Loading of large libraries: without garbage collections and without what no kernel needs."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

LARGE = "numba"
"""A library that every command with kernels loads. If it is there, the others are too."""
PANDAS = "pandas"
UNUSED_BY_KERNELS = ("scipy", "coverage")
"""Libraries that Numba imports, if they are installed, for linear algebra and for measuring which
lines are compiled."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pauses the garbage collector while a command imports what it needs.

    Imports create several hundred thousand objects that stay until the process ends. The collector
    would walk through them again and again, which takes a tenth of the time of a small run.
    Afterwards they are exempt from collections. In a process that has loaded the libraries already,
    nothing changes.
    """
    if LARGE in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _Blocker:
    """A finder of modules that says that a library is not installed."""

    def __init__(self, library: str) -> None:
        self._library = library

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> "ModuleSpec | None":
        """Returns None, so that other finders are asked, unless the module is the library."""
        if fullname == self._library:
            raise ModuleNotFoundError(f"{fullname} is hidden from this process", name=fullname)
        return None


def load_arrow() -> None:
    """Makes Arrow import pandas, if it is installed, in this thread.

    If threads that read a file made the first arrays of a process, one of them could get a part of
    pandas, and would fail.
    """
    import pyarrow as pa

    pa.array([0])


def load_arrow_without_pandas() -> None:
    """Imports Arrow so that it does not import pandas.

    Arrow imports pandas, if it is installed, when it makes its first array, to recognize data
    frames. This takes a quarter of the time of a small run. It looks for pandas only once in a
    process. Afterwards, it can neither read nor make a data frame, although pandas itself can be
    imported. In a process that has imported pandas already, nothing changes.
    """
    if PANDAS in sys.modules:
        return
    blocker = _Blocker(PANDAS)
    sys.meta_path.insert(0, blocker)
    try:
        load_arrow()
    finally:
        sys.meta_path.remove(blocker)


def hide_libraries_from_numba() -> None:
    """Hides the libraries that no kernel needs from this process, unless they are imported already.

    Numba imports SciPy again when it loads compiled kernels, so they stay hidden.
    """
    for library in UNUSED_BY_KERNELS:
        if library not in sys.modules:
            sys.meta_path.insert(0, _Blocker(library))
