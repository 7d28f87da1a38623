"""The page of clusters: listings, a search, and one cluster with its members."""

import time
from collections.abc import Mapping, Sequence

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.index.entry import MAX_NAME_BYTES, ClusterPart, Entry
from nearkin.index.index import Index
from nearkin.measures.explanation import Explanation
from nearkin.report.escaping import make_visible
from nearkin.report.explanation import describe_explanation
from nearkin.report.formatting import format_similarity
from nearkin.server.cluster_listings import ClusterSummary
from nearkin.server.console import components as ui
from nearkin.server.console.pages.search import MAX_MATCHES
from nearkin.server.console.visitor import Page, Visit, current_visit, page_url
from nearkin.server.http.auth import CONTROL_CHARACTER, validate_name
from nearkin.server.http.problems import ProblemError

ON_A_PAGE = 25
ORDERS = {"largest": "Largest", "newest": "Newest"}
SCAN_SECONDS = 2.0
"""Maximum number of seconds for which texts are searched."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page: one cluster if the query has an id, otherwise a listing.

    Args:
        visit: The current visit.
        query: Query parameters.
    """
    scopes = await visit.scopes()
    scope = query.get("scope") or (scopes[0] if scopes else "")
    choice = ui.scope_form("clusters", scopes, scope)
    if not scope:
        return [
            *ui.page_heading("Clusters"),
            choice,
            ui.note("No scope with documents was found. Enter the name of a scope."),
        ]
    visit.require_scope(scope)
    if "id" in query:
        return await _one(visit, scope, query)
    return [*ui.page_heading("Clusters"), choice, _search(scope), *await _list(visit, scope, query)]


# -- lists


async def _list(visit: Visit, scope: str, query: Mapping[str, str]) -> list[Component]:
    service = visit.service
    found = await service.run_overview(service.cluster_listings.listing, scope)
    order = query.get("order", "largest") if query.get("order") in ORDERS else "largest"
    start = parse_number(query.get("start"))
    heads = found.largest if order == "largest" else found.newest
    some = heads[start : start + ON_A_PAGE]
    entries = await service.run_in_thread(
        service.index.get_many, scope, [head.representative for head in some]
    )
    steps = []
    for text, first in (("Previous", start - ON_A_PAGE), ("Next", start + ON_A_PAGE)):
        if 0 <= first < len(heads):
            steps.append(
                html.A(text, href=page_url("clusters", scope=scope, order=order, start=str(first)))
            )
    documents = "document" if found.documents == 1 else "documents"
    clusters = "cluster" if found.clusters == 1 else "clusters"
    return [
        ui.note(
            f"{found.documents:,} {documents} in {found.clusters:,} {clusters}, counted at "
            f"{ui.format_time(found.as_of)}. "
            "Searches find a cluster by its representative."
        ),
        html.Nav(
            html.Ul([html.Li(_order(scope, name, order)) for name in ORDERS]),
            className="orders",
            **ui.aria_attributes(label="Order"),
        ),
        _heads(f"{ORDERS[order]} clusters of {make_visible(scope)}", scope, some, entries),
        html.P(steps, className="steps"),
    ]


def _order(scope: str, name: str, order: str) -> Component:
    here = ui.aria_attributes(current="true") if name == order else {}
    return html.A(ORDERS[name], href=page_url("clusters", scope=scope, order=name), **here)


