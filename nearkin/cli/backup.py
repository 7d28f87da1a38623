"""`nearkin backup` and `nearkin restore`: the embedded store, copied while it is in use, and put back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.index import say

if TYPE_CHECKING:
    from nearkin.index.backup import Copied

Url = Annotated[str, typer.Argument(help="Of the index: sqlite:///file.db.", metavar="URL")]


def backup(
    url: Url,
    out: Annotated[Path, typer.Option(help="The copy: one file.")],
    overwrite: o.Overwrite = False,
    json: o.Json = False,
) -> None:
    """Copy an index while a server, or anything else, writes to it; the copy is looked through before it is called done.

    Examples:

        nearkin backup sqlite:///nearkin.db --out backups/monday.db
    """
    from nearkin.index.backup import backup as copy
    from nearkin.index.backup import is_index_file
    from nearkin.runs.output import require_file_output

    require_file_output(out, is_index_file, "a backup of an index", overwrite=overwrite)
    _tell(copy(url, out), json)


def restore(
    file: Annotated[Path, typer.Argument(help="What nearkin backup wrote.")],
    url: Url,
    overwrite: o.Overwrite = False,
    json: o.Json = False,
) -> None:
    """Put a backup where an index is opened from; no process may have that open.

    Examples:

        nearkin restore backups/monday.db sqlite:///nearkin.db --overwrite
    """
    from nearkin.index.backup import restore as put_back

    _tell(put_back(file, url, overwrite), json)


def _tell(copied: "Copied", json: bool) -> None:
    say(copied.to_dict(), json)
    if copied.key_id is not None:
        typer.echo(
            f"it is of no use without the key {copied.key_id}, which is not in it: keep a copy of the key file", err=True
        )
