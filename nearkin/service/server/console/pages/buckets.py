"""The page of hot buckets: the buckets that cost searches most."""

from collections.abc import Mapping

from dash.development.base_component import Component

from nearkin.index.entry import RESERVED, Entry
from nearkin.index.stats import MAX_HOT_BUCKETS
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit

MAX_BUCKETS = 20
"""Maximum number of buckets that are shown."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page."""
    index = visit.service.index
    hottest = await visit.service.run_overview(index.hot_buckets, MAX_HOT_BUCKETS)
    buckets = [(size, entry) for size, entry in hottest if is_shown(visit, entry)][:MAX_BUCKETS]
    page = ui.page_heading(
        "Hot buckets",
        "Buckets of many documents. A search that reads a bucket reads all of its postings.",
    )
    limits = (
        f"A search reads at most {index.settings.bucket_capacity:,} postings of a bucket, and "
        f"compares {index.settings.max_candidates:,} candidates at a time until one is a match."
    )
    if not buckets:
        empty = "No search of this process has read a large bucket of your scopes yet."
        return [*page, ui.note(f"{empty} {limits}")]
    rows = [
        (
            f"{size:,}",
            make_visible(entry.scope),
            ui.cluster_link(entry.scope, entry.id),
            ui.excerpt(entry.text),
        )
        for size, entry in buckets
    ]
    caption = "Largest first, as read by searches of this process"
    return [
        *page,
        ui.note(limits),
        ui.table(caption, ("Documents", "Scope", "Oldest document", ui.EXCERPT_COLUMN), rows),
    ]


def is_shown(visit: Visit, entry: Entry) -> bool:
    """Returns True if the token has access to an entry, and its scope is not internal."""
    return visit.who.can_access(entry.scope) and not entry.scope.startswith(RESERVED)


PAGE = Page("buckets", "Hot buckets", "admin", build)
