"""The page of the shadow index, which compares it with the live index."""

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from nearkin.runtime.number_format import format_fraction
from nearkin.service.server.console.markup import render
from nearkin.service.server.console.visitor import Page, Visit
from nearkin.service.server.settings import ServerSettings

SIDES = ("live", "shadow")
NAMES = {
    "live": "Live index",
    "filled": "Has all documents",
    "behind": "Documents behind",
    "both_duplicates": "Duplicates in both",
    "only_live_duplicates": "Duplicates in the live index only",
    "only_shadow_duplicates": "Duplicates in the shadow index only",
}
"""Labels of members whose names are not clear by themselves."""


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page."""
    shadow_index = visit.service.shadow
    common_facts: list[tuple[str, str]] = []
    facts_of_both: list[tuple[str, str, str]] = []
    if shadow_index is not None:
        status = await visit.service.run_in_thread(shadow_index.status)
        for label, value in flatten_status(status):
            if isinstance(value, tuple):
                live, shadow = value
                facts_of_both.append((label, format_value(live), format_value(shadow)))
            else:
                common_facts.append((label, format_value(value)))
    return render("shadow.html", common_facts=common_facts, facts_of_both=facts_of_both)


def flatten_status(status: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields labels and values. A value is a pair if both indexes have one.

    Examples:
        >>> banding = {"live": {"bands": 13}, "shadow": {"bands": 20}}
        >>> list(flatten_status({"failed": 0, "banding": banding}))
        [('Failed', 0), ('Bands', (13, 20))]
    """
    for name, value in status.items():
        if isinstance(value, Mapping) and set(value) == set(SIDES):
            live, shadow = (value[side] for side in SIDES)
            for member in live:
                yield label_of(member), (live[member], shadow.get(member))
        else:
            yield label_of(name), value


def label_of(name: str) -> str:
    """Returns the label of a member."""
    return NAMES.get(name, name.replace("_", " ").capitalize())


def format_value(value: Any) -> str:
    """Returns a value as text.

    Examples:
        >>> format_value(0.98765), format_value(True), format_value(12345), format_value(None)
        ('0.988', 'yes', '12,345', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and 0 <= value <= 1:
        return format_fraction(value)
    if isinstance(value, float):
        return f"{value:,.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def has_shadow(settings: ServerSettings) -> bool:
    """Returns True if the server has a shadow index."""
    return settings.shadow_store is not None


PAGE = Page("shadow", "Shadow", "admin", build, every_scope=True, is_offered=has_shadow)
