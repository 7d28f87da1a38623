"""`nearkin shadow`."""

from contextlib import closing
from typing import Annotated

from nearkin.cli import options as o
from nearkin.cli.audit import GoldenFile, Run
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.runtime.number_range import COUNT
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.settings.setting import OUTPUT, RUN, Setting, setting


@with_option_groups
def shadow(
    *,
    run: Run,
    against: Annotated[
        str,
        Setting(
            "Settings to compare with, for example 'b=16,r=8,threshold=0.8'.",
            RUN,
            metavar="SETTINGS",
        ),
    ],
    golden: GoldenFile = None,
    show: int = setting(20, "Maximum number of disagreements to list.", OUTPUT, range=COUNT),
    key_file: str | None = None,
    workers: int | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Compare the settings of a saved run with other settings.

    Both use the same signatures. The comparison shows candidates, recall, precision, seconds and disagreements. The run is not changed.

    Examples:
        nearkin shadow deduped/ --against "b=16,r=8"

        nearkin shadow deduped/ --against "threshold=0.7" --golden labels.csv
    """  # noqa: E501
    with file_imports():
        from nearkin.quality.evaluate.shadow import parse_shadow_settings
        from nearkin.runs.reopen import shadow_run

    secret = o.read_key(key_file)
    settings = parse_shadow_settings(against)
    threads = workers_or_cores(workers)
    with closing(o.open_progress(quiet=quiet)) as progress:
        comparison = shadow_run(
            run, settings, progress, secret, golden=golden, listed=show, workers=threads
        )
    if json:
        print_json(comparison.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.terminal.evaluation import print_shadow

    print_shadow(comparison, Console())
