"""`nearkin bench`."""

from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import RUN
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json


@with_option_groups
def bench(
    *,
    documents: Annotated[
        int, typer.Option(help="Number of documents of the whole runs.", rich_help_panel=RUN)
    ] = 100_000,
    runs: Annotated[
        int,
        typer.Option(help="Number of runs of each figure. The median counts.", rich_help_panel=RUN),
    ] = 3,
    json: o.Json = False,
) -> None:
    """Measure this machine: sketching in MB/s with one thread, and whole runs of pairs and dedup.

    Examples:
        nearkin bench

        nearkin bench --documents 400000 --json
    """
    from nearkin.quality.lab.bench import measure_sketching, measure_whole_runs, results_to_dict

    figures = [*measure_sketching(runs), *measure_whole_runs(documents, runs)]
    if json:
        print_json(results_to_dict(figures))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None)
    table.add_column("figure")
    for name in ("median", "least", "most"):
        table.add_column(name, justify="right")
    for figure in figures:
        median_and_range = (figure.value, min(figure.runs), max(figure.runs))
        table.add_row(figure.name, *(f"{value:,.2f} {figure.unit}" for value in median_and_range))
    Console().print(table)
