"""Progress of a run on a terminal: the stage, how fast it goes, and the time left; silent where nobody watches."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class TerminalProgress:
    """Shows one stage at a time on standard error; finished ones stay as a line with their speed.

    Calls may come from several threads. Nothing is written when the console is not a terminal.

    Examples:
        >>> progress = TerminalProgress(Console(quiet=True))
        >>> progress.stage("sketch", total=2)
        >>> progress.advance(2)
        >>> progress.close()
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console(stderr=True) if console is None else console
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def stage(self, name: str, total: int | None = None) -> None:
        """Begins a stage, ending the one before it.

        Args:
            name: As `sketch`.
            total: Documents (or whatever is advanced by) in it; None where it is not known.
        """
        if not self._console.is_terminal or self._console.quiet:
            return
        if self._progress is None:
            self._progress = self._display()
            self._progress.start()
        self._finish()
        self._task = self._progress.add_task(Text(name).markup, total=total)

    def advance(self, count: int) -> None:
        """Counts more documents as done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, count)

    def close(self) -> None:
        """Ends the display; calling it again, or without a stage, does nothing."""
        if self._progress is not None:
            self._finish()
            self._progress.stop()
            self._progress = None

    def _finish(self) -> None:
        """Marks the stage as done whatever was expected, so that its bar is full and its clock stops."""
        if self._progress is not None and self._task is not None:
            done = self._progress.tasks[self._progress.task_ids.index(self._task)].completed
            self._progress.update(self._task, total=done or 1, completed=done or 1, counted=done)
            self._progress.stop_task(self._task)
            self._task = None

    def _display(self) -> Progress:
        return Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            _Count(),
            _Speed(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=self._console,
        )


class _Count(ProgressColumn):
    """Documents done."""

    def render(self, task: Task) -> Text:
        counted = task.fields.get("counted", task.completed)
        return Text(f"{counted:,.0f}" if counted else "", justify="right")


class _Speed(ProgressColumn):
    """Documents a second, of the whole stage once it is done."""

    def render(self, task: Task) -> Text:
        done = task.fields.get("counted")
        speed = task.speed if done is None or not task.elapsed else done / task.elapsed
        return Text(f"{speed:,.0f}/s" if speed else "", style="dim", justify="right")
