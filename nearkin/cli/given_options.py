"""The names of panels and flags of options, and the options that a command line gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import typer

from nearkin.runtime.setting_names import flag_of

COMMON = "Common options"
HELP = "Help"
DEFAULT = "  [default: "
"""The text in a help text before a default that follows from other settings."""
SHOWS_ALL = "nearkin.shows_all_options"
"""The key of a context under which `--help-all` is recorded."""
DEFAULT_SOURCE = "default"
"""The source of a value that nobody gave."""
NO_CONFIG = "nearkin.no_config"
"""The key of a context under which `--no-config` is recorded."""


@dataclass(frozen=True)
class GivenOptions:
    """The names of the parameters that were given on the command line, not by default.

    Attributes:
        names: The names of the parameters of the command.
        sources: Origins of the values of parameters, if that is not the command line.
    """

    names: frozenset[str]
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, context: typer.Context, origin: str = "COMMANDLINE") -> "GivenOptions":
        """Reads the names from the context of a command."""
        sources = {name: context.get_parameter_source(name) for name in context.params}
        return cls(
            frozenset(
                name
                for name, source in sources.items()
                if source is not None and source.name == origin
            )
        )

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def source_of(self, name: str) -> str:
        """Returns where the value of a parameter comes from."""
        return self.sources.get(name, "given" if name in self.names else DEFAULT_SOURCE)

    def require_unused(self, names: tuple[str, ...], reason: str) -> None:
        """Requires that options which would be ignored were not given."""
        from nearkin.errors import UsageError

        for name in names:
            if name in self.names:
                raise UsageError(f"{flag_of(name)} has no effect {reason}; leave it out")


PATH_NAMES = ("new_key_file",)
"""The parameters that are paths although their type is text, beside settings of the table."""
TEXT_NAMES = ("ignore_fingerprint", "scope", "ids")
"""The parameters whose values are compared with texts, not opened, beside names of columns."""


def is_path_name(name: str) -> bool:
    """Returns whether a parameter is a path, although its type is text."""
    from nearkin.settings.table import SETTINGS

    return name in PATH_NAMES or (name in SETTINGS and SETTINGS[name].setting.is_path)


def is_text_name(name: str) -> bool:
    """Returns whether the value of a parameter is compared with the content of files."""
    from nearkin.settings.table import SETTINGS

    return name in TEXT_NAMES or (name in SETTINGS and SETTINGS[name].setting.names_columns)
