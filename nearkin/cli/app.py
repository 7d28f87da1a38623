"""The command line: its commands, its error messages and its exit codes."""

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy
from functools import cache, wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand
from typer.main import get_command

from nearkin.cli.command_line import ARGUMENTS, OWNS_PROCESS
from nearkin.cli.command_table import COMMANDS, GROUPS, START, CommandEntry, CommandTable
from nearkin.cli.commands import (
    HELP_NAMES,
    MARKUP,
    Command,
    CommandGroup,
    first_sentence,
    run_typer,
)
from nearkin.cli.compilation import CompilationLines
from nearkin.cli.given_options import NO_CONFIG
from nearkin.cli.signals import INTERRUPTED, EndedBySignalError, ending_signals
from nearkin.cli.standard_streams import prepare_streams, print_line
from nearkin.cli.verbosity import Color, restored_output
from nearkin.errors import NearkinError, RunError, UsageError
from nearkin.runtime.actor import Actor, acting_as
from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.environment import NO_THREAD
from nearkin.runtime.files import Readers
from nearkin.runtime.setting_names import SettingForm, settings_named_as

DONE = 0
FAILED = 1
USAGE = 2

FIRST_OPTIONS = ("version",)
"""The options that the help page shows, beside --help. Another page lists all of them."""
REPETITION_OPTIONS = ("--resume", "--overwrite")
"""The options with which an error advises to repeat a command."""
NEW_OBJECTS = 50_000
"""The number of new objects after which the garbage collector of a command runs.

With the default of Python, 700, the collector would run hundreds of times before the first
document is read.
"""
ANY_OPTIONS: dict[str, object] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""The settings of a context whose command parses its options itself."""


NAMED_COMMANDS = ("fit", "tune", "audit", "info", "passages", "index")
"""The commands that the last line of the first help page names."""


class TableGroup(CommandGroup):
    """A group of the table of commands. It loads a command only when the command is looked up."""

    def __init__(self, *, path: str = "", **fields: Any) -> None:
        super().__init__(**fields)
        self.table = CommandTable(load_command, path)
        # typer assigns to the mapping only if a command is added.
        self.commands = cast(dict[str, Any], self.table)

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of the commands, in the order of the help page."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help page, for which no command is loaded."""
        page = copy(self)
        page.commands = {
            entry.name: TyperCommand(entry.name, help=entry.description)
            for entry in self.entries_of_page()
        }
        page.params = [parameter for parameter in self.params if parameter.name in FIRST_OPTIONS]
        super(TableGroup, page).format_help(ctx, formatter)

    def entries_of_page(self) -> list[CommandEntry]:
        """Returns the commands that the help page shows."""
        return list(self.table.entries.values())


class RootGroup(TableGroup):
    """The group of all commands, whose help page shows those that most users need."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help page."""
        super().format_help(ctx, formatter)
        typer.echo(f" Also: {', '.join(NAMED_COMMANDS)}, ...; all: nearkin help all.")

    def entries_of_page(self) -> list[CommandEntry]:
        """Returns the commands that the help page shows."""
        return [entry for entry in COMMANDS if entry.panel == START]

    def find_paths(self, name: str) -> list[str]:
        """Returns the paths of the commands with a name, in whichever group they are."""
        paths = [entry.path for entry in COMMANDS if entry.name == name]
        return paths or [entry.path for entry in all_entries() if entry.name == name]

    def describe_all(self) -> str:
        """Returns all options, and every command with its description in one line."""
        options: list[Any] = self.params
        panels = {"Options": [(one.opts[0], one.help) for one in options]}
        for entry in all_entries():
            panels.setdefault(entry.panel, []).append((entry.path, entry.description))
        lines = []
        for title, rows in panels.items():
            width = max(len(name) for name, _ in rows)
            lines.append(title)
            for name, text in rows:
                start = f"  {name:<{width}}  "
                lines += wrap(start + text, 80, subsequent_indent=" " * len(start))
            lines.append("")
        return "\n".join(lines)


def all_entries() -> Iterator[CommandEntry]:
    """Yields every command, for which the groups with a module are loaded."""
    for entry in COMMANDS:
        if entry.path in GROUPS:
            continue
        if not entry.has_commands:
            yield entry
            continue
        for name, command in load_command(entry).commands.items():
            description = first_sentence(command.help)
            yield CommandEntry(f"{entry.path} {name}", entry.description, description)


def load_command(entry: CommandEntry) -> Any:
    """Imports the module of a command, and returns the command or the group of commands."""
    if entry.path in GROUPS:
        return TableGroup(
            path=entry.path,
            name=entry.name,
            help=entry.description,
            no_args_is_help=True,
            rich_markup_mode=MARKUP,
        )
    name = entry.name.replace("-", "_")
    declared = getattr(import_module(f"nearkin.cli.{name}"), name)
    if isinstance(declared, typer.Typer):
        return load_group(declared)
    from nearkin.cli.destination import with_destination

    application = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    context_settings = ANY_OPTIONS if entry.parses_options else None
    application.command(cls=Command, context_settings=context_settings)(
        with_clean_ending(with_destination(declared), ends_by_signal=not entry.handles_signals)
    )
    return get_command(application)


