"""The job of a command that runs over files: `nearkin dedup` and `nearkin pairs`."""

from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.cli.command_line import ARGUMENTS, describe_command_line
from nearkin.cli.options import ReadOptions
from nearkin.settings.table import OutputSettings, ReferenceSettings

if TYPE_CHECKING:
    from nearkin.corpus.input_manifest import HashedPart
    from nearkin.engine.options import RunOptions
    from nearkin.runs.document_output import DocumentOutput
    from nearkin.runs.job import Job
    from nearkin.runs.spec_request import ResolvedInputs
    from nearkin.texts.passages.cutting.request import PassageRequest
    from nearkin.texts.passages.lines.request import LinesRequest


def make_job(
    inputs: list[str],
    resolved: "ResolvedInputs",
    settings: "RunOptions",
    reading: ReadOptions,
    output: OutputSettings,
    *,
    hash_inputs: "HashedPart",
    resume: bool,
    annotate: bool = False,
    save_signatures: bool = False,
    save_hashes: bool = False,
    documents: "DocumentOutput | None" = None,
    reference: ReferenceSettings | None = None,
    decisions: Path | None = None,
    passages: "PassageRequest | None" = None,
    lines: "LinesRequest | None" = None,
) -> "Job":
    """Returns the job that the options of a command describe."""
    from nearkin.runs.document_output import DocumentOutput
    from nearkin.runs.job import Job
    from nearkin.runtime.files import Readers

    return Job(
        tuple(inputs),
        output.out,
        resolved.columns,
        settings,
        annotate=annotate,
        save_signatures=save_signatures,
        save_hashes=save_hashes,
        documents=documents or DocumentOutput(),
        resume=resume,
        overwrite=output.overwrite,
        on_error=reading.on_error,
        hash_inputs=hash_inputs,
        resources=resolved.resources,
        selection=reading.selection,
        statuses=resolved.statuses,
        readers=Readers(output.readable_by),
        command_line=describe_command_line(ARGUMENTS.get()),
        against=() if reference is None else tuple(reference.against or ()),
        only_against=reference is not None and reference.only_against,
        scope=None if reference is None else reference.scope,
        decisions=decisions,
        blocklist=None if reference is None else reference.blocklist,
        passages=passages,
        lines=lines,
    )
