"""`nearkin config`: the file with the defaults of options."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nearkin.cli.commands import make_group
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json

if TYPE_CHECKING:
    from nearkin.cli.config_file import ConfigFile

config = make_group("config", "Show the file with the defaults of options, and check it.")


@config.callback()
def describe_group() -> None:
    """Show the file with the defaults of options, and check it."""


@config.command()
@with_option_groups
def show(*, json: bool = False) -> None:
    """Show the file whose defaults hold in this folder. All its tables are checked.

    Examples:
        nearkin config show

        nearkin config show --json
    """
    from typer.main import get_command

    from nearkin.cli.app import app
    from nearkin.cli.config_file import FILE_NAME, PROJECT_FILE, ConfigFile, searched_folders
    from nearkin.engine.settings_file import format_value

    found = ConfigFile.find(Path.cwd())
    if found is None:
        searched = searched_folders(Path.cwd())
        if json:
            print_json({"file": None, "searched": [str(folder) for folder in searched]})
            return
        up_to = "" if len(searched) == 1 else f" and the folders above it up to {searched[-1]}"
        typer.echo(f"no {FILE_NAME} and no [tool.nearkin] in {PROJECT_FILE}: {searched[0]}{up_to}")
        return
    root: Any = get_command(app)
    tables = dict(_check_tables(found, root.commands, ()))
    if json:
        print_json({"file": str(found.path), "defaults": tables})
        return
    typer.echo(f"# {found.path}")
    for name, table in tables.items():
        typer.echo(f"\n[{name.replace(' ', '.')}]")
        for key, value in table.items():
            typer.echo(f"{key} = {format_value(value)}")


def _check_tables(
    found: "ConfigFile", commands: Mapping[str, Any], group: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields name and table of each command of a file, after checking its keys and values."""
    from nearkin.errors import UsageError
    from nearkin.runtime.suggestions import did_you_mean

    for name in found.table_of(" ".join(group)):
        path = (*group, name)
        if name not in commands:
            raise UsageError(
                f"{found.path}: {'.'.join(path)!r} is not a command{did_you_mean(name, commands)}"
            )
        command = commands[name]
        if hasattr(command, "commands"):
            yield from _check_tables(found, command.commands, path)
        else:
            found.defaults_of(command, " ".join(path))
            yield " ".join(path), found.table_of(" ".join(path))
