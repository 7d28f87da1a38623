"""Settings files: flat TOML files whose keys are keywords of `nearkin.dedup` and `nearkin.pairs`.

A settings file says what near-duplicates are and how they are found. It is valid on its own: it
contains nothing about the machine, and of the columns of content only the texts that were chosen.
The only file that it can name is a blocklist. `nearkin fit` writes one.
"""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from nearkin.corpus import Columns
from nearkin.corpus.columns import DEFAULT_BITS
from nearkin.engine.fields import parse_fields
from nearkin.engine.keywords import RunParameters
from nearkin.engine.parameters import (
    OPTIONS_OF_RUN,
    OPTIONS_OF_SPEC,
    THRESHOLDS,
    make_run_options,
    require_fingerprint_for_bits,
    spec_of,
    text_columns_of,
)
from nearkin.errors import UsageError
from nearkin.runtime.argument_types import check_type
from nearkin.runtime.files import write_durably
from nearkin.runtime.number_range import OPEN_SHARE
from nearkin.runtime.setting_names import is_named_in, name_setting
from nearkin.runtime.suggestions import did_you_mean, require_choice
from nearkin.settings.acceptance.parser import SIMILAR
from nearkin.settings.presets import PRESETS as PRESETS
from nearkin.settings.presets import Preset
from nearkin.settings.spec import FINGERPRINT, HAMMING
from nearkin.settings.table import (
    SETTINGS,
    ClusterSettings,
    ResourceSettings,
    names_of,
    require_compatible,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    SettingsSource: TypeAlias = "str | Path | Mapping[str, object] | None"

SIMILARITY = "similarity"
CONTAINMENT = "containment"
MACHINE_OPTIONS = frozenset(names_of(ResourceSettings))
"""Options of a run that depend on the machine and do not decide the result."""
REMARK = "Chosen by nearkin"
"""The beginning of the comment of a settings file that nearkin has written."""
PRESET = "preset"
"""The option that names other settings, so that a settings file cannot have it."""
BLOCKLIST = "blocklist"
"""The setting that names a file, which is relative to the folder of the settings file."""
CLUSTER_OPTIONS = frozenset((*names_of(ClusterSettings), BLOCKLIST))
"""Settings of clusters. They have no effect on pairs, except `accept`."""
VALID_KEYS = tuple(
    sorted(
        (OPTIONS_OF_RUN | OPTIONS_OF_SPEC | {"lines", "measure", "max_df", "relation", "text"})
        - MACHINE_OPTIONS
        - {PRESET}
    )
)
"""The keys that a settings file may have."""
ALTERNATIVES = {"distance": "threshold", "threshold": "distance"}
"""Settings that replace each other. A given one replaces the other one of a file."""
MAX_SETTINGS_BYTES = 1 << 20
"""The largest settings file. A larger file is something else."""


@dataclass(frozen=True)
class Settings:
    """The values of a settings file, checked one by one and together.

    Attributes:
        values: Values by key, for example `{"shingle": "words:1", "threshold": 0.6}`.
        source: How messages name the file.

    Examples:
        >>> Settings({"shingle": "words:1"}).merge_into({"threshold": 0.6})
        {'threshold': 0.6, 'shingle': 'words:1'}
        >>> Settings({"max_df": 2}, "my.toml")
        Traceback (most recent call last):
        ...
        nearkin.errors.UsageError: my.toml: max_df=2 is out of range; it must be above 0 and below 1
    """

    values: Mapping[str, object] = field(default_factory=dict)
    source: str = "settings="

    def __post_init__(self) -> None:
        # a settings file has no functions
        types = {**get_type_hints(RunParameters), "keep": str}
        checked: dict[str, object] = {}
        try:
            for name, value in self.values.items():
                if name not in (*VALID_KEYS, BLOCKLIST):
                    raise UsageError(
                        f"unknown setting {name!r}{did_you_mean(name, VALID_KEYS)}; valid settings "
                        f"are {', '.join(sorted([*VALID_KEYS, BLOCKLIST]))}"
                    )
                if value is not None:
                    checked[name] = check_type(name, value, types.get(name, str))
            _require_consistent({k: v for k, v in checked.items() if k != BLOCKLIST})
        except UsageError as error:
            error.args = (f"{self.source}: {error}",)
            raise
        object.__setattr__(self, "values", checked)

    @classmethod
    def read(cls, path: str | Path) -> "Settings":
        """Reads a settings file."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                content = file.read(MAX_SETTINGS_BYTES + 1)
        except FileNotFoundError as error:
            raise UsageError(f"no such file: {path}") from error
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        if len(content) > MAX_SETTINGS_BYTES:
            raise UsageError(
                f"{path} is larger than 1 MiB, so it is not a settings file; write one with "
                "nearkin fit --out"
            )
        try:
            values = tomllib.loads(content.decode())
        except (ValueError, RecursionError) as error:
            # Python refuses integers of thousands of digits and deeply nested values.
            raise UsageError(
                f"{path} is not a TOML file ({error}); settings are lines such as threshold = 0.8"
            ) from error
        if isinstance(values.get(BLOCKLIST), str):
            values[BLOCKLIST] = str(path.parent / str(values[BLOCKLIST]))
        return cls(values, str(path))

    @property
    def blocklist(self) -> Path | None:
        """The file of the blocklist that a run is compared with, or None."""
        path = self.values.get(BLOCKLIST)
        return None if path is None else Path(str(path))

    @classmethod
    def of_preset(cls, name: str) -> "Settings":
        """Returns the settings of a preset.

        Examples:
            >>> Settings.of_preset("logs").values["measure"]
            'jaccard'
        """
        return cls(Preset.read(name).values, name_setting("preset", name))

    @classmethod
    def resolve(cls, settings: "SettingsSource", preset: str | None = None) -> "Settings":
        """Returns the settings that a caller gave: a file, values, or None for no settings."""
        if preset is not None:
            if settings is not None:
                raise UsageError(
                    f"{name_setting('preset', preset)} and {name_setting('settings')} exclude each "
                    "other; give one of them, and other settings one by one"
                )
            return cls.of_preset(preset)
        if settings is None:
            return cls()
        if isinstance(settings, Mapping):
            return cls(settings)
        return cls.read(settings)

    def for_dedup(self) -> "Settings":
        """Returns the settings that `dedup` takes."""
        if self.values.get("relation", SIMILARITY) != SIMILARITY:
            raise UsageError(
                f"{self.source}: relation={self.values['relation']!r} has no effect on clusters; "
                "find pairs with nearkin pairs, or delete the relation"
            )
        return self._without({"relation"})

    def for_pairs(self) -> "Settings":
        """Returns the settings that `pairs` takes. Those of clusters are left out."""
        return self._without(CLUSTER_OPTIONS - {"accept"})

    def for_splits(self) -> "Settings":
        """Returns the settings that `split` and `check` take. Those of clusters are left out."""
        if self.values.get("fields"):
            raise UsageError(
                f"{self.source}: fields are compared by nearkin dedup and nearkin pairs only; "
                "delete them"
            )
        if str(self.values.get("accept", SIMILAR)).strip() != SIMILAR:
            raise UsageError(
                f"{self.source}: accept={self.values['accept']!r} decides which documents dedup "
                "removes, and takes the place of a threshold; delete it, and set a threshold"
            )
        return self.for_dedup()._without(CLUSTER_OPTIONS)

    def limit_to(self, names: Collection[str]) -> "Settings":
        """Returns the settings of some names."""
        kept = {name: value for name, value in self.values.items() if name in names}
        return Settings(kept, self.source)

    def _without(self, names: set[str] | frozenset[str]) -> "Settings":
        kept = {name: value for name, value in self.values.items() if name not in names}
        return Settings(kept, self.source)

    def merge_into(self, given: Mapping[str, object]) -> dict[str, object]:
        """Returns parameters in which given values win over those of the file."""
        merged = {name: value for name, value in given.items() if value is not None}
        has_condition = str(merged.get("accept", SIMILAR)).strip() != SIMILAR
        for name, value in self.values.items():
            is_replaced = ALTERNATIVES.get(name) in merged or (has_condition and name in THRESHOLDS)
            if name not in merged and not is_replaced and name != BLOCKLIST:
                merged[name] = value
        return merged

    def apply_to(self, parameters: RunParameters) -> RunParameters:
        """Returns the parameters of a run with the settings that none of them replaces."""
        given = {name: value for name, value in parameters.items() if name != "settings"}
        merged = self.merge_into(given)
        merged.pop("relation", None)
        return cast(RunParameters, merged)

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Adds to an error that names a setting of the file that the file sets it."""
        try:
            yield
        except UsageError as error:
            message = str(error)
            for name in self.values:
                if self.source not in message and is_named_in(message, name):
                    error.args = (f"{message} ({name} is set by {self.source})",)
                    break
            raise


def _require_consistent(values: Mapping[str, Any]) -> None:
    """Requires that values are valid together."""
    if "distance" in values and "threshold" in values:
        raise UsageError("distance and threshold exclude each other; delete one of them")
    relation = values.get("relation", SIMILARITY)
    require_choice("relation", relation, (SIMILARITY, CONTAINMENT))
    if (max_df := values.get("max_df")) is not None:
        OPEN_SHARE.require("max_df", max_df)
    text_columns_of(values.get("text"))
    is_of_vectors = values.get("measure") == "cosine"
    if is_of_vectors:
        for name in (*SETTINGS["vector"].setting.excludes, "text"):
            if name in values:
                raise UsageError(
                    f"{name}={values[name]!r} does not go with measure='cosine', because vectors "
                    "have no shingles; delete one of them"
                )
    columns = Columns(text=None, vector="vector", dimensions=2) if is_of_vectors else Columns()
    rules = parse_fields(values.get("fields", ()))
    if rules:
        # The vectors of the inputs may have any length.
        rules = tuple(rule.with_default_size() for rule in rules)
        values = {**values, "fields": [rule.text for rule in rules]}
        columns = Columns(text=None, fields=tuple(rule.content for rule in rules))
        require_compatible("fields", values)
    elif values.get("measure") == HAMMING:
        columns = Columns(text=None, fingerprint=FINGERPRINT, bits=values.get("bits", DEFAULT_BITS))
    else:
        require_fingerprint_for_bits(values.get("bits"), None)
    parameters: RunParameters = {**values}  # type: ignore[typeddict-item]
    make_run_options(spec_of(parameters, columns), parameters)


def write_settings(path: str | Path, settings: Settings, remarks: Sequence[str] = ()) -> None:
    """Writes a settings file. After a kill, it has the previous content or the new one."""
    write_durably(Path(path), format_settings(settings, remarks).encode())


def format_settings(settings: Settings, remarks: Sequence[str] = ()) -> str:
    """Returns the content of a settings file.

    Examples:
        >>> print(format_settings(Settings({"shingle": "words:1", "threshold": 0.6}), ["Fitted."]))
        # Fitted.
        <BLANKLINE>
        shingle = "words:1"
        threshold = 0.6
        <BLANKLINE>
    """
    comment = [f"# {' '.join(remark.split())}".rstrip() for remark in remarks]
    lines = [f"{name} = {format_value(value)}" for name, value in settings.values.items()]
    return "\n".join([*comment, *([""] if comment else []), *lines, ""])


def format_value(value: object) -> str:
    """Returns a value in TOML, whose values are those of JSON but for one escape."""
    value = list(value) if isinstance(value, tuple) else value
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
