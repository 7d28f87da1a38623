"""`nearkin shadow`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o


def shadow(
    run: Annotated[Path, typer.Argument(help="The folder of a run saved with signatures.")],
    against: Annotated[str, typer.Option(help="Settings to compare with, as 'b=16,r=8,threshold=0.8'.", metavar="SETTINGS")],
    golden: Annotated[
        Path | None, typer.Option(help="Labels, CSV or parquet: id_a, id_b (label); or id, cluster.", metavar="FILE")
    ] = None,
    show: Annotated[int, typer.Option(help="Disagreements to list.")] = 20,
    key_file: o.KeyFile = None,
    workers: o.Workers = None,
    json: o.Json = False,
) -> None:
    """Compare a run's settings with others over the same signatures: candidates, recall, precision, seconds, disagreements.

    Nothing is changed: the run stays as it is, and neither of the two is promoted.

    Examples:

        nearkin shadow deduped/ --against "b=16,r=8"

        nearkin shadow deduped/ --against "threshold=0.7" --golden labels.csv
    """
    from nearkin.evaluate.shadow import parse_shadow_settings
    from nearkin.keys import HashKey
    from nearkin.runs.reopen import shadow_run

    secret = None if key_file is None else HashKey.read(key_file)
    shown = o.progress()
    try:
        found = shadow_run(
            run, parse_shadow_settings(against), shown, secret, golden=golden, listed=show, workers=o.workers_or_cores(workers)
        )
    finally:
        shown.close()
    if json:
        o.print_json(found.to_dict())
        return
    from rich.console import Console

    from nearkin.report.terminal.evaluation import print_shadow

    print_shadow(found, Console())
