"""The page of clusters: listings, a search, and one cluster with its members."""

import time
from collections.abc import Mapping, Sequence

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.index.entry import MAX_NAME_BYTES, ClusterPart, Entry
from nearkin.index.index import Index
from nearkin.reports.diff import DocumentRole
from nearkin.reports.explanation import describe_explanation
from nearkin.runtime.number_format import format_similarity
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.cluster_listings import ClusterSummary
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.pages.search import MAX_MATCHES
from nearkin.service.server.console.visitor import Page, Visit, current_visit, page_url
from nearkin.service.server.http.auth import CONTROL_CHARACTER, validate_name
from nearkin.service.server.http.problems import ProblemError
from nearkin.stages.measures.explanation import Explanation

PAGE_SIZE = 25
LARGEST = "largest"
ORDERS = {LARGEST: "Largest", "newest": "Newest"}
SCAN_SECONDS = 2.0
"""Maximum number of seconds for which texts are searched."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page: one cluster if the query has an id, otherwise a listing."""
    # A page of one cluster has no menu, so it does not count the documents of the scopes.
    if "id" in query and query.get("scope"):
        visit.require_scope(query["scope"])
        return await _build_cluster(visit, query["scope"], query)
    menu = await visit.scope_menu(query)
    scope = menu.selected
    page = [*ui.page_heading("Clusters"), ui.scope_form("clusters", menu)]
    remark = ui.scope_note(menu)
    if remark is not None:
        return [*page, remark]
    if "id" in query:
        return await _build_cluster(visit, scope, query)
    return [*page, _search_form(scope), *await _build_listing(visit, scope, query)]


# -- lists


async def _build_listing(visit: Visit, scope: str, query: Mapping[str, str]) -> list[Component]:
    service = visit.service
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
    document_word = "document" if listing.documents == 1 else "documents"
    cluster_word = "cluster" if listing.clusters == 1 else "clusters"
    caption = f"{ORDERS[order]} clusters of {make_visible(scope)}"
    return [
        ui.note(
            f"{listing.documents:,} {document_word} in {listing.clusters:,} {cluster_word}, "
            f"counted at {ui.format_time(listing.as_of)}. "
            "Searches find a cluster by its representative."
        ),
        html.Nav(
            html.Ul([html.Li(_order_link(scope, name, order)) for name in ORDERS]),
            className="orders",
            **ui.aria_attributes(label="Order"),
        ),
        _cluster_table(caption, scope, shown_clusters, representatives),
        ui.page_steps("clusters", start, PAGE_SIZE, len(clusters), scope=scope, order=order),
    ]


def _order_link(scope: str, order: str, current_order: str) -> Component:
    attributes = ui.aria_attributes(current="true") if order == current_order else {}
    return html.A(ORDERS[order], href=page_url("clusters", scope=scope, order=order), **attributes)


def _cluster_table(
    caption: str,
    scope: str,
    clusters: Sequence[ClusterSummary],
    representatives: Sequence[Entry | None],
) -> Component:
    rows = [
        (
            ui.cluster_link(scope, cluster.representative),
            f"{cluster.size:,}",
            ui.excerpt(entry and entry.text),
            ui.time_label(cluster.created),
        )
        for cluster, entry in zip(clusters, representatives, strict=True)
    ]
    return ui.table(
        caption, ("Representative", "Documents", ui.EXCERPT_COLUMN, "Created"), rows, numbers=(1,)
    )


def parse_number(text: str | None) -> int:
    """Returns a number of a URL, or 0 if it is not a valid number.

    Examples:
        >>> parse_number("50"), parse_number("-1"), parse_number(None)
        (50, 0, 0)
    """
    if text and text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return 0


# -- search


def _search_form(scope: str) -> Component:
    field = dcc.Input(
        id="search-text", type="text", autoComplete="off", spellCheck=False, debounce=True
    )
    return html.Div(
        [
            html.Div(
                [html.Label("Document id, or words of a text", htmlFor="search-text"), field],
                className="field",
            ),
            html.Button("Search", id="search-button", type="button"),
            dcc.Store(id="search-scope", data=scope),
            html.Div(
                id="search-found",
                role="region",
                **ui.aria_attributes(live="polite", label="Results"),
            ),
        ],
        className="bar",
        role="search",
    )


