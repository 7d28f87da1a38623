"""The buckets that cost most: what many documents share."""

from collections.abc import Mapping

from dash.development.base_component import Component

from nearkin.index.entry import RESERVED
from nearkin.report.visible import visible
from nearkin.server.console import shown
from nearkin.server.console.visit import Page, Visit


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """The page."""
    index = visit.service.index
    found = await visit.service.run(index.hot_buckets)
    page = shown.heading("Hot buckets", "Buckets of many documents: every search that looks into one goes through all of them.")
    most, compared = index.settings.max_bucket, index.settings.max_candidates
    cap = f"A bucket holds {most:,} at most, and a search compares {compared:,} candidates at most."
    if not found:
        return [*page, shown.note("No search of this process has looked into a large bucket yet. " + cap)]
    rows = [
        (f"{size:,}", visible(entry.scope), shown.cluster_link(entry.scope, entry.id), shown.excerpt(entry.text))
        for size, entry in found
        if not entry.scope.startswith(RESERVED)
    ]
    caption = "Largest first, as searches of this process saw them"
    return [*page, shown.note(cap), shown.table(caption, ("Documents", "Scope", "Oldest one", shown.EXCERPTS), rows)]


PAGE = Page("buckets", "Hot buckets", "admin", build)
