"""The page of clusters: listings, a search, and one cluster with its members."""

import time
from collections.abc import Mapping

from markupsafe import Markup

from nearkin.errors import UsageError
from nearkin.index.entry import MAX_NAME_BYTES, ClusterPart, Entry
from nearkin.index.index import Index
from nearkin.reports.diff import DocumentRole
from nearkin.reports.explanation import describe_explanation
from nearkin.runtime.number_format import format_similarity
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console.markup import (
    ShownText,
    cluster_link,
    equality_remark,
    excerpt,
    format_time,
    id_label,
    render,
    render_in_thread,
    side_by_side,
    time_label,
)
from nearkin.service.server.console.pages.search import MAX_MATCHES
from nearkin.service.server.console.visitor import Page, ScopeMenu, Visit, page_url
from nearkin.service.server.http.auth import CONTROL_CHARACTER, validate_name
from nearkin.service.server.http.problems import ProblemError
from nearkin.stages.measures.explanation import Explanation

PAGE_SIZE = 25
LARGEST = "largest"
ORDERS = {LARGEST: "Largest", "newest": "Newest"}
SCAN_SECONDS = 2.0
"""Maximum number of seconds for which texts are searched."""


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page: one cluster if the query has an id, otherwise a listing."""
    # A page of one cluster has no menu, so it does not count the documents of the scopes.
    if "id" in query and query.get("scope"):
        visit.require_scope(query["scope"])
        return await _build_cluster(visit, query["scope"], query)
    menu = await visit.scope_menu(query)
    if not menu.has_documents:
        return render("clusters.html", menu=menu)
    if "id" in query:
        return await _build_cluster(visit, menu.selected, query)
    return await _build_listing(visit, menu, query)


# -- lists


async def _build_listing(visit: Visit, menu: ScopeMenu, query: Mapping[str, str]) -> Markup:
    service = visit.service
    scope = menu.selected
    listing = await service.run_overview(service.cluster_listings.listing, scope)
    order = query.get("order", LARGEST)
    if order not in ORDERS:
        order = LARGEST
    start = parse_number(query.get("start"))
    clusters = listing.largest if order == LARGEST else listing.newest
    shown_clusters = clusters[start : start + PAGE_SIZE]
    representatives = await service.run_in_thread(
        service.index.get_many, scope, [cluster.representative for cluster in shown_clusters]
    )
    rows = [
        (
            cluster_link(scope, cluster.representative),
            f"{cluster.size:,}",
            excerpt(entry and entry.text),
            time_label(cluster.created),
        )
        for cluster, entry in zip(shown_clusters, representatives, strict=True)
    ]
    return render(
        "clusters.html",
        menu=menu,
        listing=listing,
        orders=ORDERS,
        order=order,
        rows=rows,
        start=start,
        page_size=PAGE_SIZE,
        total=len(clusters),
    )


def parse_number(text: str | None, digits: int = 9) -> int:
    """Returns a number of a URL, or 0 if it is not a valid number.

    Examples:
        >>> parse_number("50"), parse_number("-1"), parse_number(None)
        (50, 0, 0)
    """
    if text and text.isascii() and text.isdigit() and len(text) <= digits:
        return int(text)
    return 0


# -- search


async def search(visit: Visit, values: Mapping[str, str]) -> Markup:
    """Returns the documents that match what was entered."""
    searched_text = values.get("text", "").strip()
    scope = values.get("scope", "")
    visit.require_scope(scope)
    if not searched_text:
        return Markup("")
    await visit.admit()
    entries, is_complete = await visit.service.run_overview(
        find_documents, visit.service.index, scope, searched_text
    )
    extent = ""
    if not is_complete:
        extent = f" in the documents that were searched within {SCAN_SECONDS:g} seconds"
    rows = [
        (cluster_link(scope, entry.id), id_label(entry.leader), excerpt(entry.text))
        for entry in entries
    ]
    return render("found.html", rows=rows, extent=extent)


def find_documents(index: Index, scope: str, text: str) -> tuple[list[Entry], bool]:
    """Returns documents that match a text, and whether all documents were searched.

    Documents with this id and near-duplicates come first, then those that contain the text.
    """
    candidates: list[Entry | None] = []
    is_possible_id = not CONTROL_CHARACTER.search(text)
    if is_possible_id and len(text.encode("utf-8", "replace")) <= MAX_NAME_BYTES:
        candidates.append(index.get(scope, text))
    if not index.holds_vectors and index.settings.combine != "both":
        similar_ids = [match.id for match in index.query(scope, text, MAX_MATCHES)]
        if similar_ids:
            candidates += index.get_many(scope, similar_ids)
    matching = {entry.id: entry for entry in candidates if entry is not None}
    deadline = time.monotonic() + SCAN_SECONDS
    folded_text = text.casefold()
    for entry in index.scan(scope):
        if len(matching) >= MAX_MATCHES:
            return list(matching.values())[:MAX_MATCHES], True
        if folded_text in entry.id.casefold() or folded_text in (entry.text or "").casefold():
            matching.setdefault(entry.id, entry)
        if time.monotonic() > deadline:
            return list(matching.values()), False
    return list(matching.values()), True


# -- one cluster


async def _build_cluster(visit: Visit, scope: str, query: Mapping[str, str]) -> Markup:
    service = visit.service
    id = validate_name(query["id"], "id")
    start = parse_number(query.get("start"))
    # the representative is the first member, and is on no page of members
    cluster = await service.run_in_thread(
        service.index.cluster_part, scope, id, 1 + start, PAGE_SIZE
    )
    if cluster is None:
        raise ProblemError("not-found", f"scope {scope} has no document {id!r}")
    requested_id = validate_name(query.get("member") or id, "member")
    member_id = await service.run_in_thread(
        _choose_member, service.index, scope, cluster, requested_id
    )
    representative = await service.run_in_thread(service.index.get, scope, cluster.representative)
    lowest = min((similarity for _, similarity in cluster.members), default=1.0)
    facts = [
        ("Documents", f"{cluster.size:,}"),
        ("Lowest similarity on this page", format_similarity(lowest)),
        ("Created", format_time(representative.created)[:10] if representative else "–"),
    ]
    member = None
    if member_id is not None:
        member = await service.run_in_thread(service.index.get, scope, member_id)
    explanation = None
    sides = Markup("")
    if member is not None and representative is not None:
        explanation = await service.run_overview(
            explain_match, service.index, scope, cluster.representative, member.id
        )
        if explanation is not None and not visit.who.has_right("admin"):
            explanation = explanation.without_counts()
        sides = await service.run_overview(_beside_representative, representative, member)
    return await render_in_thread(
        visit,
        "cluster.html",
        scope=scope,
        cluster=cluster,
        id=id_label(cluster.id),
        facts=facts,
        representative=representative,
        member=member,
        sides=sides,
        reasons=None if explanation is None else describe_explanation(explanation),
        rows=_member_rows(scope, cluster, member_id),
        start=start,
        page_size=PAGE_SIZE,
    )


def _choose_member(index: Index, scope: str, cluster: ClusterPart, requested_id: str) -> str | None:
    """Returns the id of the member that is shown: the requested one, or the first that differs."""
    entry = index.get(scope, requested_id)
    if entry is not None and entry.leader == cluster.representative and not entry.is_leader:
        return entry.id
    first_page = index.cluster_part(scope, cluster.representative, 1, PAGE_SIZE)
    if first_page is None or not first_page.members:
        return None
    ids_that_differ = (id for id, similarity in first_page.members if similarity < 1)
    return next(ids_that_differ, first_page.members[0][0])


def _beside_representative(representative: Entry, member: Entry) -> Markup:
    """Returns the text of a member beside that of its representative, if both are stored."""
    if representative.text is None or member.text is None:
        return Markup("")
    return side_by_side(
        ShownText(
            f"Representative {make_visible(representative.id)}",
            representative.text,
            DocumentRole.KEPT,
        ),
        ShownText(f"Member {make_visible(member.id)}", member.text, DocumentRole.REMOVED),
        equality_remark(member.similarity),
    )


def explain_match(index: Index, scope: str, a: str, b: str) -> Explanation | None:
    """Returns why two documents match, or None if their texts are not stored."""
    try:
        return index.explain(scope, a, b)
    except UsageError:
        return None


def _member_rows(
    scope: str, cluster: ClusterPart, shown_id: str | None
) -> list[tuple[Markup, str]]:
    link = Markup('<a href="{}"{}>{}</a>')
    rows = []
    for id, similarity in cluster.members:
        address = page_url("clusters", scope=scope, id=cluster.representative, member=id)
        mark = Markup(' aria-current="true"') if id == shown_id else ""
        rows.append((link.format(address, mark, id_label(id)), format_similarity(similarity)))
    return rows


PAGE = Page("clusters", "Clusters", "read", build, search)
