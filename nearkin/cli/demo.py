"""`nearkin demo`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from nearkin.cli import options as o

WIDE_CHOICE = 400
"""Clusters among which the most interesting ones are looked for."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where the result goes.")] = Path("demo"),
    threshold: o.Threshold = 0.7,
    top: Annotated[int, typer.Option(help="Clusters to show.")] = 10,
    workers: o.Workers = None,
    overwrite: o.Overwrite = False,
    readable_by: o.ReadableBy = "owner",
    json: o.Json = False,
) -> None:
    """Deduplicate the source code of this Python installation, a document for each function and class; show what was cloned.

    Examples:

        nearkin demo

        nearkin demo --threshold 0.9 --top 3 --out demo/ --overwrite
    """
    from nearkin.cli.dedup import show
    from nearkin.corpus import Columns
    from nearkin.engine.options import RunOptions
    from nearkin.lab.demo_corpus import write_source_corpus
    from nearkin.runs.dedup import run_dedup
    from nearkin.runs.job import Job
    from nearkin.runtime.files import Readers
    from nearkin.runtime.outputs import require_outside_work_folders

    require_outside_work_folders(out)
    shown = o.progress()
    with TemporaryDirectory(prefix="nearkin-demo-") as folder:
        source = Path(folder) / "source-code.parquet"
        shown.stage("read source code", None)
        try:
            write_source_corpus(source)
            settings = RunOptions(threshold=threshold, source="package", workers=o.workers_or_cores(workers))
            columns = Columns(id="id", carried_columns=settings.carried_columns)
            readers = Readers(readable_by)
            job = Job((str(source),), out, columns, settings, overwrite=overwrite, quoted=WIDE_CHOICE, readers=readers)
            summary = run_dedup(job, shown)
        finally:
            shown.close()
    if not json:
        _show_clusters(out, top)
    show(summary, out, json)


def _show_clusters(out: Path, top: int) -> None:
    from rich.console import Console

    from nearkin.report.files import read_report
    from nearkin.report.terminal.clusters import print_clusters

    print_clusters(read_report(out), Console(), top)
