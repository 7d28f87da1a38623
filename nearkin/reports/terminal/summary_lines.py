"""The lines of the summary of a run: what it found, one warning, its results, and what to do next.

A summary has at most eight lines at 80 columns, so that it is read. Everything else is in the
report, in the record of the run and in the output of --json.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from rich.console import Console
from rich.text import Text

from nearkin.engine.advice import split_advice
from nearkin.reports.warning_choice import REJECTIONS, WITH_JSON, choose_warnings
from nearkin.runtime.shell_quoting import join_command
from nearkin.runtime.visible_text import make_visible

MOST_LINES = 8
"""The largest number of lines of a summary, unless what it must contain takes more."""


@dataclass(frozen=True)
class Results:
    """The results of a command.

    Attributes:
        folder: Output folder.
        files: Names of the files and folders that most users open first, in the order in which
            they are listed. Those that do not exist are left out.
        file: File of the kept documents if it is not in the folder, as a user calls it.
    """

    folder: Path
    files: Sequence[str]
    file: str | None = None

    def describe(self) -> str:
        """Returns the places of the results in a sentence."""
        names = [
            f"{name}/" if (self.folder / name).is_dir() else name
            for name in self.files
            if (self.folder / name).exists()
        ]
        listed = f"{make_visible(str(self.folder))}/: {', '.join(names)} …"
        if self.file is None:
            return f"Results in {listed}"
        return f"Results in {make_visible(self.file)}; details in {listed}"


@dataclass(frozen=True)
class SummaryLines:
    """The lines of a summary, in their order.

    Attributes:
        headline: The result in one sentence.
        facts: Sentences that are always shown.
        details: Sentences that are shown as long as there is room, the most important ones first.
        speed: Time and memory of the run. It is left out first.
        warnings: All warnings, the most important ones first. One is shown, and the rejected rows.
        more_warnings: Place of the other warnings.
        results: Places of the results, or None if they are not in files.
        next_command: Words of the command to run next, unless the shown warning advises one. Empty
            without a command.
    """

    headline: str
    facts: Sequence[str] = ()
    details: Sequence[str] = ()
    speed: str = ""
    warnings: Sequence[str] = ()
    more_warnings: str = WITH_JSON
    results: Results | None = None
    next_command: Sequence[str] = ()

    def print(self, console: Console) -> None:
        """Prints the lines."""
        first = [Text(make_visible(self.headline), style="bold")]
        first += [Text(make_visible(fact)) for fact in self.facts]
        last = []
        next_command = self.next_command
        for warning in choose_warnings(self.warnings, self.more_warnings):
            mark = "" if REJECTIONS.match(warning) else "warning: "
            text, advised = split_advice(warning)
            next_command = shlex.split(advised) or next_command
            last.append(Text.assemble((mark, "yellow"), make_visible(text.removesuffix(":"))))
        if self.results is not None:
            last.append(Text(self.results.describe(), overflow="fold"))
        command = _write_next(next_command, console)
        room = MOST_LINES - len(command) - _count_lines([*first, *last], console)
        details = [Text(make_visible(detail)) for detail in self.details]
        details += [Text(self.speed, style="dim")] if self.speed else []
        for detail in details:
            height = _count_lines([detail], console)
            if height <= room:
                first.append(detail)
                room -= height
        for line in [*first, *last]:
            console.print(line)
        for line in command:
            console.print(line, soft_wrap=True)


def _write_next(words: Sequence[str], console: Console) -> list[Text]:
    """Returns the lines of the next command, which a terminal does not break inside a word."""
    if not words:
        return []
    line = join_command(words)
    if not console.is_terminal or len(f"Next: {line}") <= console.width:
        return [Text.assemble("Next: ", (line, "bold"))]
    lines = indent(join_command(words, console.width - 2), "  ").splitlines()
    return [Text("Next:"), *(Text(part, style="bold") for part in lines)]


def _count_lines(texts: Sequence[Text], console: Console) -> int:
    return sum(len(text.wrap(console, console.width)) for text in texts)
