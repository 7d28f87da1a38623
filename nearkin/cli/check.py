"""`nearkin check`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import COMMON, GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_inputs, print_json, print_warnings, require_documents
from nearkin.cli.split import LeakOptions
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count, format_part, format_similarity
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.setting import COUNT_OR_NONE, OUTPUT, Setting
from nearkin.settings.table import ClusterSettings

if TYPE_CHECKING:
    from nearkin.engine.options import RunOptions
    from nearkin.runs.check import CheckOutcome
    from nearkin.settings.spec import Spec

TOO_MANY_PAIRS = 3
"""The exit code if there are more pairs than allowed."""
SHOWN_PAIRS = 10
"""The number of pairs that are listed on a terminal."""
COMMON_OPTIONS = (
    "most_pairs",
    "text",
    "id_column",
    "threshold",
    "measure",
    "shingle",
    "out",
    "overwrite",
    "memory",
    "json",
)


@partial(with_option_groups, common=COMMON_OPTIONS)
def check(
    *,
    given: GivenOptions,
    first: Annotated[
        str, typer.Argument(help="File, glob, folder or URL of the first corpus, such as train.")
    ],
    second: Annotated[
        str, typer.Argument(help="File, glob, folder or URL of the second corpus, such as test.")
    ],
    columns: o.RunColumnOptions,
    reading: o.ReadOptions,
    spec: o.SpecOptions,
    match: LeakOptions,
    most_pairs: Annotated[
        int,
        Setting("Largest allowed number of pairs.", COMMON, metavar="N", range=COUNT_OR_NONE),
    ] = 0,
    out: Annotated[
        Path | None,
        Setting(
            "File for the pairs: .parquet, .csv, .tsv, .jsonl or .arrow.",
            OUTPUT,
            short="-o",
            metavar="PATH",
        ),
    ] = None,
    overwrite: bool = False,
    readable_by: str = "owner",
    json: bool = False,
    quiet: bool = False,
    settings: Path | None = None,
) -> None:
    """Find near-duplicates between two corpora, and end with exit code 3 if there are more than allowed.

    Documents of one corpus are not compared with each other.

    Examples:
        nearkin check train.jsonl test.jsonl

        nearkin check train/ test/ --max 5 --threshold 0.7 --out leaks.csv

        nearkin check train.parquet test.parquet --text question --json
    """  # noqa: E501
    with file_imports():
        from nearkin.corpus import FileCorpus
        from nearkin.engine.run import Run
        from nearkin.engine.work_folder import WorkFolder
        from nearkin.runs.check import FilesOfInputs, check_inputs, require_checkable
        from nearkin.runs.pairs import require_pairs_output, write_pairs_file
        from nearkin.runs.spec_request import resolve_inputs
        from nearkin.runtime.files import Readers
        from nearkin.runtime.outputs import require_apart
        from nearkin.stages.cluster.keep import KeepPolicy

    inputs = (first, second)
    if out is not None:
        require_pairs_output(out, inputs, resume=False, overwrite=overwrite)
        o.require_apart_from_files(out, spec, settings=settings)
    carried = match.carried_columns(KeepPolicy.parse(ClusterSettings().keep))
    requested_columns = columns.to_columns(carried, match.memory)
    progress = o.open_progress(quiet=quiet)

    def options_with(resolved_spec: "Spec") -> "RunOptions":
        return require_checkable(match.to_run_options(resolved_spec))

    with TemporaryFolder() as folder:
        try:
            resolved = resolve_inputs(
                inputs,
                requested_columns,
                spec.to_request(),
                reading.on_error,
                workers_or_cores(match.workers),
                folder / "check",
                progress,
                check=lambda resolved_spec, _: options_with(resolved_spec),
                selection=reading.selection,
            )
            options = options_with(resolved.spec)
            ahead = options.memory // 32
            corpus = FileCorpus.open(inputs, reading.on_error, ahead, reading.selection)
            files = FilesOfInputs.find(corpus, [first], [second], reading.selection)
            if out is not None:
                require_apart(out, [file.path for file in corpus.files])
            work = WorkFolder.create(folder / "work", {}, durable=False)
            run = Run(corpus, resolved.columns, options, work, progress, resolved.resources)
            outcome = check_inputs(run, files)
        finally:
            progress.close()
    if out is not None:
        readers = Readers(readable_by)
        write_pairs_file(
            out, outcome.pairs, outcome.request, outcome.missing, readers, overwrite=overwrite
        )
    print_warnings(outcome.warnings)
    if json:
        named = {"first": first, "second": second, "out": None if out is None else str(out)}
        print_json({**outcome.to_dict(most_pairs), **named})
    else:
        if not quiet:
            print_inputs(resolved.account)
            print_pairs(outcome, out)
        print_outcome(outcome, most_pairs)
    require_documents(sum(outcome.documents), outcome.rejected, "nearkin dedup lists the reasons")
    if not outcome.passes(most_pairs):
        raise typer.Exit(TOO_MANY_PAIRS)


def print_pairs(outcome: "CheckOutcome", out: Path | None) -> None:
    """Prints the first pairs on standard error, one by one."""
    count = outcome.pairs.num_rows
    for row in outcome.pairs.slice(0, SHOWN_PAIRS).to_pylist():
        similarity = format_similarity(row["similarity"])
        print_line(f"{similarity}  {row['id_a']!r}  {row['id_b']!r}")
    if count > SHOWN_PAIRS:
        place = "--out writes all of them" if out is None else f"all of them are in {out}"
        print_line(f"… and {count - SHOWN_PAIRS:,} more; {place}")


def print_outcome(outcome: "CheckOutcome", most_pairs: int) -> None:
    """Prints the number of pairs and of documents in them on standard error."""
    pairs = format_count(outcome.pairs.num_rows, "pair")
    verdict = "allowed" if outcome.passes(most_pairs) else f"more than --max {most_pairs}"
    print_line(
        f"{pairs} of near-duplicates ({verdict}): "
        f"{format_part(outcome.affected[0], outcome.documents[0])} of the first corpus and "
        f"{format_part(outcome.affected[1], outcome.documents[1])} of the second"
    )
