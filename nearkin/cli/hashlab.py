"""`nearkin hashlab`."""

from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import RUN
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json


@with_option_groups
def hashlab(
    *,
    trials: Annotated[
        int,
        typer.Option(
            help="Number of pairs of sets for each estimate, at least 2.", rich_help_panel=RUN
        ),
    ] = 200,
    samples: Annotated[
        int,
        typer.Option(
            help="Number of random inputs whose bits are flipped, at least 2.", rich_help_panel=RUN
        ),
    ] = 2000,
    runs: Annotated[
        int,
        typer.Option(
            help="Number of runs of each rate, at least 2. The median counts.", rich_help_panel=RUN
        ),
    ] = 5,
    json: o.Json = False,
) -> None:
    """Compare hash families and MinHash schemes: throughput, bias, variance and avalanche.

    References are affine functions modulo 2^61 - 1 and SHA-256. A variance of 1 is that of fully random functions.

    Args:
        samples: Number of random inputs whose bits are flipped, at least 2.

    Examples:
        nearkin hashlab

        nearkin hashlab --trials 1000 --json
    """  # noqa: E501
    from nearkin.errors import UsageError
    from nearkin.quality.lab.hashlab import compare_hashes

    for name, value in (("trials", trials), ("samples", samples), ("runs", runs)):
        if value < 2:
            raise UsageError(f"--{name} {value} is out of range; it must be at least 2")
    lab = compare_hashes(trials, samples, runs)
    if json:
        print_json(lab.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.terminal.tables import text_table

    console = Console()
    rates = [
        (row.family, f"{row.words:,.0f}", "" if row.blocks is None else f"{row.blocks:,.0f}")
        for row in lab.throughput
    ]
    names = ("family", "words MB/s", "1 KiB blocks MB/s")
    console.print(text_table("Throughput, one thread", names, rates))
    estimates = [
        (
            row.family,
            row.scheme,
            row.sets,
            f"{row.bias:+.4f} ± {row.bias_error:.4f}",
            f"{row.variance:.2f}",
        )
        for row in lab.accuracy
    ]
    title = "Estimate of Jaccard similarity 1/2, k = 128"
    columns = ("family", "scheme", "sets", "bias", "variance / theory")
    console.print(text_table(title, columns, estimates))
    flips = [(row.family, f"{row.mean:.4f}", f"{row.worst:.3f}") for row in lab.avalanche]
    title = "Avalanche, 8-byte inputs (0.5 is ideal)"
    console.print(text_table(title, ("family", "mean flip rate", "worst bias"), flips))
