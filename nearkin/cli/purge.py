"""`nearkin purge`: the removal of documents that are like given ones, from an index or a run."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.command_line import ARGUMENTS, describe_command_line
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.index import open_existing_index
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json, print_warnings
from nearkin.runtime.number_format import format_count
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.setting import INPUT, OUTPUT, RUN, Setting, setting
from nearkin.settings.table import IndexKeySettings, OutputSettings

if TYPE_CHECKING:
    from nearkin.runs.index_purge import PurgedDocument
    from nearkin.runs.purge import PurgedRow
    from nearkin.runs.purge_request import LikeFiles

SHOWN = 10
"""The number of documents that the terminal lists."""
OF_A_RUN = ("out", "overwrite", "resume", "readable_by", "memory", "workers", "quiet")
"""The options that have a meaning for a run only."""
OF_AN_INDEX = ("scope", "dry_run", "yes", "spec_resources")
"""The options that have a meaning for an index only."""


@with_option_groups
def purge(
    *,
    given: GivenOptions,
    place: Annotated[
        str,
        typer.Argument(help="URL of an index, or output folder of a run.", metavar="INDEX|RUN"),
    ],
    like: Annotated[
        list[str],
        Setting(
            "Files, globs, folders or URLs of the documents. May be repeated.",
            INPUT,
            metavar="FILE",
        ),
    ],
    scope: str | None = setting(
        None, "Scope of the stored documents of an index, which requires it.", INPUT, metavar="S"
    ),
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    resources: IndexKeySettings,
    out: Path | None = setting(
        None,
        "Folder for the result of a run without the documents.",
        OUTPUT,
        short="-o",
        metavar="DIR",
    ),
    overwrite: bool = False,
    readable_by: str = "owner",
    dry_run: bool = setting(
        False, "Show what would be removed from an index, and remove nothing.", RUN, common=True
    ),
    yes: bool = setting(False, "Remove the documents from an index.", RUN, common=True),
    resume: bool = False,
    memory: str = AUTOMATIC,
    workers: int | None = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Remove the documents that are like those of files.

    Documents are removed from an index itself. The result of a run without them is written to
    another folder, and the run and its inputs stay as they are. The files must be readable as a
    whole: a row that cannot be read ends the command.

    Examples:
        nearkin purge sqlite:///nearkin.db --like withdrawn.jsonl --scope web --dry-run

        nearkin purge deduped/ --like withdrawn.jsonl --out purged/
    """
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.runs.purge_request import LikeFiles
        from nearkin.runs.run_record import is_run_folder

    files = LikeFiles(tuple(like), columns.to_columns(), reading.selection)
    if "://" in place:
        given.require_unused(OF_A_RUN, "on an index")
        purge_index(place, files, scope, resources, dry_run=dry_run, yes=yes, as_json=json)
        return
    if not is_run_folder(place):
        raise UsageError(
            f"{place!r} is neither the URL of an index, such as sqlite:///nearkin.db, nor the "
            "output folder of a run; to leave documents out of files, run nearkin dedup with "
            "--blocklist"
        )
    given.require_unused(OF_AN_INDEX, "on a run")
    if out is None:
        raise UsageError(
            "missing option --out DIR, the folder for the result of the run without the documents"
        )
    output = OutputSettings(out, overwrite, readable_by, json, quiet)
    purge_run(Path(place), files, output, resources, resume=resume, memory=memory, workers=workers)


def purge_index(
    url: str,
    files: "LikeFiles",
    scope: str | None,
    resources: IndexKeySettings,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Removes the documents of an index."""
    from nearkin.errors import UsageError
    from nearkin.runs.index_purge import purge_index as purge_scope
    from nearkin.runs.index_purge import read_like

    if scope is None:
        raise UsageError("missing option --scope S, the scope of the stored documents")
    if dry_run == yes:
        raise UsageError(
            "a purge needs exactly one of --dry-run, which shows what would be removed, and --yes, "
            "which removes it"
        )
    with open_existing_index(url, resources) as index:
        blocklist = read_like(files, index)
        result = purge_scope(index, scope, blocklist, removes=yes)
        has_scope = bool(result.compared + result.unknown)
    warnings = []
    if not has_scope:
        warnings.append(f"the scope {scope!r} has no documents; check --scope and the URL")
    if result.unknown:
        warnings.append(
            f"{format_count(result.unknown, 'document')} could not be compared, because the index "
            "does not keep the content"
        )
    print_warnings(warnings)
    if as_json:
        print_json(result.to_json())
        return
    print_purged(result.purged)
    verb = "removed" if yes else "would remove"
    count = result.removed if yes else len(result.purged)
    typer.echo(f"{verb} {count:,} of {result.compared:,} documents")


def purge_run(
    folder: Path,
    files: "LikeFiles",
    output: OutputSettings,
    resources: IndexKeySettings,
    *,
    resume: bool,
    memory: str,
    workers: int | None,
) -> None:
    """Writes the result of a run without the documents that are like given ones."""
    from nearkin.runs.purge import purge_run as repeat_run
    from nearkin.runs.purge_request import PurgeRequest
    from nearkin.runtime.files import Readers
    from nearkin.runtime.sizes import parse_memory

    with closing(o.open_progress(quiet=output.quiet)) as progress:
        purged = repeat_run(
            PurgeRequest(folder, files),
            output.out,
            progress,
            o.read_key(resources.key_file),
            {"memory": parse_memory(memory, "--memory"), "workers": workers_or_cores(workers)},
            resume=resume,
            overwrite=output.overwrite,
            readers=Readers(output.readable_by),
            command_line=describe_command_line(ARGUMENTS.get()),
        )
    if output.json:
        print_json({"out": str(output.out), **purged.to_json()})
        return
    print_purged(purged.purged)
    kept = sum(row.was_kept for row in purged.purged)
    typer.echo(
        f"removed {len(purged.purged):,} of {purged.compared:,} documents, of which {folder} had "
        f"kept {kept:,}; the result is in {output.out}"
    )


def print_purged(purged: "Sequence[PurgedDocument | PurgedRow]") -> None:
    """Prints the first documents of a purge, with the given one that each is like."""
    for document in purged[:SHOWN]:
        typer.echo(f"{document.similarity:.3f}  {document.id!r} is like {document.like!r}")
    if len(purged) > SHOWN:
        typer.echo(f"and {len(purged) - SHOWN:,} more, which --json lists")
