"""The command line: one command a file, errors as one clear sentence, exit codes 0, 1 and 2."""

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
from nearkin.cli.signals import INTERRUPTED, EndedBySignalError, ending_signals
from nearkin.cli.standard_streams import prepare_streams
from nearkin.cli.usage_errors import RedactingGroup
from nearkin.errors import NearkinError, RunError, UsageError
from nearkin.redaction import redact
from nearkin.runtime.environment import check_numba_settings
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import MANIFEST, work_folder_of
from nearkin.version import VERSION

DONE = 0
FAILED = 1
USAGE = 2

app = typer.Typer(
    name="nearkin",
    cls=RedactingGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: runs a command and turns its errors into messages and exit codes."""
    prepare_streams()
    warnings.showwarning = show_warning
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command line; returns the exit code."""
    umask = os.umask(Readers.OWNER.umask)
    try:
        o.restrict_new_files(os.environ.get(o.READABLE_BY) or Readers.OWNER.value)
        check_numba_settings()
        app(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except UsageError as error:
        return say(str(error), USAGE)
    except NearkinError as error:
        return say(str(error), FAILED)
    except MemoryError:
        return say("out of memory; give less with --memory, or fewer --workers", FAILED)
    finally:
        os.umask(umask)
    return DONE


def say(message: str, code: int) -> int:
    """Writes one line on standard error; returns the exit code."""
    sys.stderr.write(f"nearkin: {redact(message)}\n")
    return code


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Shows the first line of a warning. Numba's warnings about environment variables go on with a traceback."""
    say(f"warning: {str(message).partition(chr(10))[0]}", DONE)


def guarded(command: Callable[..., None], ends: bool = True) -> Callable[..., None]:
    """Returns a command that ends with a sentence when it is interrupted, and whose output is written when it ends.

    Args:
        command: The command.
        ends: Whether SIGTERM and SIGHUP interrupt it; False for a command that handles signals itself.
    """
    resumes = "resume" in signature(command).parameters

    @wraps(command)
    def run_guarded(*arguments: Any, **options: Any) -> None:
        def way() -> str:
            return "; continue with the same command and --resume" if resumes and can_resume(options.get("out")) else ""

        try:
            with ending_signals() if ends else nullcontext():
                command(*arguments, **options)
            sys.stdout.flush()
        except RunError as error:
            if "--resume" in str(error) or not way():
                raise
            raise RunError(f"{error}{way()}") from error
        except EndedBySignalError as ended:
            sys.exit(say(f"interrupted by {ended.name}{way()}", ended.code))
        except KeyboardInterrupt:
            sys.exit(say(f"interrupted{way()}", INTERRUPTED))

    return run_guarded


def can_resume(out: Path | None) -> bool:
    """Returns whether the work folder of an output holds a run that `--resume` continues."""
    try:
        return out is not None and (work_folder_of(out) / MANIFEST).is_file()
    except UsageError:
        return False


def show_version(asked: bool) -> None:
    """Prints the version and ends."""
    if asked:
        sys.stdout.write(f"nearkin {VERSION}\n")
        raise typer.Exit


@app.callback()
def nearkin(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Near-duplicate detection: shingled, sketched, banded, verified, clustered."""


COMMANDS = (
    dedup.dedup,
    pairs.pairs,
    sketch.sketch,
    merge.merge,
    info.info,
    synth.synth,
    demo.demo,
    bench.bench,
    tune.tune,
    plan.plan,
    explain.explain,
    audit.audit,
    eval.eval,
    shadow.shadow,
    experiment.experiment,
    hashlab.hashlab,
    backup.backup,
    backup.restore,
    stream.stream,
)
for command in COMMANDS:
    app.command()(guarded(command, ends=command is not stream.stream))
app.command(context_settings=serve.ANY)(guarded(serve.serve, ends=False))
for name, group in (("index", index.index), ("token", token.token)):
    for registered in group.registered_commands:
        if registered.callback is not None:
            registered.callback = guarded(registered.callback)
    app.add_typer(group, name=name)


if __name__ == "__main__":
    main()
