"""`nearkin experiment`."""

from typing import Annotated

import typer

from nearkin.cli import options as o


def experiment(
    name: Annotated[str, typer.Argument(help="bands: the classic table of bands and rows.")] = "bands",
    largest: Annotated[int, typer.Option(help="Documents of the largest corpus of the growth.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the generated texts.")] = 1,
    json: o.Json = False,
) -> None:
    """Bands against rows on a small generated set, brute force beside them; and how candidates and time grow.

    Examples:

        nearkin experiment bands

        nearkin experiment bands --largest 10000 --json
    """
    from nearkin.errors import UsageError
    from nearkin.lab.experiment import SIZES
    from nearkin.lab.experiment import run_experiment as run

    if name != "bands":
        raise UsageError(f"experiment {name!r} is not one of bands")
    if largest < SIZES[0]:
        raise UsageError(f"largest={largest} is below {SIZES[0]}")
    found = run(tuple(size for size in SIZES if size <= largest), seed)
    if json:
        o.print_json(found.to_dict())
        return
    from rich.console import Console

    from nearkin.report.terminal.tables import text_table

    console = Console()
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
    console.print(text_table("100 documents of 80 words, 25 planted pairs, threshold 0.5", names, rows))
    grown = [
        (
            f"{row.documents:,}",
            f"{row.pairs:,}",
            f"{row.candidates:,}",
            f"{row.seconds:.3f} s",
            "" if row.brute is None else f"{row.brute:.3f} s",
        )
        for row in found.growth
    ]
    titles = ("documents", "pairs", "candidates of 20 × 5", "time", "every pair")
    console.print(text_table("Growth, a quarter of the documents planted", titles, grown))