async def _search(
    _: int | None, __: int | None, text: str | None, scope: str | None
) -> list[Component]:
    """Returns the documents that match the input. Dash passes None for an empty field."""
    visit = current_visit()
    searched_text = (text or "").strip()
    scope = scope or ""
    visit.require_scope(scope)
    if not searched_text:
        return []
    await visit.admit()
    entries, is_complete = await visit.service.run_overview(
        find_documents, visit.service.index, scope, searched_text
    )
    extent = ""
    if not is_complete:
        extent = f" in the documents that were searched within {SCAN_SECONDS:g} seconds"
    if not entries:
        return [ui.note(f"No documents found{extent}.")]
    rows = [
        (
            ui.cluster_link(scope, entry.id),
            ui.id_label(entry.leader),
            ui.excerpt(entry.text),
        )
        for entry in entries
    ]
    return [
        ui.table(
            f"{len(entries)} found{extent}", ("Document", "Representative", ui.EXCERPT_COLUMN), rows
        )
    ]


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


async def _build_cluster(visit: Visit, scope: str, query: Mapping[str, str]) -> list[Component]:
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
    created = ui.format_time(representative.created)[:10] if representative else "–"
    back = html.A(f"Clusters of {make_visible(scope)}", href=page_url("clusters", scope=scope))
    page: list[Component] = [
        html.P(back, className="back"),
        html.H1(ui.id_label(cluster.id)),
        ui.fact_tiles(
            ("Documents", f"{cluster.size:,}"),
            ("Lowest similarity on this page", format_similarity(lowest)),
            ("Created", created),
        ),
    ]
    member = None
    if member_id is not None:
        member = await service.run_in_thread(service.index.get, scope, member_id)
    if member is None or representative is None:
        return [*page, *_representative_text(cluster, representative)]
    explanation = await service.run_overview(
        explain_match, service.index, scope, cluster.representative, member.id
    )
    if explanation is not None and not visit.who.has_right("admin"):
        explanation = explanation.without_counts()
    comparison = await service.run_overview(
        _comparison_section, representative, member, explanation
    )
    return [*page, comparison, _members_section(scope, cluster, start, member.id)]


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


def _representative_text(cluster: ClusterPart, representative: Entry | None) -> list[Component]:
    """Returns the text of the representative, for clusters without another document to show."""
    heading = "No similar documents" if cluster.size == 1 else "Representative"
    if representative is None or representative.text is None:
        return [html.H2(heading), ui.note("The text is not stored.")]
    text = ui.truncate_text(representative.text)
    return [html.H2(heading), html.Pre(text, tabIndex="0", dir="auto")]


def _comparison_section(
    representative: Entry, member: Entry, explanation: Explanation | None
) -> Component:
    """Returns a member beside the representative, and the reasons why they match."""
    title = html.H3([ui.id_label(member.id), ", ", ui.similarity_label(member.similarity)])
    if representative.text is None or member.text is None:
        content = [ui.note("Texts are not stored.")]
    else:
        content = [
            ui.side_by_side(
                ui.ShownText(
                    f"Representative {make_visible(representative.id)}",
                    representative.text,
                    DocumentRole.KEPT,
                ),
                ui.ShownText(
                    f"Member {make_visible(member.id)}", member.text, DocumentRole.REMOVED
                ),
                ui.equality_remark(member.similarity),
            )
        ]
        if explanation is not None:
            rows = describe_explanation(explanation)
            reasons = ui.table("Compared exactly", ("", ""), rows)
            content.append(html.Details([html.Summary("Why they match"), reasons]))
    return ui.section("Beside the representative", title, *content, id="beside")


def explain_match(index: Index, scope: str, a: str, b: str) -> Explanation | None:
    """Returns why two documents match, or None if their texts are not stored."""
    try:
        return index.explain(scope, a, b)
    except UsageError:
        return None


def _members_section(scope: str, cluster: ClusterPart, start: int, shown_id: str) -> Component:
    rows = []
    for id, similarity in cluster.members:
        attributes = ui.aria_attributes(current="true") if id == shown_id else {}
        link = html.A(
            ui.id_label(id),
            href=page_url("clusters", scope=scope, id=cluster.representative, member=id),
            **attributes,
        )
        rows.append((link, format_similarity(similarity)))
    members = cluster.size - 1
    caption = f"{members:,} resolved to {make_visible(cluster.representative)}"
    table = ui.table(caption, ("Member", "Similarity"), rows, numbers=(1,))
    steps = ui.page_steps(
        "clusters", start, PAGE_SIZE, members, scope=scope, id=cluster.representative
    )
    return ui.section("Members", table, steps, id="members")


def connect(app: Dash) -> None:
    """Registers the callback of the search."""
    app.callback(
        Output("search-found", "children"),
        Input("search-button", "n_clicks"),
        Input("search-text", "n_submit"),
        State("search-text", "value"),
        State("search-scope", "data"),
        prevent_initial_call=True,
    )(_search)


PAGE = Page("clusters", "Clusters", "read", build, connect)
