"""The job of a command that runs over files."""

from typing import TYPE_CHECKING, Any

from nearkin.cli.command_line import ARGUMENTS, describe_command_line
from nearkin.cli.options import RunReadOptions
from nearkin.settings.table import OutputSettings

if TYPE_CHECKING:
    from nearkin.runs.job import Job
    from nearkin.runs.resolved_run import ResolvedRun


def make_job(
    inputs: list[str],
    resolved: "ResolvedRun",
    reading: RunReadOptions,
    output: OutputSettings,
    **others: Any,
) -> "Job":
    """Returns the job that the options of a command describe."""
    from nearkin.runs.job import Job
    from nearkin.runtime.files import Readers

    return Job(
        tuple(inputs),
        output.out,
        resolved.columns,
        resolved.options,
        overwrite=output.overwrite,
        on_error=reading.on_error,
        hash_inputs=reading.parse_hash_inputs(),
        resources=resolved.resources,
        selection=reading.selection,
        corpus=resolved.corpus,
        chosen=resolved.chosen,
        readers=Readers(output.readable_by),
        command_line=describe_command_line(ARGUMENTS.get()),
        **others,
    )
