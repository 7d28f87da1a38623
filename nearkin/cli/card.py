"""`nearkin card`."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.settings.setting import OUTPUT, setting


@with_option_groups
def card(
    *,
    run: Annotated[Path, typer.Argument(help="Output folder of nearkin dedup.", metavar="DIR")],
    readme: Path | None = setting(
        None,
        "README.md in which the section is written or replaced. Nothing else of the file changes. "
        "A new file also gets metadata.",
        OUTPUT,
        metavar="FILE",
        shown_default="standard output",
    ),
) -> None:
    """Write the section of a dataset card with the figures of a run.

    It is written in Markdown.

    Examples:
        nearkin card deduped/

        nearkin card deduped/ --readme README.md
    """
    with file_imports():
        from nearkin.runs.card import DatasetCard

    made = DatasetCard(run)
    if readme is None:
        typer.echo(made.section, nl=False)
    else:
        made.write(readme)
