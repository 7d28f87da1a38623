"""`nearkin index backup` and `nearkin index restore`: consistent copies of an embedded store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_facts
from nearkin.settings.setting import INPUT, OUTPUT, Setting

if TYPE_CHECKING:
    from nearkin.index.backup import BackupResult

Store = Annotated[
    str,
    Setting("URL of the store of the index: sqlite:///file.db", INPUT, metavar="URL"),
]


@with_option_groups
def backup(
    *,
    store: Store,
    out: Annotated[
        Path,
        Setting("File of the copy.", OUTPUT, short="-o", metavar="FILE"),
    ],
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Copy an index while other processes write to it.

    The copy is checked before the command reports success.

    Examples:
        nearkin index backup --store sqlite:///nearkin.db --out backups/monday.db
    """
    from nearkin.index.backup import backup as copy_index
    from nearkin.index.backup import is_index_file
    from nearkin.runs.output import require_file_output

    require_file_output(out, is_index_file, "a backup of an index", overwrite=overwrite)
    _print_copied(copy_index(store, out), as_json=json)


@with_option_groups
def restore(
    *,
    file: Annotated[Path, typer.Argument(help="File that nearkin index backup wrote.")],
    store: Store,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Restore a backup to the place of an index. No process may have the index open.

    Examples:
        nearkin index restore backups/monday.db --store sqlite:///nearkin.db --overwrite
    """
    from nearkin.index.backup import restore as restore_index

    _print_copied(restore_index(file, store, overwrite=overwrite), as_json=json)


def _print_copied(copied: "BackupResult", *, as_json: bool) -> None:
    print_facts(copied.to_dict(), as_json=as_json)
    if copied.key_id is not None:
        typer.echo(
            f"the copy can only be used with the key {copied.key_id}, which it does not contain: "
            "keep a copy of the key file",
            err=True,
        )
