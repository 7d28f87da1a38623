"""The page of the shadow index, which compares it with the live index."""

from collections.abc import Iterator, Mapping
from typing import Any

from dash.development.base_component import Component

from nearkin.runtime.number_format import format_fraction
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit

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


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page."""
    page = ui.page_heading(
        "Shadow",
        "A second index with another banding, which receives the same documents as the live index.",
    )
    shadow_index = visit.service.shadow
    if shadow_index is None:
        advice = (
            "There is no shadow index. Start the server with --shadow-store, --shadow-bands and "
            "--shadow-rows to compare one."
        )
        return [*page, ui.note(advice)]
    status = await visit.service.run_in_thread(shadow_index.status)
    common_facts: list[tuple[str, str]] = []
    facts_of_both: list[tuple[str, str, str]] = []
    for label, value in flatten_status(status):
        if isinstance(value, tuple):
            live, shadow = value
            facts_of_both.append((label, format_value(live), format_value(shadow)))
        else:
            common_facts.append((label, format_value(value)))
    return [
        *page,
        ui.fact_tiles(*common_facts),
        ui.table(
            "Documents of this process since its start or the last switch",
            ("", "Live", "Shadow"),
            facts_of_both,
            numbers=(1, 2),
        ),
        ui.note("To switch, send POST /v1/shadow with a token that has the right admin."),
    ]


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
    return make_visible(str(value))


PAGE = Page("shadow", "Shadow", "admin", build, every_scope=True)
