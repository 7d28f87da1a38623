"""`nearkin bench`."""

from typing import Annotated

import typer

from nearkin.cli import options as o


def bench(
    documents: Annotated[int, typer.Option(help="Documents of the whole runs.")] = 100_000,
    runs: Annotated[int, typer.Option(help="Runs of each figure; the median counts.")] = 3,
    json: o.Json = False,
) -> None:
    """Measure this machine: text to signatures (MB/s in one thread), and whole runs of pairs and dedup.

    Examples:

        nearkin bench

        nearkin bench --documents 400000 --json
    """
    from nearkin.lab.bench import measure_sketching, measure_whole_runs, results_to_dict

    measured = [*measure_sketching(runs), *measure_whole_runs(documents, runs)]
    if json:
        o.print_json(results_to_dict(measured))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None)
    for name, justify in (("figure", "left"), ("median", "right"), ("least", "right"), ("most", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for one in measured:
        table.add_row(one.name, *(f"{value:,.2f} {one.unit}" for value in (one.value, min(one.runs), max(one.runs))))
    Console().print(table)
