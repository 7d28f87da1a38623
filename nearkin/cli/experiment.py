"""`nearkin experiment`."""

from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.option_groups import RUN, with_option_groups
from nearkin.cli.printing import print_json

if TYPE_CHECKING:
    from rich.table import Table

    from nearkin.lab.experiment import Experiment

NAMES = ("bands",)
"""The names of the experiments."""


@with_option_groups
def experiment(
    *,
    name: Annotated[
        str, typer.Argument(help="Name of the experiment: bands, a table of bands and rows.")
    ] = "bands",
    largest: Annotated[
        int,
        typer.Option(
            help="Number of documents of the largest corpus of the growth table. More than 3,000 "
            "documents are projected.",
            rich_help_panel=RUN,
        ),
    ] = 1_000_000,
    seed: Annotated[
        int, typer.Option(help="Random seed for the generated texts.", rich_help_panel=RUN)
    ] = 1,
    json: o.Json = False,
) -> None:
    """Compare bands and rows with brute force on a generated corpus of common words.

    The table lists the candidates of a published case study beside the measured ones, and the best
    choice below. A second table shows how candidates and time grow with the corpus.

    Args:
        name: Name of the experiment.
        largest: Number of documents of the largest corpus of the growth table.
        seed: Random seed.
        json: Whether the result is printed as JSON.

    Raises:
        UsageError: If the experiment is unknown, or the corpus is too small.

    Examples:
        nearkin experiment bands

        nearkin experiment bands --largest 1000 --json
    """
    from nearkin.errors import UsageError
    from nearkin.lab.experiment import SIZES, run_experiment
    from nearkin.suggestions import did_you_mean

    if name not in NAMES:
        raise UsageError(
            f"unknown experiment {name!r}; the only experiment is bands{did_you_mean(name, NAMES)}"
        )
    comparison = run_experiment(tuple(size for size in SIZES if size <= largest), seed)
    if json:
        print_json(comparison.to_dict())
        return
    from rich.console import Console

    console = Console()
    console.print(_bands_table(comparison))
    console.print(_optimum_text(comparison))
    console.print(_growth_table(comparison))


def _bands_table(result: "Experiment") -> "Table":
    from nearkin.report.terminal.tables import text_table

    rows = [
        (
            f"{row.bands} × {row.rows}" if row.bands else "every pair",
            f"{row.threshold:.3f}",
            f"{row.candidates:,}",
            "" if row.published is None else f"{row.published:,}",
            f"{row.reduction:.1%}",
            f"{row.candidate_precision:.2f}",
            f"{row.precision:.2f}",
            f"{row.recall:.2f}",
            f"{row.f1:.2f}",
        )
        for row in result.rows
    ]
    names = (
        "b × r",
        "(1/b)^1/r",
        "candidates",
        "published",
        "reduction",
        "true cand.",
        "precision",
        "recall",
        "F1",
    )
    title = "100 documents of 80 common words, 25 planted pairs, threshold 0.5"
    return text_table(title, names, rows)


def _optimum_text(result: "Experiment") -> str:
    best = result.optimum
    pairs = result.rows[-1].candidates
    text = (
        f"Highest F1: {best.bands} bands of {best.rows} rows, with {best.candidates:,} instead of "
        f"{pairs:,} comparisons (reduction {best.reduction:.1%})"
    )
    largest = result.growth[-1]
    if largest.is_projected:
        text += (
            f"; 20 bands of 5 rows are projected to compare {largest.candidates:,} instead of "
            f"{largest.pairs:,} pairs of {largest.documents:,} documents"
        )
    return text + "."


def _growth_table(result: "Experiment") -> "Table":
    from nearkin.report.terminal.tables import text_table

    rows = [
        (
            f"{row.documents:,}",
            f"{row.pairs:,}",
            f"{row.candidates:,}",
            f"{1 - row.candidates / row.pairs:.1%}",
            "projected" if row.seconds is None else f"{row.seconds:.3f} s",
            "" if row.brute is None else f"{row.brute:.3f} s",
        )
        for row in result.growth
    ]
    names = ("documents", "pairs", "candidates of 20 × 5", "reduction", "time", "every pair")
    return text_table("Growth, a quarter of the documents planted", names, rows)
