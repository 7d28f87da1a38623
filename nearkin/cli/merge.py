"""`nearkin merge`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o


def merge(
    files: Annotated[list[Path], typer.Argument(help="Signature files of one Spec.")],
    out: o.Out,
    overwrite: o.Overwrite = False,
    json: o.Json = False,
) -> None:
    """Join signature files. Documents with one id become one: the signature of the union of their shingles.

    Examples:

        nearkin merge monday.arrow tuesday.arrow --out week.arrow
    """
    from nearkin.corpus.signatures import merge_signatures
    from nearkin.jobs import claim_file
    from nearkin.runtime.files import disk_errors

    claim_file(out, overwrite)
    with disk_errors(out.parent):
        documents = merge_signatures(files, out)
    if json:
        o.print_json({"out": str(out), "documents": documents})
    else:
        sys.stderr.write(f"{documents:,} signatures in {out}\n")
