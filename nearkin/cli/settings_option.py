"""The options `--settings` and `--preset`: settings whose values the options of a command have."""

from typing import TYPE_CHECKING, Any

from nearkin.cli.given_options import GivenOptions
from nearkin.runtime.loading import paused_collector

if TYPE_CHECKING:
    from nearkin.engine.settings_file import Settings


REPEATED = ("fields",)
"""The settings whose options are repeated for each value of a list."""
FINDING_LEAKS = ("split", "check")
"""The commands that keep near-duplicates apart, or find those that are not."""
BUILDING = "index build"
"""The command that makes an index, which has a part of the settings of runs."""
ESTIMATING = ("plan", "tune")
"""The commands that estimate a run without its clusters."""


def apply_settings(
    options: dict[str, Any], given: GivenOptions, command: str
) -> "tuple[Settings, GivenOptions]":
    """Sets options that were not given to the values of the settings file or the preset."""
    with paused_collector():
        from nearkin.engine.settings_file import Settings

    settings = Settings.resolve(options.get("settings"), options["preset"])
    if command == "pairs":
        settings = settings.for_pairs()
    elif command in FINDING_LEAKS:
        settings = settings.for_splits()
    else:
        settings = settings.for_dedup()
    if command == BUILDING:
        from nearkin.index.run_settings import require_of_index

        require_of_index(settings)
        settings = settings.limit_to(options)
    if command in ESTIMATING:
        without_effect = () if options.get("inputs") else ("normalise",)
        settings = settings.limit_to(options.keys() - set(without_effect))
    merged = settings.merge_into({name: options[name] for name in given.names})
    added = merged.keys() - given.names
    for name in added:
        options[name] = merged[name] if name in REPEATED else _to_option(name, merged[name])
    if settings.blocklist is not None and "blocklist" not in given.names:
        options["blocklist"] = settings.blocklist
        added |= {"blocklist"}
    return settings, GivenOptions(given.names | added)


def name_source(options: dict[str, Any]) -> str:
    """Returns where the settings come from: a settings file, or a preset."""
    if options.get("settings") is not None:
        return str(options["settings"])
    return f"preset {options['preset']}"


def warn_of_preset_size(preset: str | None, documents: int) -> list[str]:
    """Returns a warning if a preset was not measured on as many documents as are planned."""
    if preset is None:
        return []
    from nearkin.settings.presets import Preset

    warning = Preset.read(preset).warn_of_size(documents)
    return [] if warning is None else [warning]


def _to_option(name: str, value: object) -> object:
    """Returns a value as the command line has it: a list is a text with commas."""
    if not isinstance(value, list | tuple):
        return value
    if len(value) > 1 and any("," in each for each in value):
        from nearkin.errors import UsageError

        raise UsageError(
            f"the setting {name!r} is {value!r}, and a name with a comma would be two names on the "
            "command line; rename the column, or pass the settings to nearkin.dedup"
        )
    return ",".join(value)
