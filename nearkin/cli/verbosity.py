"""The options --verbose, --quiet and --color, which decide how much a command prints."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli.command_line import VERBOSITY
from nearkin.cli.given_options import HELP
from nearkin.cli.standard_streams import print_line
from nearkin.errors import UsageError
from nearkin.runtime.suggestions import require_choice

if TYPE_CHECKING:
    from nearkin.runtime.progress import Progress

COLOR_VARIABLES = ("NO_COLOR", "FORCE_COLOR")
"""The environment variables by which all output is in color, or none is."""
COLORS = ("auto", "always", "never")


def set_quiet(count: int) -> int:
    """Sets how little is printed: -q shows the result in a line, and -qq nothing but errors."""
    if count:
        _set_verbosity(-count)
    return count


def _set_verbose(*, verbose: bool) -> None:
    if verbose:
        _set_verbosity(1)


def _set_verbosity(value: int) -> None:
    if VERBOSITY.get() * value < 0:
        raise UsageError("--verbose and --quiet exclude each other; give one of them")
    VERBOSITY.set(value)


def _set_color(*, color: str) -> None:
    """Sets the environment variables that libraries follow, unless `auto` leaves the choice."""
    require_choice("color", color, COLORS)
    if color == "auto":
        return
    chosen, other = ("NO_COLOR", "FORCE_COLOR") if color == "never" else reversed(COLOR_VARIABLES)
    os.environ[chosen] = "1"
    os.environ.pop(other, None)


@contextmanager
def restored_output() -> Iterator[None]:
    """Restores at its end what the options of a command have changed in the process."""
    variables = {name: os.environ.get(name) for name in COLOR_VARIABLES}
    token = VERBOSITY.set(0)
    try:
        yield
    finally:
        VERBOSITY.reset(token)
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        callback=_set_verbose,
        expose_value=False,
        help="Also show the settings with their sources, and the seconds of each stage.",
        rich_help_panel=HELP,
    ),
]
Color = Annotated[
    str,
    typer.Option(
        "--color",
        callback=_set_color,
        is_eager=True,
        expose_value=False,
        metavar="WHEN",
        help="Print in color: auto (on a terminal, unless NO_COLOR is set), always or never.",
        rich_help_panel=HELP,
    ),
]


class StageTimes:
    """A receiver of progress updates that prints the seconds of each stage at the end.

    Examples:
        >>> from nearkin.runtime.progress import Silent
        >>> times = StageTimes(Silent())
        >>> times.stage("sketch", total=2)
        >>> times.advance(2)
        >>> list(times.seconds)
        ['sketch']
    """

    def __init__(self, display: "Progress") -> None:
        """Creates a receiver.

        Args:
            display: The receiver to which updates are passed on.
        """
        self.seconds: dict[str, float] = {}
        self._display = display
        self._name = ""
        self._began = 0.0

    def stage(self, name: str, total: int | None = None) -> None:
        """Begins a stage and ends the previous one."""
        self._end_stage()
        self._name = name
        self.seconds.setdefault(name, 0.0)
        self._display.stage(name, total)

    def advance(self, count: int) -> None:
        """Counts more documents (or other items) as done."""
        self._display.advance(count)

    def close(self) -> None:
        """Ends the display, and prints the seconds of the stages."""
        from nearkin.runtime.progress import describe_stage

        self._end_stage()
        self._name = ""
        self._display.close()
        for name, seconds in self.seconds.items():
            print_line(f"{seconds:8.2f} s  {describe_stage(name)}")
        self.seconds = {}

    def _end_stage(self) -> None:
        now = time.perf_counter()
        if self._name:
            self.seconds[self._name] += now - self._began
        self._began = now
