"""`nearkin diff`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.cli.standard_streams import print_line
from nearkin.settings.setting import OUTPUT, setting

RUNS_DIFFER = 3
"""The exit code if documents or clusters changed."""


@with_option_groups
def diff(
    *,
    first: Annotated[Path, typer.Argument(help="Output folder of the earlier run.")],
    second: Annotated[Path, typer.Argument(help="Output folder of the later run.")],
    out: Path | None = setting(
        None,
        "File for the documents that changed: .parquet, .csv, .tsv, .jsonl, .xlsx or .arrow.",
        OUTPUT,
        common=True,
        short="-o",
        metavar="PATH",
    ),
    clusters: Path | None = setting(
        None,
        "File for the clusters that changed, in the same formats.",
        OUTPUT,
        common=True,
        metavar="PATH",
    ),
    html: Path | None = setting(
        None, "Page with the changes.", OUTPUT, common=True, metavar="PATH"
    ),
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Compare two runs over a collection.

    It lists documents that became kept or removed, are new or were withdrawn, and clusters that were formed, grew, merged, dissolved, shrank or split. The exit code is 3 if there are any.

    Examples:
        nearkin diff monday/ tuesday/

        nearkin diff monday/ tuesday/ --out changed.csv --html changed.html
    """  # noqa: E501
    with file_imports():
        from nearkin.reports.files import write_page
        from nearkin.reports.run_diff_page import render_diff_page
        from nearkin.runs.diff import diff as compare
        from nearkin.runs.table_files import publish_table, require_new_table
        from nearkin.runtime.files import SHARED_FILE, disk_errors
        from nearkin.runtime.outputs import require_apart, require_page_output

    folders = (first, second)
    for path, option in ((out, "out"), (clusters, "clusters")):
        if path is not None:
            require_new_table(path, option)
            require_apart(path, folders, option=option)
    if html is not None:
        require_page_output(html, folders, "html")
    result = compare(first, second)
    if out is not None:
        publish_table(result.documents.arrow, out, "nearkin diff")
    if clusters is not None:
        publish_table(result.clusters.arrow, clusters, "nearkin diff")
    if html is not None:
        with disk_errors(html.parent):
            names = (str(first), str(second))
            page = render_diff_page(
                names, result.describe(), result.documents.arrow, result.clusters.arrow
            )
            write_page(html, page, SHARED_FILE)
    if json:
        print_json(result.to_dict())
    elif not quiet:
        for line in result.describe():
            print_line(line)
    if result.has_changes:
        raise typer.Exit(RUNS_DIFFER)
