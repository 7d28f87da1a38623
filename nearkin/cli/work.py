"""`nearkin work`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_format import format_count
from nearkin.runtime.number_range import NumberRange
from nearkin.settings.setting import RUN, setting


@with_option_groups
def work(
    *,
    folder: Annotated[
        Path, typer.Argument(help="Work folder of the run: its output with .partial appended.")
    ],
    wait: float = setting(
        600, "Seconds without a task after which the worker ends.", RUN, range=NumberRange(0, 1e9)
    ),
) -> None:
    """Do tasks of a run with --executor jobs, on any machine.

    The machine must see the work folder of the run. Start it as often as tasks are to be done at a
    time, before or after the run. It ends with the run. A worker that is killed loses nothing:
    others do its task again.

    Examples:
        nearkin work out.partial
    """
    with file_imports():
        from nearkin.executors.job_worker import work_on
        from nearkin.runtime.files import disk_errors

    with disk_errors(folder):
        tasks = work_on(folder.absolute(), wait)
    print_line(f"did {format_count(tasks, 'task')} of {folder}")
