"""A second banding beside the live one, on the same traffic."""

from collections.abc import Iterator, Mapping
from typing import Any

from dash.development.base_component import Component

from nearkin.report.escaping import make_visible
from nearkin.server.console import components as shown
from nearkin.server.console.visitor import Page, Visit

SIDES = ("live", "shadow")
NAMES = {
    "live": "Answers",
    "filled": "Has all documents",
    "behind": "Batches behind",
    "both_duplicates": "Duplicates in both",
    "only_live_duplicates": "In the live one only",
    "only_shadow_duplicates": "In the shadow only",
}
"""Of facts whose own names say too little by themselves."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """The page."""
    page = shown.heading(
        "Shadow", "A second banding, fed and asked beside the live one over the same signatures."
    )
    running = visit.service.shadow
    if running is None:
        how = (
            "Nothing runs in the shadow. Start the server with --shadow-store, --shadow-bands and "
            "--shadow-rows to compare one."
        )
        return [*page, shown.note(how)]
    facts = await visit.service.run_in_thread(running.status)
    whole = [(name, told(value)) for name, value in flat(facts) if not isinstance(value, tuple)]
    beside = [
        (name, told(value[0]), told(value[1]))
        for name, value in flat(facts)
        if isinstance(value, tuple)
    ]
    return [
        *page,
        shown.tiles(*whole),
        shown.table(
            "The same documents, of this process, since it was started or switched",
            ("", "Live", "Shadow"),
            beside,
            (1, 2),
        ),
        shown.note("Switched by an admin's call: POST /v1/shadow."),
    ]


def flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values, both of them where there is one of each side.

    Examples:
        >>> list(flat({"failed": 0, "banding": {"live": {"bands": 13}, "shadow": {"bands": 20}}}))
        [('Failed', 0), ('Bands', (13, 20))]
    """
    for name, value in facts.items():
        if isinstance(value, Mapping) and set(value) == set(SIDES):
            live, shadow = (value[side] for side in SIDES)
            for part in live:
                yield words(part), (live[part], shadow.get(part))
        else:
            yield words(name), value


def words(name: str) -> str:
    """A name as it is read."""
    return NAMES.get(name, name.replace("_", " ").capitalize())


def told(value: Any) -> str:
    """A value as it is read.

    Examples:
        >>> told(0.98765), told(True), told(12345), told(None)
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
