"""Given options that are out of range, that exclude each other or that have no effect.

They are refused before anything is read or written. What an option excludes and needs is part of
its setting. Pairs whose effect depends on the inputs, for example on a saved run, are checked by
the commands.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from nearkin.cli.given_options import GivenOptions
from nearkin.runtime.setting_names import flag_of
from nearkin.settings.setting import Need, Setting

INPUTS = "inputs"
"""The parameter of the inputs, which is an argument of a command."""


class Conflict(NamedTuple):
    """Two options of which one would be ignored, and the message that says so."""

    name: str
    other: str
    message: str


def require_in_range(
    given: GivenOptions, values: Mapping[str, object], settings: Mapping[str, Setting]
) -> None:
    """Requires that the given options which are numbers are in their ranges."""
    from nearkin.errors import UsageError

    for name, setting in settings.items():
        value = values.get(name)
        if name not in given or setting.range is None or not isinstance(value, int | float):
            continue
        if not setting.range.contains(value):
            raise UsageError(f"{flag_of(name)} {value} is out of range; it must be {setting.range}")


def require_consistent(
    given: GivenOptions,
    values: Mapping[str, object],
    settings: Mapping[str, Setting],
    needs: Mapping[str, Need],
) -> None:
    """Requires that options do not contradict each other."""
    from nearkin.errors import UsageError

    for conflict in exclusions(settings):
        if conflict.name in given and conflict.other in given:
            raise UsageError(conflict.message)
    for conflict in unmet_needs(values, settings, needs):
        if conflict.name in given:
            raise UsageError(conflict.message)


def exclusions(settings: Mapping[str, Setting]) -> Iterator[Conflict]:
    """Yields the pairs of options of which a command takes at most one."""
    for name, setting in settings.items():
        for other, reason in setting.excludes.items():
            message = (
                f"{_name_option(name)} and {_name_option(other)} exclude each other: {reason}; "
                "give one of them"
            )
            yield Conflict(name, other, message)


def unmet_needs(
    values: Mapping[str, object], settings: Mapping[str, Setting], needs: Mapping[str, Need]
) -> Iterator[Conflict]:
    """Yields the options that would have no effect with the values of others."""
    for name, setting in settings.items():
        for need in (setting.need, needs.get(name)):
            if need is None or need.name not in values or need.is_met(values[need.name]):
                continue
            value = values[need.name]
            other = _name_option(need.name)
            conflict = f"with {other} {value}" if value else f"without {other}"
            advice = f"{other} {' or '.join(need.values)}" if need.values else other
            message = f"{flag_of(name)} has no effect {conflict}; leave it out, or give {advice}"
            yield Conflict(name, need.name, message)


def names_to_yield(
    configured: GivenOptions,
    given: GivenOptions,
    values: Mapping[str, object],
    settings: Mapping[str, Setting],
    needs: Mapping[str, Need],
) -> frozenset[str]:
    """Returns the defaults of a file that contradict given options, or have no effect with them.

    The command line wins over a file, so these defaults are left out.
    """
    from nearkin.engine.parameters import THRESHOLDS

    yielding = {conflict.name for conflict in unmet_needs(values, settings, needs)}
    for conflict in exclusions(settings):
        if conflict.other in given:
            yielding.add(conflict.name)
        if conflict.name in given:
            yielding.add(conflict.other)
    if "accept" in given:
        yielding.update(THRESHOLDS)
    if not given.names.isdisjoint(THRESHOLDS):
        yielding.add("accept")
    return frozenset(yielding & configured.names - given.names)


def _name_option(name: str) -> str:
    """Returns an option, or the word for the argument of inputs."""
    return name if name == INPUTS else flag_of(name)
