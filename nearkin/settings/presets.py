"""Presets: settings for kinds of data, with the data and numbers of rows they were measured on.

Distinct documents that resemble each other by chance become more frequent with the size of a
corpus. What a threshold removes from a few thousand rows therefore says little about a million. A
preset states how far it was measured, and a larger run says that it is beyond that.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice

PRESETS = ("web", "articles", "records", "bibliography", "logs", "code", "titles")
"""The names of the presets. Each is a file of the package."""


@dataclass(frozen=True)
class Preset:
    """Settings for a kind of data, with what they were measured on.

    Attributes:
        name: Name of the preset.
        values: Settings by key, as those of a settings file.
        data: The generated data that the preset was measured on.
        rows: Numbers of rows at which it was measured, ascending.
        precision: Smallest share of the removed rows, over these data, that are duplicates of the
            kept one, at each number of rows.
    """

    name: str
    values: Mapping[str, object]
    data: str
    rows: tuple[int, ...]
    precision: tuple[float, ...]

    @classmethod
    def read(cls, name: str) -> "Preset":
        """Reads a preset of the package.

        Examples:
            >>> Preset.read("records").rows[-1]
            100000
        """
        require_choice("preset", name, PRESETS)
        return _read(name)

    @property
    def measured_rows(self) -> str:
        """The numbers of rows between which the preset was measured, in words."""
        return f"{self.rows[0]:,} to {self.rows[-1]:,} rows"

    def warn_of_size(self, documents: int) -> str | None:
        """Returns a warning if a corpus is larger than those that the preset was measured on."""
        if documents <= self.rows[-1]:
            return None
        return (
            f"this corpus has {documents:,} documents, and {name_setting('preset', self.name)} was "
            f"measured on {self.measured_rows} of {self.data}; more distinct documents look alike "
            "in a larger corpus, so look at a sample of the pairs"
        )


@cache
def _read(name: str) -> Preset:
    """Returns a preset from its file."""
    path = files("nearkin").joinpath("settings", "presets", f"{name}.toml")
    values = tomllib.loads(path.read_text("utf-8"))
    measured = values.pop("measured")
    return Preset(
        name,
        values,
        data=measured["data"],
        rows=tuple(measured["rows"]),
        precision=tuple(measured["precision"]),
    )
