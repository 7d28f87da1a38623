"""`nearkin warm-up`."""

from contextlib import closing

import typer

from nearkin.cli.option_groups import with_option_groups
from nearkin.settings.setting import RUN, setting

USES = ("all", "dedup", "index")
"""The uses of `nearkin.runtime.kernel_list`, which loads Numba."""


@with_option_groups
def warm_up(
    *,
    use: str = setting(
        "all",
        "What is prepared: dedup for runs over files, index for online indexes, or all.",
        RUN,
        values=USES,
    ),
    workers: int | None = None,
    quiet: bool = False,
) -> None:
    """Compile the kernels that are missing on this machine.

    Later commands do not wait for the compiler then. Releases and the image contain compiled
    kernels. Use it after an installation from source, or while an image is built.

    Examples:
        nearkin warm-up

        nearkin warm-up --use index
    """
    from nearkin.cli.options import open_progress
    from nearkin.runtime.warm_up import warm_up as prepare

    with closing(open_progress(quiet=quiet)) as progress:
        warmed = prepare(use, workers=workers, progress=progress)
    if not quiet:
        typer.echo(str(warmed))
