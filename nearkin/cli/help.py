"""`nearkin help`."""

from typing import Annotated, Any

import typer

ALL = ["all"]
"""The argument with which all commands are listed."""


def help(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, for example index build, or all, which lists all of them."),
    ] = None,
) -> None:
    """Show the help page of a command, or list all commands.

    Examples:
        nearkin help all

        nearkin help dedup
    """
    root: Any = context.find_root()
    if command == ALL:
        typer.echo(root.command.describe_all())
    else:
        words = [*(command or ()), "--help"]
        root.command.main(words, prog_name=root.info_name, standalone_mode=False)
