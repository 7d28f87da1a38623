"""`nearkin check`."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.command_line import VERBOSITY
from nearkin.cli.dry_run import (
    count_nothing,
    describe_run,
    print_dry_run,
    print_settings,
    settings_in_force,
)
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import (
    print_inputs,
    print_json,
    print_main_warnings,
    print_next,
    repeat_command,
    require_documents,
)
from nearkin.cli.split import LeakOptions
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count, format_part, format_similarity
from nearkin.runtime.number_range import COUNT_OR_NONE
from nearkin.settings.setting import OUTPUT, setting
from nearkin.settings.table import SignatureSettings

if TYPE_CHECKING:
    from nearkin.runs.results import CheckResult

TOO_MANY_PAIRS = 3
"""The exit code if there are more pairs than allowed."""
SHOWN_PAIRS = 3
"""The number of pairs that are listed on a terminal."""


@with_option_groups
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
    spec: SignatureSettings,
    match: LeakOptions,
    most_pairs: int = setting(
        0, "Largest allowed number of pairs.", OUTPUT, common=True, metavar="N", range=COUNT_OR_NONE
    ),
    out: Path | None = setting(
        None,
        "File for the pairs: .parquet, .csv, .tsv, .jsonl or .arrow.",
        OUTPUT,
        common=True,
        short="-o",
        metavar="PATH",
    ),
    overwrite: bool = False,
    readable_by: str = "owner",
    json: bool = False,
    quiet: bool = False,
    settings: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Find near-duplicates between two corpora.

    The exit code is 3 if there are more than allowed. Documents of one corpus are not compared with each other.

    Examples:
        nearkin check train.jsonl test.jsonl

        nearkin check train/ test/ --max 5 --threshold 0.7 --out leaks.csv

        nearkin check train.parquet test.parquet --text question --json
    """  # noqa: E501
    with file_imports():
        from nearkin.corpus import FileCorpus
        from nearkin.runs.check import check_inputs, require_checkable
        from nearkin.runs.pairs import require_pairs_output, write_pairs_file
        from nearkin.runs.resolved_run import resolve_run
        from nearkin.runs.temporary_runs import open_two_corpora, prepare_run
        from nearkin.runtime.files import Readers
        from nearkin.runtime.outputs import require_apart

    parameters = o.parameters_of(columns, reading, spec, match, given=given.names)
    if out is not None:
        require_pairs_output(out, (first, second), resume=False, overwrite=overwrite)
        o.require_apart_from_files(out, spec, settings=settings)
    with closing(o.open_progress(quiet=quiet)) as progress:
        opened = open_two_corpora(first, second, parameters, columns.id_column)
        assert isinstance(opened.corpus, FileCorpus)
        if out is not None:
            require_apart(out, [file.path for file in opened.corpus.files])
        if dry_run:
            resolved = resolve_run(
                opened.corpus,
                columns.to_columns(match.memory),
                parameters,
                Path(),
                progress,
                require_checkable,
                count_nothing,
            )
            print_dry_run(
                describe_run(replace(resolved, corpus=opened.corpus), given), as_json=json
            )
            return
        finished = prepare_run(
            opened.corpus,
            columns.id_column,
            None,
            progress,
            parameters,
            check_options=require_checkable,
        )
        if VERBOSITY.get() > 0:
            print_settings(settings_in_force(finished.run.options, given))
        result = check_inputs(finished.run, opened.inputs)
        account = opened.corpus.describe_files(finished.run.columns)
        finished.folder.remove()
    if out is not None:
        readers = Readers(readable_by)
        write_pairs_file(
            out, result.pairs.arrow, result.request, result.missing, readers, overwrite=overwrite
        )
    print_main_warnings(result.warnings)
    passes = len(result) <= most_pairs
    if json:
        facts = {
            "first": first,
            "second": second,
            "out": None if out is None else str(out),
            "passed": passes,
            "pairs": len(result),
            "max": most_pairs,
            "missing_pairs": 0 if result.missing is None else result.missing.pairs,
            "documents": list(result.documents),
            "affected": list(result.affected),
            "rejected": result.rejected,
            "warnings": list(result.warnings),
        }
        print_json({**facts, **result.request})
    else:
        if not quiet:
            print_inputs(account)
            print_pairs(result, out)
        print_outcome(result, most_pairs)
        if len(result) > SHOWN_PAIRS and out is None and not quiet:
            print_next(repeat_command("--out", "leaks.csv"))
    require_documents(sum(result.documents), result.rejected, "nearkin dedup lists the reasons")
    if not passes:
        raise typer.Exit(TOO_MANY_PAIRS)


def print_pairs(result: "CheckResult", out: Path | None) -> None:
    """Prints the most similar pairs on standard error, one by one."""
    count = len(result)
    pairs = result.pairs.arrow.sort_by([("similarity", "descending")])
    for row in pairs.slice(0, SHOWN_PAIRS).to_pylist():
        similarity = format_similarity(row["similarity"])
        print_line(f"similarity {similarity}  {row['id_a']!r}  {row['id_b']!r}")
    if count > SHOWN_PAIRS:
        place = "" if out is None else f"; all of them are in {out}"
        print_line(f"… and {count - SHOWN_PAIRS:,} more{place}")


def print_outcome(result: "CheckResult", most_pairs: int) -> None:
    """Prints the number of pairs and of documents in them on standard error."""
    pairs = format_count(len(result), "pair")
    verdict = "allowed" if len(result) <= most_pairs else f"more than --max {most_pairs}"
    print_line(
        f"{pairs} of near-duplicates ({verdict}): "
        f"{format_part(result.affected[0], result.documents[0])} of the first corpus and "
        f"{format_part(result.affected[1], result.documents[1])} of the second"
    )
