"""`nearkin experiment`."""

from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.option_groups import RUN, with_option_groups
from nearkin.cli.printing import print_json

if TYPE_CHECKING:
    from rich.table import Table

    from nearkin.lab.experiment import Experiment


@with_option_groups
def experiment(
    name: Annotated[
        str, typer.Argument(help="Name of the experiment: bands, a table of bands and rows.")
    ] = "bands",
    largest: Annotated[
        int,
        typer.Option(
            help="Number of documents of the largest corpus of the growth table.",
            rich_help_panel=RUN,
        ),
    ] = 100_000,
    seed: Annotated[
        int, typer.Option(help="Random seed for the generated texts.", rich_help_panel=RUN)
    ] = 1,
    json: o.Json = False,
) -> None:
    """Compare bands and rows with brute force on a generated corpus.

    A second table shows how candidates and time grow with the corpus.

    Examples:
        nearkin experiment bands

        nearkin experiment bands --largest 10000 --json
    """
    from nearkin.errors import UsageError
    from nearkin.lab.experiment import SIZES, run_experiment

    if name != "bands":
        raise UsageError(f"experiment {name!r} is not one of bands")
    if largest < SIZES[0]:
        raise UsageError(f"largest={largest} is below {SIZES[0]}")
    found = run_experiment(tuple(size for size in SIZES if size <= largest), seed)
    if json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    console = Console()
    console.print(_bands_table(found))
    console.print(_growth_table(found))


def _bands_table(found: "Experiment") -> "Table":
    from nearkin.report.terminal.tables import text_table

    rows = [
        (
            f"{row.bands} × {row.rows}" if row.bands else "every pair",
            f"{row.threshold:.3f}",
            f"{row.precision:.2f}",
            f"{row.recall:.2f}",
            f"{row.f1:.2f}",
            f"{row.candidates:,}",
            f"{row.reduction:.1%}",
        )
        for row in found.rows
    ]
    names = ("b × r", "(1/b)^1/r", "precision", "recall", "F1", "candidates", "reduction")
    title = "100 documents of 80 words, 25 planted pairs, threshold 0.5"
    return text_table(title, names, rows)


def _growth_table(found: "Experiment") -> "Table":
    from nearkin.report.terminal.tables import text_table

    rows = [
        (
            f"{row.documents:,}",
            f"{row.pairs:,}",
            f"{row.candidates:,}",
            f"{row.seconds:.3f} s",
            "" if row.brute is None else f"{row.brute:.3f} s",
        )
        for row in found.growth
    ]
    names = ("documents", "pairs", "candidates of 20 × 5", "time", "every pair")
    return text_table("Growth, a quarter of the documents planted", names, rows)
