"""`nearkin audit`."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.runtime.number_range import COUNT, COUNT_OR_NONE, UNSIGNED_64
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.settings.setting import RUN, VERIFICATION, Setting, setting

Run = Annotated[Path, typer.Argument(help="Output folder of a finished run.", metavar="DIR")]
GoldenFile = Annotated[
    Path | None,
    Setting(
        "Labelled documents, CSV or parquet, with columns id_a, id_b (label); or id, cluster.",
        VERIFICATION,
        metavar="FILE",
    ),
]


@with_option_groups
def audit(
    *,
    run: Run,
    sample: int = setting(
        1000,
        "Number of documents that are compared with the whole corpus, at least 1.",
        VERIFICATION,
        range=COUNT,
    ),
    removed: int = setting(
        5000,
        "Number of removed documents that are compared with the kept one.",
        VERIFICATION,
        range=COUNT_OR_NONE,
    ),
    budget: str | None = setting(
        None,
        "Time after which the audit ends with what it has reached, for example 60s.",
        RUN,
        metavar="TIME",
        shown_default="no limit",
        range=COUNT,
    ),
    seed: int = setting(1, "Random seed for sampling.", VERIFICATION, range=UNSIGNED_64),
    golden: GoldenFile = None,
    key_file: str | None = None,
    workers: int | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Measure the precision and the recall of a run.

    They are measured on its own corpus. Both have a 95 % interval. Recall is also listed by similarity, beside the prediction of the S-curve. The result is
    written into run.json and the report.

    Examples:
        nearkin audit deduped/

        nearkin audit deduped/ --sample 5000 --budget 5m
    """  # noqa: E501
    from nearkin.runtime.deadline import Deadline

    # The time for loading and compiling counts as well.
    deadline = Deadline(o.parse_seconds(budget, "--budget"))
    with file_imports():
        from nearkin.runs.reopen import audit_run

    secret = o.read_key(key_file)
    with closing(o.open_progress(quiet=quiet)) as progress:
        measured = audit_run(
            run,
            progress,
            secret,
            sample=sample,
            removed=removed,
            deadline=deadline,
            seed=seed,
            workers=workers_or_cores(workers),
            golden=golden,
        )
    if json:
        print_json({**measured.audit.to_dict(), "metrics": measured.metrics.to_dict()})
        return
    from rich.console import Console

    from nearkin.reports.terminal.evaluation import print_audit

    golden_recall = None if golden is None else measured.metrics.recall_on_labeled_set
    print_audit(measured.audit, golden_recall, Console())
