"""Progress of runs in notebooks: one line with a bar, which is updated in place."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nearkin.runtime.notebook_view import render_progress
from nearkin.runtime.progress import LoggedProgress, Progress

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

UPDATE_SECONDS = 0.2
"""The smallest time between two updates of the bar."""


@contextmanager
def open_progress(progress: Progress | None = None) -> Iterator[Progress]:
    """Yields the receiver of a function's progress, and closes it at the end."""
    updates = progress
    if updates is None:
        updates = NotebookProgress() if in_notebook() else LoggedProgress()
    try:
        yield updates
    finally:
        updates.close()


def in_notebook() -> bool:
    """Returns True in the kernel of a notebook, without importing IPython."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookProgress:
    """A receiver that shows the stage of a run with a bar. It disappears at the end of the run.

    Stages are logged as well, see `LoggedProgress`.
    """

    def __init__(self) -> None:
        self._log = LoggedProgress()
        self._handle: DisplayHandle | None = None
        self._stage = ""
        self._total: int | None = None
        self._done = 0
        self._shown = 0.0

    def stage(self, name: str, total: int | None = None) -> None:
        """Shows the beginning of a stage."""
        self._log.stage(name, total)
        self._stage = name
        self._total = total
        self._done = 0
        self._show()

    def advance(self, count: int) -> None:
        """Shows that more units of work are done."""
        self._done += count
        if time.monotonic() - self._shown >= UPDATE_SECONDS:
            self._show()

    def close(self) -> None:
        """Removes the bar."""
        self._log.close()
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
            self._handle = None

    def _show(self) -> None:
        from IPython.display import display

        self._shown = time.monotonic()
        plain = (
            self._stage
            if self._total is None
            else f"{self._stage}: {self._done:,} of {self._total:,}"
        )
        content = {
            "text/plain": plain,
            "text/html": render_progress(self._stage, self._done, self._total),
        }
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
