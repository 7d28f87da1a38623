"""The command line: one command a file, errors as one clear sentence, exit codes 0, 1 and 2."""

import sys

import click
import typer

from nearkin.cli import bench, dedup, demo, info, merge, pairs, sketch, synth
from nearkin.errors import NearkinError, UsageError

app = typer.Typer(
    name="nearkin",
    help="Near-duplicate detection: shingled, sketched, banded, verified, clustered.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for command in (dedup.dedup, pairs.pairs, sketch.sketch, merge.merge, info.info, synth.synth, demo.demo, bench.bench):
    app.command()(command)

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """Entry point: runs a command and turns its errors into messages and exit codes."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command line; returns the exit code."""
    try:
        code = app(arguments, standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return say("interrupted; the same command with --resume goes on", INTERRUPTED)
    except UsageError as error:
        return say(str(error), USAGE)
    except NearkinError as error:
        return say(str(error), FAILED)
    except MemoryError:
        return say("out of memory; give less with --memory, or fewer --workers", FAILED)
    return code if isinstance(code, int) else DONE


def say(message: str, code: int) -> int:
    """One line on standard error."""
    sys.stderr.write(f"nearkin: {message}\n")
    return code


if __name__ == "__main__":
    main()
