"""`nearkin lab merge`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count


@with_option_groups
def merge(
    *,
    files: Annotated[
        list[Path], typer.Argument(help="Signature files with the same Spec, or folders of runs.")
    ],
    out: Path,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Merge signature files, or sum cluster sizes over runs.

    Of signature files, documents with the same id become one, with the signature of the union of
    their shingles. Of folders of runs with --sizes, the kept documents are deduplicated, and the
    sizes of their clusters are summed.

    Examples:
        nearkin lab merge monday.arrow tuesday.arrow --out week.arrow

        nearkin lab merge monday/ tuesday/ --out sizes.parquet
    """
    if all(path.is_dir() for path in files):
        merge_runs(files, out, overwrite=overwrite, as_json=json)
        return
    folder = next((path for path in files if path.is_dir()), None)
    if folder is not None:
        from nearkin.errors import UsageError

        raise UsageError(
            f"{folder} is a folder, and other inputs are files; merge signature files alone, or "
            "output folders of runs with --sizes alone"
        )
    with file_imports():
        from nearkin.runs.sketch import require_signature_output
        from nearkin.runtime.outputs import published_file
        from nearkin.stages.sketch.signature_file import merge_signatures

    require_signature_output(out, files, overwrite=overwrite)
    with published_file(out, "nearkin lab merge", replaces=overwrite) as staged:
        documents = merge_signatures(files, staged)
    if json:
        print_json({"out": str(out), "documents": documents})
    else:
        print_line(f"{documents:,} signatures in {out}")


def merge_runs(folders: list[Path], out: Path, *, overwrite: bool, as_json: bool) -> None:
    """Writes the sizes of the clusters over several runs."""
    with file_imports():
        from nearkin.errors import UsageError
        from nearkin.runs.merged_sizes import merge_sizes
        from nearkin.runs.output import require_file_output
        from nearkin.runs.table_files import TableFile, publish_table
        from nearkin.runtime.progress import Silent
        from nearkin.runtime.setting_names import name_flag, name_setting

    TableFile.require(out)
    if overwrite:
        raise UsageError(
            f"{name_flag('overwrite')} has no effect on sizes of runs, which never replace a file; "
            f"delete {out}, or choose another {name_setting('out')}"
        )
    require_file_output(out, lambda path: False, "sizes of runs", folders, overwrite=False)
    sizes = merge_sizes(folders, Silent())
    publish_table(sizes, out, "nearkin lab merge")
    if as_json:
        print_json({"out": str(out), "documents": sizes.num_rows})
    else:
        print_line(f"{format_count(sizes.num_rows, 'cluster')} in {out}")
