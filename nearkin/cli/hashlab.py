"""`nearkin hashlab`."""

from typing import Annotated

import typer

from nearkin.cli import options as o


def hashlab(
    trials: Annotated[int, typer.Option(help="Pairs of sets that each estimate is judged by.")] = 200,
    samples: Annotated[int, typer.Option(help="Random inputs whose bits are flipped.")] = 2000,
    runs: Annotated[int, typer.Option(help="Runs of each rate; the median counts.")] = 5,
    json: o.Json = False,
) -> None:
    """Compare hash families and MinHash schemes: throughput, bias and variance against the theory, avalanche.

    References are affine functions modulo 2^61 - 1 and SHA-256. A variance of 1 is that of fully random functions.

    Examples:

        nearkin hashlab

        nearkin hashlab --trials 1000 --json
    """
    from nearkin.errors import UsageError
    from nearkin.lab.hashlab import compare_hashes

    if min(trials, samples, runs) < 2:
        raise UsageError(f"trials={trials}, samples={samples} and runs={runs} are at least 2")
    lab = compare_hashes(trials, samples, runs)
    if json:
        o.print_json(lab.to_dict())
        return
    from rich.console import Console

    from nearkin.report.terminal.tables import text_table

    console = Console()
    rates = [(row.family, f"{row.words:,.0f}", rate(row.blocks)) for row in lab.throughput]
    console.print(text_table("Throughput, one thread", ("family", "words MB/s", "1 KiB blocks MB/s"), rates))
    found = [
        (row.family, row.scheme, row.sets, f"{row.bias:+.4f} ± {row.bias_error:.4f}", f"{row.variance:.2f}")
        for row in lab.accuracy
    ]
    names = ("family", "scheme", "sets", "bias", "variance / theory")
    console.print(text_table("Estimate of Jaccard similarity 1/2, k = 128", names, found))
    flips = [(row.family, f"{row.mean:.4f}", f"{row.worst:.3f}") for row in lab.avalanche]
    console.print(text_table("Avalanche, 8-byte inputs (0.5 is right)", ("family", "mean flip rate", "worst bias"), flips))


def rate(value: float | None) -> str:
    """MB/s, or nothing where that makes no sense."""
    return "" if value is None else f"{value:,.0f}"
