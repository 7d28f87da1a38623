"""The table of commands: its descriptions, and the modules that are imported."""

import subprocess
import sys
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from nearkin.cli import app
from nearkin.cli.command_table import COMMANDS, GROUPS, CommandEntry, CommandTable

ROOT: Any = get_command(app.app)
ENTRIES = pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.path)
MOST_MODULES = {"--help": 21, "--version": 23}
"""The number of modules of nearkin that its help page and its versions need. The versions include
the state of the cache of compiled kernels."""
WRITTEN_BY_BUILDS = {"nearkin._version"}
"""Sources that were not built lack this module."""
IMPORTED = """
import sys
from nearkin.cli.app import run

code = run({arguments!r})
assert code == 0, code
print(*(name for name in sys.modules if name.partition(".")[0] == "nearkin"))
"""


def modules_after(*arguments: str) -> set[str]:
    """Returns the modules of nearkin that a process has imported after a command."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.splitlines()[-1].split())


def command_of(entry: CommandEntry) -> Any:
    """Returns the command of an entry, or the group."""
    command = ROOT
    for word in entry.path.split():
        command = command.commands[word]
    return command


def modules_of_commands(modules: set[str]) -> set[str]:
    """Returns the names of the commands whose modules were imported."""
    names = {entry.name: entry.name.replace("-", "_") for entry in COMMANDS}
    return {name for name, module in names.items() if f"nearkin.cli.{module}" in modules}


@ENTRIES
def test_description_is_the_first_paragraph_of_the_help_page(entry: CommandEntry) -> None:
    first_paragraph = command_of(entry).help.partition("\n\n")[0]
    assert entry.description == " ".join(first_paragraph.split())


@ENTRIES
def test_command_has_its_name(entry: CommandEntry) -> None:
    assert command_of(entry).name == entry.name


@ENTRIES
def test_groups_are_those_that_the_table_names(entry: CommandEntry) -> None:
    is_group = isinstance(command_of(entry), TyperGroup)
    assert is_group == (entry.has_commands or entry.path in GROUPS)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_module_of_a_command(option: str) -> None:
    modules = modules_after(option)
    assert modules_of_commands(modules) == set()
    assert len(modules - WRITTEN_BY_BUILDS) <= MOST_MODULES[option]


@pytest.mark.parametrize("command", ["dedup", "lab merge", "index info", "serve"])
def test_command_imports_the_module_of_no_other_command(command: str) -> None:
    words = command.removeprefix("lab ").split()
    assert modules_of_commands(modules_after(*command.split(), "--help")) == {words[0]}


def test_commands_are_loaded_once_and_only_when_they_are_looked_up() -> None:
    loaded = []

    def load(entry: CommandEntry) -> str:
        loaded.append(entry.name)
        return entry.name

    table = CommandTable(load)
    assert "dedup" in table
    assert "merge" not in table
    assert list(table) == [entry.name for entry in COMMANDS if not entry.group]
    assert list(CommandTable(load, "server")) == ["init", "token"]
    assert len(table) == len(list(table))
    assert loaded == []
    assert table["dedup"] == table["dedup"] == "dedup"
    assert table.get("merge") is None
    assert loaded == ["dedup"]
