"""The buckets that cost most: what many documents share."""

from collections.abc import Mapping

from dash.development.base_component import Component

from nearkin.index.entry import RESERVED, Entry
from nearkin.index.stats import MAX_HOT_BUCKETS
from nearkin.report.escaping import make_visible
from nearkin.server.console import components as shown
from nearkin.server.console.visitor import Page, Visit

MOST = 20
"""Buckets that are shown."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """The page."""
    index = visit.service.index
    hottest = await visit.service.run_overview(index.hot_buckets, MAX_HOT_BUCKETS)
    found = [(size, entry) for size, entry in hottest if is_shown(visit, entry)][:MOST]
    page = shown.heading(
        "Hot buckets",
        "Buckets of many documents: every search that looks into one goes through all of them.",
    )
    most, compared = index.settings.bucket_capacity, index.settings.max_candidates
    cap = f"A bucket holds {most:,} at most, and a search compares {compared:,} candidates at most."
    if not found:
        return [
            *page,
            shown.note(
                "No search of this process has looked into a large bucket of your scopes yet. "
                + cap
            ),
        ]
    rows = [
        (
            f"{size:,}",
            make_visible(entry.scope),
            shown.cluster_link(entry.scope, entry.id),
            shown.excerpt(entry.text),
        )
        for size, entry in found
    ]
    caption = "Largest first, as searches of this process saw them"
    return [
        *page,
        shown.note(cap),
        shown.table(caption, ("Documents", "Scope", "Oldest one", shown.EXCERPTS), rows),
    ]


def is_shown(visit: Visit, entry: Entry) -> bool:
    """Returns whether an entry is of a scope that the token sees, and not of the server's own scopes."""
    return visit.who.can_access(entry.scope) and not entry.scope.startswith(RESERVED)


PAGE = Page("buckets", "Hot buckets", "admin", build)
