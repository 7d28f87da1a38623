"""The imports of commands that work on files."""

from collections.abc import Iterator
from contextlib import contextmanager

from nearkin.cli.command_line import OWNS_PROCESS
from nearkin.runtime.loading import (
    hide_libraries_from_numba,
    load_arrow_without_pandas,
    paused_collector,
)


@contextmanager
def file_imports() -> Iterator[None]:
    """Imports the modules of a command that never handles a data frame.

    If the process belongs to the command, Arrow does not import pandas, and Numba imports
    neither SciPy nor coverage. A caller of `nearkin.cli.app.run` may use them afterwards, so
    nothing is hidden from it.
    """
    with paused_collector():
        if OWNS_PROCESS.get():
            hide_libraries_from_numba()
            load_arrow_without_pandas()
        yield
