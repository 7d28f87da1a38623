"""The facts of a setting, from which every door takes its declaration.

A setting is a field of a group of `nearkin.settings.table`, which `setting` declares. From it
follow the option of the command line with its help, its range and its completion, the keyword of
the library, the key of a settings file, and the entry in the record of a run.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from nearkin.runtime.number_range import NumberRange

INPUT = "Input"
SIMILARITY = "Similarity"
CANDIDATES = "Candidates"
VERIFICATION = "Verification"
CLUSTERING = "Clustering"
OUTPUT = "Output"
RUN = "Run"
ADVANCED = "Advanced"


MOST_DOCUMENTS = 10**12
"""The largest number of documents that is planned for or generated."""
COLUMN = "COL"
"""The placeholder of the name of a column."""
DECLARED = "nearkin.setting"
"""The key of the metadata of a field that has the facts of its setting."""
T = TypeVar("T")


class Recorded(Enum):
    """The times at which the record of a run holds a setting."""

    NEVER = "never"
    ALWAYS = "always"
    IF_CHANGED = "if changed"
    """Only if it does not have its default, so that older records stay as they are."""


@dataclass(frozen=True)
class Need:
    """Another setting without which a setting has no effect.

    Attributes:
        name: The other setting.
        values: Its values with which the setting has an effect. None for every value other than
            None, False and 0.
    """

    name: str
    values: tuple[str, ...] = ()

    def is_met(self, value: object) -> bool:
        """Returns whether the setting has an effect with a value of the other one."""
        return value in self.values if self.values else bool(value)


@dataclass(frozen=True)
class Setting:
    """The facts of a setting that every door uses. Its type and default are those of the field.

    Attributes:
        help: What it means. Other settings are named as options, for example `--threshold`.
        panel: The part of a help page that shows it.
        common: Whether the short help page of a command with many options shows it.
        metavar: The placeholder of its value. `COL` stands for the name of a column.
        short: A short form of the option, for example `-t`.
        is_counted: Whether it is a flag that may be repeated, which counts.
        negatable: Whether the option has an opposite, for example `--no-lines`.
        shown_default: What pages show as the default if it follows from other settings.
        values: A closed set of values, or a function that returns them.
        names_columns: Whether values contain names of columns of the inputs.
        is_list: Whether values are lists, separated by commas.
        is_path: Whether it is a path although its type is text.
        range: The range of a number.
        excludes: The settings that cannot be given beside it, with the reason.
        need: Another setting without which it has no effect.
        recorded: Whether the record of a run holds it.
        record_key: Its key in the record, if that is not its name.
        option_type: The type of the option, if the field has several types.
        keyword: The type of the keyword in the library, if that is not the type of the field.
        keyword_help: What it means as a keyword, if that differs.
        variable: An environment variable with the default of the option.
    """

    help: str
    panel: str = INPUT
    common: bool = False
    metavar: str | None = None
    short: str = ""
    is_counted: bool = False
    negatable: bool = False
    shown_default: str = ""
    values: tuple[str, ...] | Callable[[], Iterable[str]] = ()
    names_columns: bool = False
    is_list: bool = False
    is_path: bool = False
    range: NumberRange | None = None
    excludes: Mapping[str, str] = field(default_factory=dict)
    need: Need | None = None
    recorded: Recorded = Recorded.NEVER
    record_key: str = ""
    option_type: type | None = None
    keyword: str = ""
    keyword_help: str = ""
    variable: str = ""

    def known_values(self) -> tuple[str, ...]:
        """Returns the closed set of values. It is empty if any value is possible."""
        values = self.values() if callable(self.values) else self.values
        return tuple(map(str, values))


def setting(default: T, help: str, panel: str = INPUT, **facts: Any) -> T:
    """Declares a setting as a field of a group, or as a parameter of a command.

    One without a default is annotated: `Annotated[str, Setting(...)]`.
    """
    declared: Any = field(default=default, metadata={DECLARED: Setting(help, panel, **facts)})
    return declared


@dataclass(frozen=True)
class Declared:
    """A setting as a group declares it: its name, its facts, its type and its default."""

    name: str
    setting: Setting
    kind: Any
    default: Any

    @property
    def record_key(self) -> str:
        """The key of the setting in the record of a run."""
        return self.setting.record_key or self.name


def setting_of(annotation: object) -> Setting | None:
    """Returns the setting in an annotation, or None."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((one for one in get_args(annotation)[1:] if isinstance(one, Setting)), None)


def plain_type(annotation: Any) -> Any:
    """Returns an annotation without what was added to its type.

    Examples:
        >>> plain_type(Annotated[int | None, "at least 1"]), plain_type(str)
        (int | None, <class 'str'>)
    """
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def is_optional(kind: object) -> bool:
    """Returns whether None is of a type."""
    return get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind)


@cache
def settings_of(group: type) -> Mapping[str, Declared]:
    """Returns the settings that a group declares or inherits, by name."""
    declared: dict[str, Declared] = {}
    for one in fields(group):
        facts = one.metadata.get(DECLARED) or setting_of(one.type)
        if facts is not None:
            declared[one.name] = Declared(one.name, facts, plain_type(one.type), one.default)
    return declared


def require_in_ranges(group: type, values: Mapping[str, object]) -> None:
    """Requires that the settings of a group which are numbers are in their ranges.

    Raises:
        UsageError: If one is not.
    """
    for name, declared in settings_of(group).items():
        limits = declared.setting.range
        value = values.get(name)
        if limits is not None and isinstance(value, int | float):
            limits.require(name, value)
