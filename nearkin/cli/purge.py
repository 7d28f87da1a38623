"""`nearkin purge`: the removal of stored documents that are like given ones."""

from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.index import open_existing_index
from nearkin.cli.option_groups import INPUT, RUN, with_option_groups
from nearkin.cli.printing import print_json, print_warnings

SHOWN = 10
"""The number of documents that the terminal lists."""


@with_option_groups
def purge(
    *,
    store: Annotated[str, typer.Argument(help="URL of the store of the index.", metavar="INDEX")],
    like: Annotated[
        list[str],
        typer.Option(
            "--like",
            help="Files, globs, folders or URLs of the documents. May be repeated.",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ],
    scope: Annotated[
        str,
        typer.Option(
            "--scope", help="Scope of the stored documents.", metavar="S", rich_help_panel=INPUT
        ),
    ],
    columns: o.ColumnOptions,
    reading: o.SelectionOptions,
    resources: o.IndexKeyOptions,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show what would be removed, and remove nothing.", rich_help_panel=RUN
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the documents.", rich_help_panel=RUN)
    ] = False,
    json: o.Json = False,
) -> None:
    """Remove the documents of an index that are like those of files.

    The files must be readable as a whole: a row that cannot be read ends the command.

    Args:
        store: URL of the store of the index.
        like: Files, globs, folders or URLs.
        scope: Scope of the stored documents.
        columns: Options for the columns of the files.
        reading: Options for the selection of files.
        resources: Options for the data that the Spec of the index refers to.
        dry_run: Whether documents are found only.
        yes: Whether they are removed.
        json: Whether the result is printed as JSON.

    Raises:
        UsageError: If neither or both of `--dry-run` and `--yes` are given, or an input is not
            valid.

    Examples:
        nearkin purge sqlite:///nearkin.db --like withdrawn.jsonl --scope web --dry-run
    """
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.purge import LikeFiles, purge_index

    if dry_run == yes:
        raise UsageError(
            "a purge needs exactly one of --dry-run, which shows what would be removed, and --yes, "
            "which removes it"
        )
    if "://" not in store:
        raise UsageError(
            f"{store!r} is not the URL of an index, such as sqlite:///nearkin.db; to leave "
            "documents out of files, run nearkin dedup with --blocklist"
        )
    files = LikeFiles(tuple(like), columns.to_columns(), reading.selection)
    with open_existing_index(store, resources) as index:
        blocklist = files.to_blocklist(index)
        result = purge_index(index, scope, blocklist, removes=yes)
        has_scope = bool(result.compared + result.unknown)
    warnings = []
    if not has_scope:
        warnings.append(f"the scope {scope!r} has no documents; check --scope and the URL")
    if result.unknown:
        warnings.append(
            f"{result.unknown:,} documents could not be compared, because the index does not keep "
            "their content"
        )
    print_warnings(warnings)
    if json:
        print_json(result.to_json())
        return
    for document in result.purged[:SHOWN]:
        typer.echo(f"{document.similarity:.3f}  {document.id!r} is like {document.like!r}")
    if len(result.purged) > SHOWN:
        typer.echo(f"and {len(result.purged) - SHOWN:,} more, which --json lists")
    verb = "were removed" if yes else "would be removed"
    count = result.removed if yes else len(result.purged)
    typer.echo(f"{count:,} of {result.compared:,} documents {verb}")