def _heads(
    caption: str, scope: str, heads: Sequence[ClusterSummary], entries: Sequence[Entry | None]
) -> Component:
    rows = [
        (
            ui.cluster_link(scope, head.representative),
            f"{head.size:,}",
            ui.excerpt(entry and entry.text),
            ui.time_label(head.created),
        )
        for head, entry in zip(heads, entries, strict=True)
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
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


# -- search


def _search(scope: str) -> Component:
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


async def _find(
    _: int | None, __: int | None, text: str | None, scope: str | None
) -> list[Component]:
    visit = current_visit()
    visit.require_scope(scope or "")
    if not (text or "").strip():
        return []
    await visit.admit()
    entries, whole_scope = await visit.service.run_overview(
        find, visit.service.index, scope or "", (text or "").strip()
    )
    more = (
        ""
        if whole_scope
        else f" in the documents that were searched within {SCAN_SECONDS:g} seconds"
    )
    if not entries:
        return [ui.note(f"No documents found{more}.")]
    rows = [
        (
            ui.cluster_link(scope or "", entry.id),
            ui.id_label(entry.leader),
            ui.excerpt(entry.text),
        )
        for entry in entries
    ]
    return [
        ui.table(
            f"{len(entries)} found{more}", ("Document", "Representative", ui.EXCERPT_COLUMN), rows
        )
    ]


def find(index: Index, scope: str, text: str) -> tuple[list[Entry], bool]:
    """Returns documents that match a text, and whether all documents were searched.

    Args:
        index: The index.
        scope: Scope that is searched.
        text: Id, text or part of a text.
    """
    first: list[Entry | None] = []
    if (
        not CONTROL_CHARACTER.search(text)
        and len(text.encode("utf-8", "replace")) <= MAX_NAME_BYTES
    ):
        first.append(index.get(scope, text))
    if not index.holds_vectors:
        similar = [match.id for match in index.query(scope, text, MAX_MATCHES)]
        first += index.get_many(scope, similar) if similar else []
    found = {entry.id: entry for entry in first if entry is not None}
    until, words = time.monotonic() + SCAN_SECONDS, text.casefold()
    for entry in index.scan(scope):
        if len(found) >= MAX_MATCHES:
            return list(found.values())[:MAX_MATCHES], True
        if words in entry.id.casefold() or words in (entry.text or "").casefold():
            found.setdefault(entry.id, entry)
        if time.monotonic() > until:
            return list(found.values()), False
    return list(found.values()), True


# -- one


async def _one(visit: Visit, scope: str, query: Mapping[str, str]) -> list[Component]:
    service, id = visit.service, validate_name(query["id"], "id")
    start = parse_number(query.get("start"))
    # the representative is the first member, and is on no page of members
    cluster = await service.run_in_thread(
        service.index.cluster_part, scope, id, 1 + start, ON_A_PAGE
    )
    if cluster is None:
        raise ProblemError("not-found", f"scope {scope} has no document {id!r}")
    chosen = await service.run_in_thread(
        _chosen, service.index, scope, cluster, validate_name(query.get("member") or id, "member")
    )
    asked = [cluster.representative, *([chosen[0]] if chosen else [])]
    head, *others = await service.run_in_thread(service.index.get_many, scope, asked)
    back = html.A(f"Clusters of {make_visible(scope)}", href=page_url("clusters", scope=scope))
    page: list[Component] = [
        html.P(back, className="back"),
        html.H1(ui.id_label(cluster.id)),
        ui.fact_tiles(
            ("Documents", f"{cluster.size:,}"),
            (
                "Lowest similarity on this page",
                format_similarity(
                    min((similarity for _, similarity in cluster.members), default=1.0)
                ),
            ),
            ("Created", ui.format_time(head.created)[:10] if head else "–"),
        ),
    ]
    if chosen is None or not others or others[0] is None or head is None:
        return [*page, *_alone(cluster, head)]
    why = await service.run_overview(
        explained, service.index, scope, cluster.representative, chosen[0]
    )
    beside = await service.run_overview(_beside, head, others[0], why)
    return [*page, beside, _members(scope, cluster, start, chosen[0])]


def _chosen(index: Index, scope: str, cluster: ClusterPart, asked: str) -> tuple[str, float] | None:
    """Returns the member that is shown: the requested one, or the first that differs."""
    entry = index.get(scope, asked)
    if entry is not None and entry.leader == cluster.representative and not entry.is_leader:
        return entry.id, entry.similarity
    first = index.cluster_part(scope, cluster.representative, 1, ON_A_PAGE)
    members = () if first is None else first.members
    near = (member for member in members if member[1] < 1)
    return next(near, members[0] if members else None)


def _alone(cluster: ClusterPart, head: Entry | None) -> list[Component]:
    text = head.text if head else None
    content = (
        html.Pre(ui.truncate_text(text), tabIndex="0", dir="auto")
        if text is not None
        else ui.note("The text is not stored.")
    )
    return [
        html.H2("No similar documents" if cluster.size == 1 else "Representative"),
        content,
    ]


def _beside(head: Entry, other: Entry, why: Explanation | None) -> Component:
    title = html.H3([ui.id_label(other.id), ui.similarity_label(other.similarity)])
    if head.text is None or other.text is None:
        return ui.section(
            "Beside the representative", title, ui.note("Texts are not stored."), id="beside"
        )
    same = (
        "Both texts have the same words."
        if other.similarity == 1
        else "The excerpts do not differ."
    )
    texts = ui.side_by_side(
        (f"Representative {make_visible(head.id)}", head.text),
        (f"Member {make_visible(other.id)}", other.text),
        same,
    )
    rows = describe_explanation(why) if why is not None else []
    reasons = (
        html.Details([html.Summary("Why they match"), ui.table("Compared exactly", ("", ""), rows)])
        if rows
        else None
    )
    parts = [part for part in (title, texts, reasons) if part is not None]
    return ui.section("Beside the representative", *parts, id="beside")


def explained(index: Index, scope: str, a: str, b: str) -> Explanation | None:
    """Returns why two documents match, or None if their texts are not stored.

    Args:
        index: The index.
        scope: Scope of the documents.
        a: Id of the first document.
        b: Id of the second document.
    """
    try:
        return index.explain(scope, a, b)
    except UsageError:
        return None


def _members(scope: str, cluster: ClusterPart, start: int, shown_id: str) -> Component:
    rows = []
    for name, similarity in cluster.members:
        here = ui.aria_attributes(current="true") if name == shown_id else {}
        link = html.A(
            ui.id_label(name),
            href=page_url("clusters", scope=scope, id=cluster.representative, member=name),
            **here,
        )
        rows.append((link, format_similarity(similarity)))
    steps = []
    for text, first in (("Previous", start - ON_A_PAGE), ("Next", start + ON_A_PAGE)):
        if 0 <= first < cluster.size - 1:
            steps.append(
                html.A(
                    text,
                    href=page_url(
                        "clusters", scope=scope, id=cluster.representative, start=str(first)
                    ),
                )
            )
    caption = f"{cluster.size - 1:,} resolved to {make_visible(cluster.representative)}"
    content = ui.table(caption, ("Member", "Similarity"), rows, numbers=(1,))
    return ui.section("Members", content, html.P(steps, className="steps"), id="members")


def connect(app: Dash) -> None:
    """Registers the callback of the search."""
    asked = (Input("search-button", "n_clicks"), Input("search-text", "n_submit"))
    given = (State("search-text", "value"), State("search-scope", "data"))
    app.callback(Output("search-found", "children"), *asked, *given, prevent_initial_call=True)(
        _find
    )


PAGE = Page("clusters", "Clusters", "read", build, connect)
