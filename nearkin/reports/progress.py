"""Shows the progress of a run on a terminal: the stage, its speed and the remaining time."""

import sys

from rich.console import Console, RenderableType
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

from nearkin.runtime.compilation import ANNOUNCEMENT, COMPILATION, CompilationListener, Stopwatch
from nearkin.runtime.progress import describe_stage

BAR_WIDTH = 12
"""The width of a bar in characters. The widest line then fits on 80 columns."""
LARGEST_OPEN_SHARE = 0.99
"""The largest share that is shown of a stage that has not ended, because totals are estimates."""


class TerminalProgress:
    """A progress display that shows one stage at a time on standard error.

    A finished stage stays as a line with its speed and a tick. A stage that an error or Ctrl-C
    interrupts has a cross instead. The compilation of kernels has a line of its own. The methods
    may be called from several threads. Nothing is written if the console is not a terminal.

    Examples:
        >>> progress = TerminalProgress(Console(quiet=True))
        >>> progress.stage("sketch", total=2)
        >>> progress.advance(2)
        >>> progress.close()
    """

    def __init__(self, console: Console | None = None) -> None:
        """Creates a display."""
        self._console = Console(stderr=True) if console is None else console
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._watch: Stopwatch | None = None
        self._compilation: TaskID | None = None
        self._previous_listener: CompilationListener | None = None
        self._handled: BaseException | None = None

    def stage(self, name: str, total: int | None = None) -> None:
        """Begins a stage and ends the previous one."""
        if not self._console.is_terminal or self._console.quiet:
            return
        if self._progress is None:
            self._progress = self._create_display()
            self._progress.start()
            self._handled = sys.exc_info()[1]
            self._previous_listener = COMPILATION.listener
            COMPILATION.listener = self
        self._finish_stage()
        self._task = self._progress.add_task(Text(describe_stage(name)).markup, total=total or None)
        self._watch = Stopwatch()

    def advance(self, count: int) -> None:
        """Counts more documents (or other items) as done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, count)
            task = _find_task(self._progress, self._task)
            if task.total is not None and task.completed >= task.total:
                # only the end of the stage ends its clock; the total may be an estimate
                self._progress.update(self._task, total=task.completed / LARGEST_OPEN_SHARE)

    def close(self) -> None:
        """Ends the display. Does nothing if it has ended or no stage has begun.

        The stage is shown as interrupted if an exception is being handled, as in a `finally` block,
        that was not being handled when the display began.
        """
        if self._progress is not None:
            is_interrupted = sys.exc_info()[1] is not self._handled
            if is_interrupted and self._task is not None:
                self._progress.update(self._task, is_interrupted=True)
                self._progress.stop_task(self._task)
                self._task = None
            self._finish_stage()
            self._compilation = None
            self._progress.stop()
            self._progress = None
            if self._previous_listener is not None:
                COMPILATION.listener = self._previous_listener

    def start_kernel(self, name: str) -> None:
        """Shows that a kernel is compiled."""
        if self._progress is None:
            return
        if self._compilation is None:
            self._compilation = self._progress.add_task(ANNOUNCEMENT, total=None)
        task = _find_task(self._progress, self._compilation)
        task.total = None
        task.finished_time = None

    def finish_kernel(self, compiled: int, seconds: float) -> None:
        """Shows how many kernels are compiled, and in how many seconds."""
        if self._progress is not None and self._compilation is not None:
            task = _find_task(self._progress, self._compilation)
            task.completed = task.total = compiled
            task.finished_time = seconds

    def _finish_stage(self) -> None:
        if self._progress is not None and self._task is not None:
            counted = _find_task(self._progress, self._task).completed
            work_seconds = 0.0 if self._watch is None else self._watch.work_seconds
            self._progress.update(
                self._task,
                total=counted or 1,
                completed=counted or 1,
                counted=counted,
                work_seconds=work_seconds,
            )
            self._progress.stop_task(self._task)
            self._task = None

    def _create_display(self) -> Progress:
        return Progress(
            _StateColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=BAR_WIDTH),
            _ShareColumn(),
            _CountColumn(),
            _SpeedColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=self._console,
        )


def _find_task(progress: Progress, number: TaskID) -> Task:
    return progress.tasks[progress.task_ids.index(number)]


class _StateColumn(SpinnerColumn):
    """A column with a tick for a finished stage, a cross for an interrupted one, or a spinner."""

    def __init__(self) -> None:
        super().__init__(finished_text="✓")

    def render(self, task: Task) -> RenderableType:
        if task.fields.get("is_interrupted"):
            return Text("✗", style="red")
        return super().render(task)


class _ShareColumn(ProgressColumn):
    """A column with the share of a stage that is done, if its total is known."""

    def render(self, task: Task) -> Text:
        if task.total is None or task.description == ANNOUNCEMENT:
            return Text("")
        share = task.completed / task.total
        if not task.finished:
            share = min(share, LARGEST_OPEN_SHARE)
        return Text(f"{share:.0%}", justify="right")


class _CountColumn(ProgressColumn):
    """A column with the number of items done."""

    def render(self, task: Task) -> Text:
        counted = task.fields.get("counted", task.completed)
        return Text(f"{counted:,.0f}" if counted else "", justify="right")


class _SpeedColumn(ProgressColumn):
    """A column with the items per second, over the whole stage once it is done.

    The time in which kernels were compiled does not count.
    """

    def render(self, task: Task) -> Text:
        if task.description == ANNOUNCEMENT:
            return Text("")
        counted = task.fields.get("counted")
        speed = task.speed
        if counted is not None and task.fields.get("work_seconds"):
            speed = counted / task.fields["work_seconds"]
        return Text(f"{speed:,.0f}/s" if speed else "", style="dim", justify="right")
