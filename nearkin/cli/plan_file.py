"""Plans: files that `nearkin plan --out` writes and `nearkin dedup --plan` reads."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nearkin.cli.given_options import GivenOptions
from nearkin.cli.options import MatchOptions
from nearkin.runtime.setting_names import flag_of
from nearkin.settings.table import SignatureSettings

PARTS = ("workload", "settings", "lines", "verdicts")
"""The members of every plan. Files of other programs can have settings, too."""
MAX_PLAN_BYTES = 1 << 20
"""The largest size of a plan. Its members are few, so a larger file is another one."""


def is_plan(path: Path) -> bool:
    """Returns whether a file is a plan that nearkin wrote."""
    content = _read_json(path)
    return isinstance(content, dict) and all(part in content for part in PARTS)


def _read_json(path: Path) -> object:
    """Returns the content of a file of at most MAX_PLAN_BYTES."""
    import json

    with path.open("rb") as file:
        content = file.read(MAX_PLAN_BYTES + 1)
    if len(content) > MAX_PLAN_BYTES:
        raise ValueError("the file is larger than a plan")
    return json.loads(content)


def _settings_of(path: Path) -> Mapping[str, object] | None:
    """Returns the settings of a plan, or None if the file contains other JSON."""
    content = _read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("settings"), dict):
        return None
    settings: dict[str, object] = content["settings"]
    return settings


def apply_plan(
    path: Path | None, given: GivenOptions, spec: SignatureSettings, match: MatchOptions
) -> tuple[SignatureSettings, MatchOptions]:
    """Returns the options with the settings of a plan."""
    if path is None:
        return spec, match
    planned = {name: value for name, value in read_plan_settings(path).items() if value is not None}
    current = {**vars(spec), **vars(match)}
    for name, value in planned.items():
        if name in given:
            _require_planned_value(path, name, current.get(name), value)
    spec_values = {name: value for name, value in planned.items() if name in vars(spec)}
    match_values = {name: value for name, value in planned.items() if name in vars(match)}
    # The types of a plan's values are checked where the options are parsed.
    return replace(spec, **spec_values), replace(match, **match_values)  # type: ignore[arg-type]


def read_plan_settings(path: Path) -> Mapping[str, object]:
    """Reads the settings of a plan, by the names of the options."""
    from nearkin.errors import UsageError

    advice = f"{path} is not a plan; write one with nearkin plan --out {path.name}"
    try:
        settings = _settings_of(path)
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, ValueError) as error:
        raise UsageError(advice) from error
    if settings is None:
        raise UsageError(advice)
    return settings


def _require_planned_value(path: Path, name: str, value: object, planned: object) -> None:
    """Requires that a given option has the value of the plan."""
    from nearkin.errors import UsageError
    from nearkin.runtime.sizes import parse_memory

    if name == "memory":
        is_equal = parse_memory(str(value)) == parse_memory(str(planned))
    else:
        is_equal = str(value) == str(planned)
    if not is_equal:
        raise UsageError(
            f"{flag_of(name)} {value} contradicts {planned} of {path}; leave it out, or make "
            "another plan"
        )
