"""`nearkin demo`."""

from contextlib import ExitStack
from pathlib import Path

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.runtime.number_range import COUNT
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.setting import INPUT, OUTPUT, setting

QUOTED_CLUSTERS = 400
"""The number of clusters among which the most interesting ones are chosen."""


@with_option_groups
def demo(
    *,
    out: Path = setting(Path("demo"), "Output folder.", OUTPUT, short="-o"),
    source_code: bool = setting(
        False, "Deduplicate the source code of this Python installation instead.", INPUT
    ),
    threshold: float = 0.7,
    top: int = setting(3, "Number of clusters to show, without --json.", OUTPUT, range=COUNT),
    workers: int | None = None,
    overwrite: bool = False,
    readable_by: str = "owner",
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Deduplicate press releases that come with nearkin.

    What was found is shown. The archive has 237 invented releases. Many were sent again by a wire
    service, a newspaper and a portal, which changed them. With --source-code, the documents are the
    functions and classes of this Python installation.

    Examples:
        nearkin demo

        nearkin demo --source-code --threshold 0.9 --top 5 --out copied-code/
    """
    with file_imports():
        from nearkin.cli.command_line import ARGUMENTS, describe_command_line
        from nearkin.cli.dedup import print_run
        from nearkin.corpus import Columns
        from nearkin.engine.options import RunOptions
        from nearkin.quality.lab.demo_corpus import (
            MIN_COPIED_LINES,
            PRESS_RELEASES,
            PRESS_RELEASES_KEEP,
            SOURCE_CODE_SPEC,
            write_source_corpus,
        )
        from nearkin.runs.dedup import run_dedup
        from nearkin.runs.job import Job
        from nearkin.runs.output import require_output_free
        from nearkin.runtime.files import Readers
        from nearkin.runtime.outputs import require_outside_work_folders

    require_outside_work_folders(out)
    require_output_free(out, resume=False, overwrite=overwrite)
    cores = workers_or_cores(workers)
    if source_code:
        settings = RunOptions(
            spec=SOURCE_CODE_SPEC, threshold=threshold, source="package", workers=cores
        )
    else:
        settings = RunOptions(
            threshold=threshold, source="source", keep=PRESS_RELEASES_KEEP, workers=cores
        )
    progress = o.open_progress(quiet=quiet)
    with ExitStack() as stack:
        stack.callback(progress.close)
        corpus = PRESS_RELEASES
        if source_code:
            folder = stack.enter_context(TemporaryFolder())
            corpus = folder / "source-code.parquet"
            progress.stage("read source code", None)
            write_source_corpus(corpus, least_lines=MIN_COPIED_LINES)
        job = Job(
            (str(corpus),),
            out,
            Columns(id="id", carried_columns=settings.carried_columns),
            settings,
            overwrite=overwrite,
            quoted=QUOTED_CLUSTERS,
            readers=Readers(readable_by),
            command_line=describe_command_line(ARGUMENTS.get()),
        )
        record = run_dedup(job, progress)
    if not json and not quiet:
        _print_clusters(out, top)
    print_run(record, out, as_json=json, is_brief=quiet, can_explain=not source_code)


def _print_clusters(out: Path, top: int) -> None:
    """Prints the most interesting clusters."""
    from rich.console import Console

    from nearkin.reports.files import read_report
    from nearkin.reports.terminal.clusters import print_clusters

    console = Console()
    print_clusters(read_report(out), console, top)
    console.print()
