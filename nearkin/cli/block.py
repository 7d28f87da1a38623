"""`nearkin block`: the entries of a blocklist."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.commands import make_group
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_facts, print_json, require_documents
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.setting import INPUT, OUTPUT, Setting, setting

if TYPE_CHECKING:
    from nearkin.runs.blocklist import BlocklistSummary
    from nearkin.runs.job import SpecJob

block = make_group("block", "Create, change and show a blocklist of documents.")

ListFile = Annotated[
    Path,
    Setting("File of the blocklist.", OUTPUT, metavar="LIST"),
]


@block.command()
@with_option_groups
def add(
    *,
    inputs: o.InputFiles,
    list_file: ListFile,
    columns: o.ColumnOptions,
    reading: o.ReadOptions,
    spec: o.UncountedSpecOptions,
    json: bool = False,
) -> None:
    """Add documents to a blocklist. It is created if it does not exist, and holds no texts.

    Documents that are listed already are not added again. The list is replaced at once, when all
    documents are read.

    Examples:
        nearkin block add withdrawn.jsonl --id request --list blocked.list --key-file key.txt
    """
    with file_imports():
        from nearkin.runs.blocklist import add_files_to_blocklist

    job = _make_job(inputs, list_file, columns, reading, spec)
    _print_summary(add_files_to_blocklist(job), "added", as_json=json)


@block.command()
@with_option_groups
def remove(
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Files, globs, folders or URLs of documents that are blocked."),
    ] = None,
    list_file: ListFile,
    entry: list[str] | None = setting(
        None, "Name of an entry to remove. May be repeated.", INPUT, metavar="NAME"
    ),
    columns: o.ColumnOptions,
    reading: o.ReadOptions,
    key_file: str | None = None,
    json: bool = False,
) -> None:
    """Remove the entries of documents, or of names, from a blocklist.

    The entry of a document is the one with the same shingles. Similar entries stay.

    Examples:
        nearkin block remove --entry request-7 --list blocked.list
    """
    from nearkin.errors import UsageError

    with file_imports():
        from nearkin.runs.blocklist import remove_from_blocklist

    if not inputs and not entry:
        raise UsageError("nothing to remove; name files of documents, or entries with --entry")
    spec = o.UncountedSpecOptions(key_file=key_file)
    job = _make_job(inputs or [], list_file, columns, reading, spec)
    _print_summary(remove_from_blocklist(job, entry or ()), "removed", as_json=json)


@block.command()
@with_option_groups
def info(
    *,
    blocklist: Annotated[Path, typer.Argument(help="File of the blocklist.", metavar="LIST")],
    entries: bool = setting(False, "List the names of the entries.", ""),
    json: bool = False,
) -> None:
    """Show the number of entries of a blocklist, and their Spec.

    Examples:
        nearkin block info blocked.list
    """
    from json import loads

    from nearkin.engine.blocklist.blocklist import Blocklist

    opened = Blocklist.open(blocklist)
    spec = opened.spec
    facts: dict[str, object] = {
        "entries": len(opened),
        "shingle_hashes": opened.shingles,
        "bytes": blocklist.stat().st_size,
        "key_id": spec.key_id or "not keyed",
        "spec_fingerprint": spec.fingerprint,
    }
    if json:
        facts["spec"] = loads(spec.to_json())
        if entries:
            facts["names"] = list(opened.ids)
        print_json(facts)
        return
    print_facts(facts, as_json=False)
    typer.echo(f"spec: {spec.to_json()}")
    if entries:
        for name in opened.ids:
            typer.echo(name)


def _make_job(
    inputs: list[str],
    blocklist: Path,
    columns: o.ColumnOptions,
    reading: o.ReadOptions,
    spec: o.UncountedSpecOptions,
) -> "SpecJob":
    """Returns the request of a command."""
    from nearkin.runs.job import SpecJob

    return SpecJob(
        tuple(inputs),
        blocklist,
        columns.to_columns(),
        o.parameters_of(spec),
        on_error=reading.on_error,
        selection=reading.selection,
    )


def _print_summary(summary: "BlocklistSummary", verb: str, *, as_json: bool) -> None:
    """Prints the outcome of a change."""
    if as_json:
        print_json(summary.to_json())
    else:
        typer.echo(
            f"{summary.changed:,} {'entry' if summary.changed == 1 else 'entries'} {verb} for "
            f"{format_count(summary.documents, 'document')}; "
            f"{make_visible(str(summary.path))} has {summary.entries:,}"
        )
    if summary.rejected:
        print_line(
            f"nearkin: warning: not {verb}, because they were rejected: "
            f"{format_count(summary.rejected, 'row')}; --on-error fail names the first of them"
        )
    if not summary.is_keyed:
        print_line(
            "nearkin: warning: the list is not keyed, so whoever reads it can test if a text is "
            "blocked; a list with --key-file prevents that"
        )
    require_documents(summary.documents, summary.rejected, "--on-error fail names the first")
