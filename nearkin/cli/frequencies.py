"""`nearkin lab frequencies`."""

from contextlib import closing
from dataclasses import dataclass

import typer

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_inputs, print_json, print_warnings
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.table import DEFAULT_STEPS, OutputSettings


@dataclass(frozen=True)
class ShingleOptions:
    """The options on which the hashes of shingles depend."""

    shingle: str = "words:3"
    normalise: str = DEFAULT_STEPS
    stem: str | None = None
    base_hash: str | None = None
    spec_version: int | None = None
    key_file: str | None = None


@with_option_groups
def frequencies(
    *,
    inputs: o.InputFiles,
    columns: o.ColumnOptions,
    reading: o.ReadOptions,
    shingles: ShingleOptions,
    output: OutputSettings,
    memory: o.ReadMemory = AUTOMATIC,
    workers: int | None = None,
) -> None:
    """Count in how many documents each shingle occurs.

    The counts are written into a file. It is for --frequencies of other commands and for
    --spec-resources of an index.

    Examples:
        nearkin lab frequencies products.parquet --text title --shingle words:1 --out products.arrow
    """
    with file_imports():
        from nearkin.runs.frequencies import run_frequencies
        from nearkin.runs.job import SpecJob
        from nearkin.runtime.files import Readers

    requested_columns = columns.to_columns(memory=memory)
    o.require_apart_from_files(output.out, shingles)
    with closing(o.open_progress(quiet=output.quiet)) as progress:
        job = SpecJob(
            tuple(inputs),
            output.out,
            requested_columns,
            o.parameters_of(shingles),
            workers=workers_or_cores(workers),
            overwrite=output.overwrite,
            on_error=reading.on_error,
            selection=reading.selection,
            readers=Readers(output.readable_by),
        )
        summary = run_frequencies(job, progress)
    print_warnings(summary.warnings)
    if not summary.documents:
        print_line("nearkin: no document could be read, so nothing was written")
        raise typer.Exit(o.NOTHING_READ)
    if output.json:
        print_json(summary.to_json())
        return
    if not output.quiet:
        print_inputs(summary.account)
    print_line(
        f"{summary.out} lists {format_count(summary.shingles, 'shingle')} that two or more of "
        f"{format_count(summary.documents, 'document')} contain"
    )
