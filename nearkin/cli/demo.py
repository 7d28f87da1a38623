"""`nearkin demo`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.option_groups import OUTPUT, with_option_groups

QUOTED_CLUSTERS = 400
"""The number of clusters among which the most interesting ones are chosen."""


@with_option_groups
def demo(
    *,
    out: Annotated[
        Path, typer.Option("--out", help="Output folder.", rich_help_panel=OUTPUT)
    ] = Path("demo"),
    threshold: o.Threshold = 0.7,
    top: Annotated[
        int, typer.Option(help="Number of clusters to show.", rich_help_panel=OUTPUT)
    ] = 10,
    workers: o.Workers = None,
    overwrite: o.Overwrite = False,
    readable_by: o.ReadableBy = "owner",
    json: o.Json = False,
) -> None:
    """Deduplicate the source code of this Python installation, and show what was copied.

    Each function and each class is a document.

    Args:
        out: Output folder or file.
        threshold: Minimum similarity of two near-duplicates, in (0, 1].
        top: Number of clusters that are shown.
        workers: Number of threads, or None for the number of cores.
        overwrite: Whether an existing output is replaced.
        readable_by: Users who may read the output: `owner`, `group` or `everyone`.
        json: Whether the result is printed as JSON.

    Examples:
        nearkin demo

        nearkin demo --threshold 0.9 --top 3 --out demo/ --overwrite
    """
    from tempfile import TemporaryDirectory

    from nearkin.cli.dedup import print_run
    from nearkin.corpus import Columns
    from nearkin.engine.options import RunOptions
    from nearkin.lab.demo_corpus import write_source_corpus
    from nearkin.runs.dedup import run_dedup
    from nearkin.runs.job import Job
    from nearkin.runtime.files import Readers
    from nearkin.runtime.outputs import require_outside_work_folders

    require_outside_work_folders(out)
    progress = o.open_progress()
    with TemporaryDirectory(prefix="nearkin-demo-") as folder:
        source = Path(folder) / "source-code.parquet"
        progress.stage("read source code", None)
        try:
            write_source_corpus(source)
            settings = RunOptions(
                threshold=threshold, source="package", workers=o.workers_or_cores(workers)
            )
            job = Job(
                (str(source),),
                out,
                Columns(id="id", carried_columns=settings.carried_columns),
                settings,
                overwrite=overwrite,
                quoted=QUOTED_CLUSTERS,
                readers=Readers(readable_by),
            )
            summary = run_dedup(job, progress)
        finally:
            progress.close()
    if not json:
        _print_clusters(out, top)
    print_run(summary, out, as_json=json)


def _print_clusters(out: Path, top: int) -> None:
    from rich.console import Console

    from nearkin.report.files import read_report
    from nearkin.report.terminal.clusters import print_clusters

    print_clusters(read_report(out), Console(), top)
