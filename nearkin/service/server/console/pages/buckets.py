"""The page of hot buckets: the buckets that cost searches most."""

from collections.abc import Mapping

from markupsafe import Markup

from nearkin.index.entry import RESERVED, Entry
from nearkin.index.stats import MAX_HOT_BUCKETS
from nearkin.service.server.console.markup import cluster_link, excerpt, render
from nearkin.service.server.console.visitor import Page, Visit

MAX_BUCKETS = 20
"""Maximum number of buckets that are shown."""


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page."""
    index = visit.service.index
    hottest = await visit.service.run_overview(index.hot_buckets, MAX_HOT_BUCKETS)
    buckets = [(size, entry) for size, entry in hottest if is_shown(visit, entry)][:MAX_BUCKETS]
    rows = [
        (f"{size:,}", entry.scope, cluster_link(entry.scope, entry.id), excerpt(entry.text))
        for size, entry in buckets
    ]
    return render("buckets.html", rows=rows, settings=index.settings)


def is_shown(visit: Visit, entry: Entry) -> bool:
    """Returns True if the token has access to an entry, and its scope is not internal."""
    return visit.who.can_access(entry.scope) and not entry.scope.startswith(RESERVED)


PAGE = Page("buckets", "Hot buckets", "admin", build)
