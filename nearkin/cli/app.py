"""The command line: its commands, its error messages and its exit codes."""

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import (
    audit,
    backup,
    bench,
    dedup,
    demo,
    eval,
    experiment,
    explain,
    hashlab,
    index,
    info,
    merge,
    pairs,
    plan,
    serve,
    shadow,
    sketch,
    stream,
    synth,
    token,
    tune,
)
from nearkin.cli import options as o
from nearkin.cli.commands import HELP_NAMES, Command, CommandGroup, call
from nearkin.cli.compilation import CompilationLines
from nearkin.cli.jobs import ARGUMENTS
from nearkin.cli.signals import INTERRUPTED, EndedBySignalError, ending_signals
from nearkin.cli.standard_streams import prepare_streams
from nearkin.errors import NearkinError, RunError, UsageError
from nearkin.redaction import redact
from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.environment import check_numba_settings
from nearkin.runtime.files import Readers
from nearkin.version import VERSION

DONE = 0
FAILED = 1
USAGE = 2

app = typer.Typer(
    name="nearkin",
    cls=CommandGroup,
    context_settings={"help_option_names": HELP_NAMES},
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Runs the command line of the process and exits."""
    prepare_streams()
    warnings.showwarning = show_warning
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command line, and turns errors into messages.

    Args:
        arguments: The arguments after the name of the program.

    Returns:
        The exit code: 0 for success, 1 for a failed run, 2 for an invalid request.
    """
    umask = os.umask(Readers.OWNER.umask)
    previous_listener = COMPILATION.listener
    COMPILATION.listener = CompilationLines()
    try:
        ARGUMENTS.set(tuple(arguments))
        o.restrict_new_files(os.environ.get(o.READABLE_BY) or Readers.OWNER.value)
        check_numba_settings()
        return call(app, arguments, "nearkin") or DONE
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except UsageError as error:
        return print_message(str(error), USAGE)
    except NearkinError as error:
        return print_message(str(error), FAILED)
    except MemoryError:
        return print_message("out of memory; lower --memory or --workers", FAILED)
    finally:
        os.umask(umask)
        COMPILATION.listener = previous_listener


def print_message(message: str, code: int) -> int:
    """Writes one line on standard error, without passwords.

    Args:
        message: The message.
        code: An exit code.

    Returns:
        The exit code.
    """
    sys.stderr.write(f"nearkin: {redact(message)}\n")
    return code


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Writes the first line of a warning.

    Warnings of Numba about environment variables have a traceback in their further lines.

    Args:
        message: The warning.
        *_: Further arguments of `warnings.showwarning`, which are not shown.
        **__: Its keyword arguments, which are not shown either.
    """
    first_line = str(message).partition("\n")[0]
    print_message(f"warning: {first_line}", DONE)


def with_clean_ending(
    command: Callable[..., None], *, ends_by_signal: bool = True
) -> Callable[..., None]:
    """Returns a command that prints a sentence when it is interrupted.

    A run that can be resumed is named in the sentence.

    Args:
        command: The command.
        ends_by_signal: Whether SIGTERM and SIGHUP interrupt it. Commands that handle signals
            themselves set it to False.

    Returns:
        The command.

    Raises:
        RunError: If the returned command fails. The message says how to resume the run.
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
            if "--resume" in str(error) or not advice():
                raise
            raise RunError(f"{error}{advice()}") from error
        except EndedBySignalError as ended:
            sys.exit(print_message(f"interrupted by {ended.name}{advice()}", ended.code))
        except KeyboardInterrupt:
            sys.exit(print_message(f"interrupted{advice()}", INTERRUPTED))

    return run_command


def can_resume(out: Path | None) -> bool:
    """Returns whether the work folder of an output holds a run that `--resume` continues."""
    from nearkin.runtime.outputs import MANIFEST, work_folder_of

    try:
        return out is not None and (work_folder_of(out) / MANIFEST).is_file()
    except UsageError:
        return False


def show_version(*, requested: bool) -> None:
    """Prints the version and ends the command, if that was requested."""
    if requested:
        sys.stdout.write(f"nearkin {VERSION}\n")
        raise typer.Exit


@app.callback()
def nearkin(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=show_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Find near-duplicate documents in files, in event streams and in an online index."""


START = "Start"
CHECK = "Check and choose settings"
SERVICE = "Index and service"
LABORATORY = "Laboratory"
COMMANDS = (
    (START, (demo.demo, dedup.dedup, pairs.pairs)),
    (
        CHECK,
        (
            info.info,
            explain.explain,
            audit.audit,
            eval.eval,
            shadow.shadow,
            tune.tune,
            plan.plan,
        ),
    ),
    (SERVICE, (stream.stream,)),
    (
        LABORATORY,
        (
            sketch.sketch,
            merge.merge,
            synth.synth,
            bench.bench,
            experiment.experiment,
            hashlab.hashlab,
        ),
    ),
)
"""The commands by the panels of the help page, in the order in which they are shown."""
for panel, commands in COMMANDS:
    for command in commands:
        ends_by_signal = command is not stream.stream
        app.command(cls=Command, rich_help_panel=panel)(
            with_clean_ending(command, ends_by_signal=ends_by_signal)
        )
app.command(cls=Command, context_settings=serve.ANY, rich_help_panel=SERVICE)(
    with_clean_ending(serve.serve, ends_by_signal=False)
)
for command in (backup.backup, backup.restore):
    index.index.command()(command)
for name, group in (("index", index.index), ("token", token.token)):
    for registered in group.registered_commands:
        if registered.callback is not None:
            registered.cls = Command
            registered.callback = with_clean_ending(registered.callback)
    app.add_typer(group, name=name, cls=CommandGroup, rich_help_panel=SERVICE)


if __name__ == "__main__":
    main()
