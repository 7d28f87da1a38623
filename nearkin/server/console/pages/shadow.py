"""The page of the shadow index, which compares it with the live index."""

from collections.abc import Iterator, Mapping
from typing import Any

from dash.development.base_component import Component

from nearkin.report.escaping import make_visible
from nearkin.server.console import components as ui
from nearkin.server.console.visitor import Page, Visit

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
    """Builds the page.

    Args:
        visit: The current visit.
        query: Query parameters.
    """
    page = ui.page_heading(
        "Shadow",
        "A second index with another banding, which receives the same documents as the live index.",
    )
    running = visit.service.shadow
    if running is None:
        how = (
            "There is no shadow index. Start the server with --shadow-store, --shadow-bands and "
            "--shadow-rows to compare one."
        )
        return [*page, ui.note(how)]
    facts = await visit.service.run_in_thread(running.status)
    whole = [
        (name, format_value(value)) for name, value in flat(facts) if not isinstance(value, tuple)
    ]
    beside = [
        (name, format_value(value[0]), format_value(value[1]))
        for name, value in flat(facts)
        if isinstance(value, tuple)
    ]
    return [
        *page,
        ui.fact_tiles(*whole),
        ui.table(
            "Documents of this process since its start or the last switch",
            ("", "Live", "Shadow"),
            beside,
            (1, 2),
        ),
        ui.note("To switch, send POST /v1/shadow with a token that has the right admin."),
    ]


def flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields labels and values. A value is a pair if both indexes have one.

    Examples:
        >>> list(flat({"failed": 0, "banding": {"live": {"bands": 13}, "shadow": {"bands": 20}}}))
        [('Failed', 0), ('Bands', (13, 20))]
    """
    for name, value in facts.items():
        if isinstance(value, Mapping) and set(value) == set(SIDES):
            live, shadow = (value[side] for side in SIDES)
            for part in live:
                yield label_of(part), (live[part], shadow.get(part))
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
    if isinstance(value, float):
        return f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else make_visible(str(value))


PAGE = Page("shadow", "Shadow", "admin", build, every_scope=True)