def load_group(application: typer.Typer) -> Any:
    """Returns a group of commands."""
    for declared in application.registered_commands:
        declared.cls = Command
    group: Any = get_command(application)
    for command in group.commands.values():
        command.callback = with_clean_ending(command.callback)
    return group


app = typer.Typer(
    name="nearkin",
    cls=RootGroup,
    context_settings={"help_option_names": HELP_NAMES},
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    pretty_exceptions_enable=False,
)


@cache
def root_command() -> Any:
    """Returns the group of all commands, each of which is made at its first call."""
    return get_command(app)


def main() -> None:
    """Runs the command line of the process and exits."""
    OWNS_PROCESS.set(True)
    gc.set_threshold(NEW_OBJECTS)
    prepare_streams()
    warnings.showwarning = show_warning
    code = run(sys.argv[1:])
    # The interpreter collects garbage once more when it exits. Frozen objects are left out.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs a command line, and turns errors into messages."""
    umask = os.umask(Readers.OWNER.umask)
    previous_listener = COMPILATION.listener
    COMPILATION.listener = CompilationLines()
    try:
        ARGUMENTS.set(tuple(arguments))
        with (
            settings_named_as(SettingForm.OPTION),
            acting_as(Actor("command line")),
            restored_output(),
        ):
            code = run_typer(root_command(), arguments, "nearkin") or DONE
            # Help pages, versions and commands with an exit code of their own end before the flush
            # of `with_clean_ending`.
            sys.stdout.flush()
            return code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except UsageError as error:
        return print_message(str(error), USAGE)
    except NearkinError as error:
        return print_message(str(error), FAILED)
    except OSError as error:
        if error.filename is None:
            raise
        path = os.fsdecode(error.filename)
        reason = error.strerror or type(error).__name__
        return print_message(
            f"cannot use {path!r}: {reason}; correct the path or its permissions", FAILED
        )
    except MemoryError:
        return print_message("out of memory; lower --memory or --workers", FAILED)
    except RuntimeError as error:
        if str(error) != NO_THREAD:
            raise
        return print_message(
            "cannot start a thread; raise the limits of the process (ulimit -u and ulimit -v), or "
            "lower --workers",
            FAILED,
        )
    finally:
        os.umask(umask)
        COMPILATION.listener = previous_listener


def print_message(message: str, code: int) -> int:
    """Writes a message on standard error."""
    print_line(f"nearkin: {message}", is_error=code != DONE)
    return code


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Writes the first line of a warning.

    Warnings of Numba about environment variables have a traceback in their further lines.
    """
    first_line = str(message).partition("\n")[0]
    print_message(f"warning: {first_line}", DONE)


def with_clean_ending(
    command: Callable[..., None], *, ends_by_signal: bool = True
) -> Callable[..., None]:
    """Returns a command that prints a sentence when it is interrupted.

    A run that can be resumed is named in the sentence.
    """
    has_resume = "resume" in signature(command).parameters

    @wraps(command)
    def run_command(*arguments: Any, **options: Any) -> None:
        def advice() -> str:
            if has_resume and can_resume(options.get("out")):
                instead = " in place of --overwrite" if options.get("overwrite") else ""
                return f"; continue with the same command and --resume{instead}"
            return ""

        try:
            with ending_signals() if ends_by_signal else nullcontext():
                command(*arguments, **options)
            sys.stdout.flush()
        except RunError as error:
            has_remedy = any(option in str(error) for option in REPETITION_OPTIONS)
            if has_remedy or not advice():
                raise
            raise RunError(f"{error}{advice()}") from error
        except EndedBySignalError as ended:
            sys.exit(print_message(f"interrupted by {ended.name}{advice()}", ended.code))
        except KeyboardInterrupt:
            sys.exit(print_message(f"interrupted{advice()}", INTERRUPTED))

    return run_command


def can_resume(out: Path | None) -> bool:
    """Returns whether the work folder of an output holds a run that `--resume` continues.

    The run of an output that is a file has a folder beside the file.
    """
    from nearkin.runtime.outputs import RUN_SUFFIX, holds_results, work_folder_of

    if out is None or not out.name:
        return False
    folders = (out, out.with_name(out.name + RUN_SUFFIX))
    try:
        return any(holds_results(work_folder_of(folder)) for folder in folders)
    except UsageError:
        return False


def show_version(*, requested: bool) -> None:
    """Prints the versions and ends the command, if that was requested."""
    if requested:
        from nearkin.cli.versions import describe_versions

        sys.stdout.write(describe_versions())
        raise typer.Exit


@app.callback()
def nearkin(
    *,
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=show_version, is_eager=True, help="Print versions."
        ),
    ] = False,
    no_config: Annotated[
        bool,
        typer.Option("--no-config", help="Ignore the defaults in nearkin.toml and pyproject.toml."),
    ] = False,
    color: Color = "auto",
) -> None:
    """Find near-duplicate documents in files, event streams and an online index."""
    if no_config:
        context.meta[NO_CONFIG] = True


if __name__ == "__main__":
    main()
