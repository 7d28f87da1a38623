"""`nearkin merge`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json


@with_option_groups
def merge(
    *,
    files: Annotated[list[Path], typer.Argument(help="Signature files with the same Spec.")],
    out: o.Out,
    overwrite: o.Overwrite = False,
    json: o.Json = False,
) -> None:
    """Merge signature files.

    Documents with the same id become one, with the signature of the union of their shingles.

    Args:
        files: Signature files with the same Spec.
        out: Output file.
        overwrite: Whether an existing output is replaced.
        json: Whether the result is printed as JSON.

    Examples:
        nearkin merge monday.arrow tuesday.arrow --out week.arrow
    """
    with file_imports():
        from nearkin.runs.sketch import require_signature_output
        from nearkin.runtime.files import disk_errors
        from nearkin.runtime.outputs import RESULT, claimed
        from nearkin.sketch.signature_file import merge_signatures

    require_signature_output(out, files, overwrite=overwrite)
    with claimed(out, "nearkin merge", replaces=overwrite) as claim, disk_errors(out.parent):
        documents = merge_signatures(files, claim.path / RESULT)
        claim.publish_file(claim.path / RESULT)
    if json:
        print_json({"out": str(out), "documents": documents})
    else:
        sys.stderr.write(f"{documents:,} signatures in {out}\n")
