"""The output of commands: summaries, warnings and JSON."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import typer

from nearkin.cli.options import NOTHING_READ
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.visible_text import make_visible


def require_documents(documents: int, rejected: int, advice: str) -> None:
    """Ends a command with the exit code NOTHING_READ if every row of its inputs was rejected."""
    if rejected and not documents:
        print_line(
            f"nearkin: no document could be read: every row was rejected ({rejected:,} of "
            f"{rejected:,}); {advice}",
            is_error=True,
        )
        raise typer.Exit(NOTHING_READ)


def read_first_reason(path: Path) -> str:
    """Returns why the first row of a file of rejected rows was rejected."""
    import json

    try:
        with path.open(encoding="utf-8") as file:
            return str(json.loads(file.readline())["reason"])
    except (OSError, ValueError, LookupError):
        return "it is not a document"


def print_warnings(warnings: Iterable[str]) -> None:
    """Writes warnings on standard error, one in each line."""
    for warning in warnings:
        print_line(f"nearkin: warning: {warning}")


def print_main_warnings(warnings: Sequence[str]) -> None:
    """Writes the rejected rows and the most important warning on standard error.

    Args:
        warnings: All warnings, the most important ones first. The JSON of the command has them.
    """
    from nearkin.reports.warning_choice import choose_warnings

    print_warnings(choose_warnings(warnings))


def repeat_command(*options: str) -> list[str]:
    """Returns the words of the command that runs with further options.

    Nothing is returned for a command line with a password, which is not shown.
    """
    from nearkin.cli.command_line import ARGUMENTS
    from nearkin.corpus.file_names import hide_password

    arguments = ARGUMENTS.get()
    if not arguments or any(hide_password(word) != word for word in arguments):
        return []
    # A repeated option counts for its last value.
    return ["nearkin", *arguments, *options]


def print_brief(headline: str, warnings: Sequence[str], more: str | None = None) -> None:
    """Writes the result of a command with --quiet on standard error: one warning and one line.

    Args:
        headline: The result in a sentence.
        warnings: All warnings, the most important ones first.
        more: Place of the other warnings, for example `in deduped/report.html`. By default in the
            JSON of the command.
    """
    from nearkin.reports.warning_choice import WITH_JSON, choose_warning

    print_warnings(choose_warning(warnings, more or WITH_JSON))
    print_line(f"{headline}")


def print_next(command: Sequence[str]) -> None:
    """Writes the command to run next on standard error, in one line that can be pasted."""
    from nearkin.runtime.shell_quoting import join_command

    if command:
        print_line(f"Next: {join_command(command)}")


def print_inputs(account: str) -> None:
    """Prints what was read on standard error."""
    if account:
        print_line(f"{account}")


def print_json(summary: Mapping[str, object]) -> None:
    """Writes a summary as JSON on standard output."""
    import json

    text = json.dumps(summary, sort_keys=True, ensure_ascii=False) + "\n"
    # A path that is not UTF-8 becomes a JSON escape.
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())


def print_facts(facts: Mapping[str, object], *, as_json: bool) -> None:
    """Writes facts on standard output, as JSON or one in each line."""
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        text = f"{value:,}" if isinstance(value, int) else str(value)
        typer.echo(make_visible(f"{name.replace('_', ' ')}: {text}"))
