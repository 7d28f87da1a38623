"""The settings in which two runs differ, as their users name them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.table import SETTINGS

Place: TypeAlias = tuple[str, str]
"""The group and the key of a value in the record of the settings of a run."""
DECISIVE = (
    *("command", "tokens", "vector", "fingerprint", "text", "id", "fields", "accept", "measure"),
    "shingle",
)
"""The settings from which others follow, so that a difference of these is named first."""
SETTINGS_OF = ("", "spec", "parameters", "columns")
"""The groups of a record whose values are settings of their own."""
DERIVED = ("extra", "dimensions", "bits")
"""The values that follow from other settings or from the inputs."""
FACTS = ("command", "unit", "n", "unicode", "stemmer", "key_id", "extra", "dimensions")
"""The recorded values that are no settings."""
NAMES = {
    **{declared.record_key: name for name, declared in SETTINGS.items()},
    "cut": "cut_unit",
    "version": "spec_version",
    "indexes": "against",
}
"""The settings by their keys in a record."""
GROUPS = {"lines": "repeated_lines", "suites": "against"}
"""The settings whose group of values in a record does not have their name."""
OF_CUTS = ("cut", "min_left", "keep")
"""The values of a group that are settings of their own. The others make its setting."""
ONLY_AGAINST = "only_against"
"""The value that only runs with a reference have, true or false."""
FINGERPRINTED = ("decisions", "blocklist", "frequencies", "max_df")
"""The settings of which the record holds a hash of the content."""


class SettingChange(NamedTuple):
    """A setting whose recorded value differs between two runs. A value is None if it has none."""

    setting: str
    before: Any
    after: Any


def describe_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describes the first difference of the recorded settings of two runs, after "made with"."""
    old, new = dict(_list_values(before)), dict(_list_values(now))
    changed = [place for place in {**old, **new} if old.get(place) != new.get(place)]
    if not changed:
        # a value that no setting has must not be taken for none
        return None if _without_nulls(before) == _without_nulls(now) else "other settings"
    place = min(changed, key=_rank)
    was, is_now = (_describe(place, values.get(place)) for values in (old, new))
    return f"other {was}" if was == is_now else f"{was}, and this run has {is_now}"


def list_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[SettingChange]:
    """Returns the settings that differ, by name. Values that follow from others are left out."""
    old, new = dict(_list_values(before)), dict(_list_values(now))
    changes = [
        SettingChange(_name_setting_at(place), old.get(place), new.get(place))
        for place in {**old, **new}
        if old.get(place) != new.get(place) and place[1] not in DERIVED
    ]
    return sorted(changes, key=lambda change: change.setting)


def _without_nulls(value: Any) -> Any:
    """Returns a record without values that are null, at any depth."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_nulls(each) for key, each in value.items() if each is not None}


def _rank(place: Place) -> int:
    """Returns how early a setting is named if several differ."""
    key = place[1]
    return DECISIVE.index(key) if key in DECISIVE else len(DECISIVE) + (key in DERIVED)


def _list_values(record: Mapping[str, Any], group: str = "") -> Iterator[tuple[Place, Any]]:
    """Yields the values of a record that are not those of a setting that nobody gave."""
    values = dict(record)
    if group == "columns":
        values["text"] = [values["text"], *values.pop("joined", ())]
        values["extra"] = [*values.get("extra", ()), *values.pop("fields", ())]
    if group == "spec":
        if values["unit"] in ("words", "chars"):
            values["shingle"] = f"{values.pop('unit')}:{values.pop('n')}"
        values["max_df"] = values.pop("cut", None)
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _list_values(value, key)
        elif key == ONLY_AGAINST or (value is not False and value not in (None, [], ())):
            yield (group, key), list(value) if isinstance(value, tuple) else value


def _is_setting(place: Place) -> bool:
    """Returns whether a value is a setting of its own, and not a part of one."""
    group, key = place
    return group in SETTINGS_OF or key in OF_CUTS


def _name_setting_at(place: Place) -> str:
    """Returns the setting of a value, or the key of a fact."""
    group, key = place
    if not _is_setting(place):
        return GROUPS.get(group, group)
    return key if key in FACTS else NAMES.get(key, key)


def _describe(place: Place, value: Any) -> str:
    """Returns a setting and its value as its user gives them."""
    name = _name_setting_at(place)
    is_own = _is_setting(place)
    if is_own and place[1] in FACTS:
        return f"{name} {value}"
    if name == ONLY_AGAINST and value is not True:
        return f"no {name_setting('against')}" if value is None else name_setting("against")
    if value is None:
        return f"no {name_setting(name)}"
    if not is_own or name in FINGERPRINTED:
        return name_setting(name)
    if value is True:
        return name_flag(name)
    return name_setting(name, ",".join(map(str, value)) if isinstance(value, list) else value)
