"""`nearkin audit`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o


def audit(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    sample: Annotated[int, typer.Option(help="Documents compared with the whole corpus.")] = 1000,
    removed: Annotated[int, typer.Option(help="Removed documents compared with the kept one.")] = 5000,
    budget: Annotated[str | None, typer.Option(help="Begin no further part of the sample after this, as 60s.")] = None,
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 1,
    golden: Annotated[Path | None, typer.Option(help="Labels for the metric recall_on_labeled_set, as for eval.")] = None,
    key_file: o.KeyFile = None,
    workers: o.Workers = None,
    json: o.Json = False,
) -> None:
    """Measure a run on its own corpus: precision of what was removed, recall of what should have been found.

    Both with a 95 % interval, recall also by similarity beside what the S-curve predicts; written into run.json and report.

    Examples:

        nearkin audit deduped/

        nearkin audit deduped/ --sample 5000 --budget 5m
    """
    from nearkin.errors import UsageError
    from nearkin.keys import HashKey
    from nearkin.runs.reopen import audit_run

    if sample < 1 or removed < 0:
        raise UsageError(f"sample={sample} is below 1, or removed={removed} below 0")
    secret = None if key_file is None else HashKey.read(key_file)
    shown = o.progress()
    try:
        found = audit_run(
            run, shown, secret, sample=sample, removed=removed, budget=o.seconds(budget, "--budget"), seed=seed,
            workers=o.workers_or_cores(workers), golden=golden,
        )  # fmt: skip
    finally:
        shown.close()
    if json:
        o.print_json({**found.audit.to_dict(), "metrics": found.metrics.to_dict()})
        return
    from rich.console import Console

    from nearkin.report.terminal.evaluation import print_audit

    print_audit(found.audit, Console())
