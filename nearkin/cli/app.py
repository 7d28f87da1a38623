"""The command line: one command a file, errors as one clear sentence, exit codes 0, 1 and 2."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from nearkin.cli import (
    audit,
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
    synth,
    token,
    tune,
)
from nearkin.errors import NearkinError, UsageError
from nearkin.release import VERSION

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="nearkin",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: runs a command and turns its errors into messages and exit codes."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command line; returns the exit code."""
    try:
        app(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except UsageError as error:
        return say(str(error), USAGE)
    except NearkinError as error:
        return say(str(error), FAILED)
    except MemoryError:
        return say("out of memory; give less with --memory, or fewer --workers", FAILED)
    return DONE


def say(message: str, code: int) -> int:
    """One line on standard error."""
    sys.stderr.write(f"nearkin: {message}\n")
    return code


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Ends a command that the user interrupts with a sentence instead of a traceback."""

    @wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            sys.exit(say("interrupted; a run goes on when the same command gets --resume", INTERRUPTED))

    return guarded


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
)
for command in COMMANDS:
    app.command()(interruptible(command))
app.command(context_settings=serve.ANY)(interruptible(serve.serve))
for name, group in (("index", index.index), ("token", token.token)):
    for registered in group.registered_commands:
        if registered.callback is not None:
            registered.callback = interruptible(registered.callback)
    app.add_typer(group, name=name)


if __name__ == "__main__":
    main()
