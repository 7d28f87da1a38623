"""Defaults of the options of commands, from `nearkin.toml` or `pyproject.toml`.

A file has one table for each command, for example `[dedup]` or `[index.add]`, whose keys are the
names of options. In `pyproject.toml` the tables are below `[tool.nearkin]`.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkin.cli.given_options import NO_CONFIG, is_path_name
from nearkin.errors import UsageError

FILE_NAME = "nearkin.toml"
PROJECT_FILE = "pyproject.toml"
PROJECT_TABLE = "tool.nearkin"
REPOSITORY = ".git"
"""The name of the folder, or in a worktree the file, that marks the root of a repository."""
MAX_BYTES = 1 << 20
"""The largest file of defaults. A larger file is something else."""
OF_ONE_RUN = ("out", "overwrite", "resume", "dry_run", "help", "help_all")
"""The names of options that belong to one run and have no defaults in a file."""
SERVER_SETTINGS = frozenset({"host", "port", "store", "tokens", "key_file", "memory_budget"})
"""Top-level keys by which a file with the settings of a server is recognized, which may have the
same name and is read by `nearkin serve --config` only."""
NOT_PATHS = frozenset({("shadow", "against")})
"""Commands, and options of them with such a name that are not paths."""
USED = "nearkin.config"
"""The key of a context under which the file is recorded whose defaults the command has."""


@dataclass(frozen=True)
class ConfigFile:
    """A file with defaults of options.

    Attributes:
        path: The file.
        tables: The tables of the file, by the names of commands and groups of commands.
    """

    path: Path
    tables: Mapping[str, Any]

    @classmethod
    def find(cls, folder: Path) -> "ConfigFile | None":
        """Returns the file whose defaults hold in a folder, or None if there is none.

        The folder and those above it are searched, up to the root of the repository. Outside of a
        repository, only the folder itself is. The nearest file counts, and `nearkin.toml` before
        `pyproject.toml`.
        """
        for searched in searched_folders(folder):
            found = cls._read(searched / FILE_NAME) or cls._read(searched / PROJECT_FILE)
            if found is not None:
                if searched != folder:
                    found._require_trusted(folder)
                return found
        return None

    @classmethod
    def _read(cls, path: Path) -> "ConfigFile | None":
        """Returns the defaults in a file, or None if it does not exist or has none."""
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                # Opening a named pipe waits for another process.
                raise UsageError(
                    f"{path} is not a regular file; delete it, or run nearkin --no-config"
                )
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror}; correct its permissions, or run "
                "nearkin --no-config"
            ) from error
        of_project = path.name == PROJECT_FILE
        if of_project and b"nearkin" not in content:
            return None
        if len(content) > MAX_BYTES:
            raise UsageError(f"{path} is larger than 1 MiB, so it is not a file of defaults")
        # Most folders have no such file, and every command imports this module.
        import tomllib

        try:
            values: Any = tomllib.loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{path} is not a TOML file ({error}); correct it, or run nearkin --no-config"
            ) from error
        if of_project:
            tool = values.get("tool")
            values = tool.get("nearkin") if isinstance(tool, dict) else None
        elif SERVER_SETTINGS & values.keys():
            return None
        if values is None:
            return None
        config = cls(path, _require_table(path, PROJECT_TABLE, values))
        config._require_known_commands()
        return config

    def _require_trusted(self, folder: Path) -> None:
        """Requires that nobody but the users whose files are used anyway could have made this file.

        Anybody can make a folder `.git` in a shared folder such as /tmp, and a file beside it.
        """
        owner = self.path.lstat().st_uid
        # Systems without numbers of users have no such function.
        user = os.geteuid() if hasattr(os, "geteuid") else owner
        if owner not in (0, user, folder.stat().st_uid):
            raise UsageError(
                f"{self.path} belongs to another user ({owner}), who could choose what this "
                "command reads; run it in the folder of that file if you trust it, or run "
                "nearkin --no-config"
            )

    def _require_known_commands(self) -> None:
        """Requires that each table is that of a command."""
        from nearkin.cli.command_table import COMMANDS
        from nearkin.runtime.suggestions import did_you_mean

        names = [entry.path for entry in COMMANDS if not entry.group]
        moved = {entry.name: entry.path for entry in COMMANDS if entry.group}
        for name, table in self.tables.items():
            if name not in names:
                advice = did_you_mean(name, names) or "; nearkin help all lists the commands"
                if name in moved:
                    advice = f"; write [{moved[name].replace(' ', '.')}]"
                if not isinstance(table, dict):
                    advice = f"; write it into the table of a command, for example [dedup] {name}"
                raise UsageError(f"{self.path}: {name!r} is not a command{advice}")

    def table_of(self, command: str) -> Mapping[str, Any]:
        """Returns the table of a command. It is empty if the file has none."""
        table: Any = self.tables
        for name in command.split():
            table = _require_table(self.path, command, table.get(name, {}))
        return table

    def defaults_of(self, command: Any, name: str) -> dict[str, Any]:
        """Returns the defaults of a command, by the names of its parameters."""
        from nearkin.runtime.suggestions import did_you_mean

        options = {
            _key_of(parameter): parameter
            for parameter in command.params
            if parameter.param_type_name == "option"
        }
        defaults: dict[str, Any] = {}
        for key, value in self.table_of(name).items():
            option = options.get(key.replace("-", "_"))
            place = f"{self.path}, [{name.replace(' ', '.')}]"
            if name == "serve" and key != "config":
                raise UsageError(
                    f"{place}: the settings of a server have a file of their own; write "
                    "config = FILE, and the setting into that file"
                )
            if option is None:
                raise UsageError(
                    f"{place}: {key!r} is not an option of nearkin {name}"
                    f"{did_you_mean(key, options) or f'; see nearkin {name} --help'}"
                )
            if option.name in OF_ONE_RUN:
                raise UsageError(
                    f"{place}: {key!r} belongs to one run and has no default in a file; give it on "
                    "the command line"
                )
            if option.name in defaults:
                raise UsageError(f"{place}: {key!r} is given twice, with - and with _; delete one")
            try:
                is_path = is_path_name(option.name) and (name, option.name) not in NOT_PATHS
                defaults[option.name] = self._convert(option, key, value, is_path=is_path)
            except UsageError as error:
                error.args = (f"{place}: {error}",)
                raise
        return defaults

    def _convert(self, option: Any, key: str, value: Any, *, is_path: bool) -> Any:
        """Returns a value of the file as an option takes it."""
        from nearkin.runtime.argument_types import check_type

        kind = bool if option.count else option.type_descriptor.annotation
        if kind is Path or is_path:
            paths = value if isinstance(value, list) else [value]
            located = [self._locate(check_type(key, path, str)) for path in paths]
            return located if option.multiple else located[0]
        if option.multiple:
            return check_type(key, value if isinstance(value, list) else [value], kind)
        if kind is str and isinstance(value, list):
            return ",".join(check_type(key, value, list[str]))
        return check_type(key, value, kind)

    def _locate(self, path: str) -> str:
        """Returns a path that is relative to the folder of the file.

        URLs stay as they are, and so do the names of environment variables that hold keys.
        """
        from nearkin.settings.keys import ENVIRONMENT

        if "\0" in path:
            raise UsageError(f"the path {path!r} has a null character; delete it")
        if "://" in path or path.startswith(ENVIRONMENT):
            return path
        return str(self.path.parent / path)


def searched_folders(folder: Path) -> list[Path]:
    """Returns the folders in which a file of defaults is looked for, the nearest first."""
    folders = [folder, *folder.parents]
    for position, above in enumerate(folders):
        if (above / REPOSITORY).exists():
            return folders[: position + 1]
    # A file above, for example in /tmp, may be that of another user.
    return [folder]


def apply_defaults(command: Any, context: Any) -> None:
    """Gives a command the defaults of the file of the working folder."""
    if context.resilient_parsing or NO_CONFIG in context.meta:
        return
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        # The working folder was deleted.
        return
    config = ConfigFile.find(folder)
    if config is not None:
        name = context.command_path.partition(" ")[2]
        context.default_map = config.defaults_of(command, name)
        context.meta[USED] = config


@contextmanager
def defaults_named_in_errors(config: ConfigFile, names: frozenset[str]) -> Iterator[None]:
    """Adds to an error that names an option of the file that the file sets it."""
    try:
        yield
    except UsageError as error:
        from nearkin.runtime.setting_names import is_named_in

        message = str(error)
        for name in sorted(names):
            key = name.removesuffix("_column")
            if is_named_in(message, key):
                error.args = (f"{message} ({key} is set by {config.path})",)
                break
        raise


def _key_of(option: Any) -> str:
    """Returns the name of an option without its hyphens, for example `max_df`."""
    return str(max(option.opts, key=len)).removeprefix("--").replace("-", "_")


def _require_table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name!r} is a value; write a table of options")
    return value
