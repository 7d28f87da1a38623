"""The job of a command that runs over files: `nearkin dedup` and `nearkin pairs`."""

import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from nearkin.cli.options import OutputOptions, ReadOptions

ARGUMENTS: ContextVar[Sequence[str]] = ContextVar("arguments", default=())
"""The arguments of the command that runs, after the name of the program."""

if TYPE_CHECKING:
    from nearkin.engine.options import RunOptions
    from nearkin.runs.job import Job
    from nearkin.runs.spec_request import ResolvedInputs


def describe_command_line(arguments: Sequence[str]) -> str:
    """Returns a command line as it can be shown to others.

    Passwords in URLs and the values of `--conf`, which may be credentials, are hidden.

    Args:
        arguments: The arguments after the name of the program.

    Examples:
        >>> describe_command_line(["dedup", "my docs.csv", "--conf", "spark.key=secret"])
        "nearkin dedup 'my docs.csv' --conf spark.key=***"
    """
    from nearkin.corpus.file_names import hide_password
    from nearkin.redaction import HIDDEN

    shown = []
    previous = ""
    for argument in arguments:
        if previous == "--conf" or argument.startswith("--conf="):
            setting = argument.removeprefix("--conf=")
            flag = argument.removesuffix(setting)
            shown.append(f"{flag}{setting.partition('=')[0]}={HIDDEN}")
        else:
            shown.append(hide_password(argument))
        previous = argument
    return " ".join(["nearkin", *map(_quote_argument, shown)])


def _quote_argument(argument: str) -> str:
    """Returns an argument as a shell reads it. Hidden values do not need quotes."""
    from nearkin.redaction import HIDDEN

    return argument if argument.endswith(HIDDEN) else shlex.quote(argument)


def make_job(
    inputs: list[str],
    resolved: "ResolvedInputs",
    settings: "RunOptions",
    reading: ReadOptions,
    output: OutputOptions,
    *,
    resume: bool,
    annotate: bool = False,
    save_signatures: bool = False,
) -> "Job":
    """Returns the job that the options of a command describe.

    Args:
        inputs: Files, globs, folders or URLs, or the folder of a saved run.
        resolved: The parts of the job that depend on the inputs.
        settings: The parameters of the run.
        reading: The options for the selection of files and for rows that cannot be read.
        output: The options of the output.
        resume: Whether an interrupted run is resumed.
        annotate: Whether all rows are kept and get cluster columns.
        save_signatures: Whether signatures and band keys are kept in the output.

    Returns:
        The job.
    """
    from nearkin.runs.job import Job
    from nearkin.runtime.files import Readers

    return Job(
        tuple(inputs),
        output.out,
        resolved.columns,
        settings,
        annotate=annotate,
        save_signatures=save_signatures,
        resume=resume,
        overwrite=output.overwrite,
        on_error=reading.on_error,
        resources=resolved.resources,
        selection=reading.selection,
        statuses=resolved.statuses,
        readers=Readers(output.readable_by),
        command_line=describe_command_line(ARGUMENTS.get()),
    )
