"""Clusters of a scope: the largest, the newest, those that are searched for, and one with its members."""

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
from nearkin.server.console import components as shown
from nearkin.server.console.pages.search import TOP
from nearkin.server.console.visitor import Page, Visit, address, current
from nearkin.server.http.auth import CONTROL_CHARACTER, validate_name
from nearkin.server.http.problems import ProblemError

ON_A_PAGE = 25
ORDERS = {"largest": "Largest", "newest": "Newest"}
PATIENCE = 2.0
"""Seconds that texts are gone through for."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """The page: one cluster where an id is given, else a list."""
    scopes = await visit.scopes()
    scope = query.get("scope") or (scopes[0] if scopes else "")
    choice = shown.scope_form("clusters", scopes, scope)
    if not scope:
        return [
            *shown.heading("Clusters"),
            choice,
            shown.note("No scope has documents yet. Name one, if you know better."),
        ]
    visit.require_scope(scope)
    if "id" in query:
        return await _one(visit, scope, query)
    return [*shown.heading("Clusters"), choice, _search(scope), *await _list(visit, scope, query)]


# -- lists


async def _list(visit: Visit, scope: str, query: Mapping[str, str]) -> list[Component]:
    service = visit.service
    found = await service.run_overview(service.cluster_listings.listing, scope)
    order = query.get("order", "largest") if query.get("order") in ORDERS else "largest"
    start = whole(query.get("start"))
    heads = found.largest if order == "largest" else found.newest
    some = heads[start : start + ON_A_PAGE]
    entries = await service.run_in_thread(
        service.index.get_many, scope, [head.representative for head in some]
    )
    steps = []
    for text, first in (("Before", start - ON_A_PAGE), ("Further", start + ON_A_PAGE)):
        if 0 <= first < len(heads):
            steps.append(
                html.A(text, href=address("clusters", scope=scope, order=order, start=str(first)))
            )
    documents = "document" if found.documents == 1 else "documents"
    clusters = "cluster" if found.clusters == 1 else "clusters"
    return [
        shown.note(
            f"{found.documents:,} {documents} in {found.clusters:,} {clusters}, counted at {shown.at(found.as_of)}. "
            "The representative is the document that stands for the others."
        ),
        html.Nav(
            html.Ul([html.Li(_order(scope, name, order)) for name in ORDERS]),
            className="orders",
            **shown.aria(label="Order"),
        ),
        _heads(f"{ORDERS[order]} clusters of {make_visible(scope)}", scope, some, entries),
        html.P(steps, className="steps"),
    ]


def _order(scope: str, name: str, order: str) -> Component:
    here = shown.aria(current="true") if name == order else {}
    return html.A(ORDERS[name], href=address("clusters", scope=scope, order=name), **here)


def _heads(
    caption: str, scope: str, heads: Sequence[ClusterSummary], entries: Sequence[Entry | None]
) -> Component:
    rows = [
        (
            shown.cluster_link(scope, head.representative),
            f"{head.size:,}",
            shown.excerpt(entry and entry.text),
            shown.moment(head.created),
        )
        for head, entry in zip(heads, entries, strict=True)
    ]
    return shown.table(
        caption, ("Representative", "Documents", shown.EXCERPTS, "Since"), rows, numbers=(1,)
    )


def whole(text: str | None) -> int:
    """A number of an address; 0 where it is none.

    Examples:
        >>> whole("50"), whole("-1"), whole(None)
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
            html.Div(id="search-found", role="region", **shown.aria(live="polite", label="Found")),
        ],
        className="bar",
        role="search",
    )


async def _find(
    _: int | None, __: int | None, text: str | None, scope: str | None
) -> list[Component]:
    visit = current()
    visit.require_scope(scope or "")
    if not (text or "").strip():
        return []
    await visit.admit()
    entries, whole_scope = await visit.service.run_overview(
        find, visit.service.index, scope or "", (text or "").strip()
    )
    more = (
        "" if whole_scope else f" in the documents that were gone through in {PATIENCE:g} seconds"
    )
    if not entries:
        return [shown.note(f"Nothing was found{more}.")]
    rows = [
        (
            shown.cluster_link(scope or "", entry.id),
            shown.name_of(entry.leader),
            shown.excerpt(entry.text),
        )
        for entry in entries
    ]
    return [
        shown.table(
            f"{len(entries)} found{more}", ("Document", "Representative", shown.EXCERPTS), rows
        )
    ]


def find(index: Index, scope: str, text: str) -> tuple[list[Entry], bool]:
    """Documents with that id, that resemble the text, or that have it in their id or text; and whether these are all."""
    first: list[Entry | None] = []
    if (
        not CONTROL_CHARACTER.search(text)
        and len(text.encode("utf-8", "replace")) <= MAX_NAME_BYTES
    ):
        first.append(index.get(scope, text))
    if not index.holds_vectors:
        similar = [match.id for match in index.query(scope, text, TOP)]
        first += index.get_many(scope, similar) if similar else []
    found = {entry.id: entry for entry in first if entry is not None}
    until, words = time.monotonic() + PATIENCE, text.casefold()
    for entry in index.scan(scope):
        if len(found) >= TOP:
            return list(found.values())[:TOP], True
        if words in entry.id.casefold() or words in (entry.text or "").casefold():
            found.setdefault(entry.id, entry)
        if time.monotonic() > until:
            return list(found.values()), False
    return list(found.values()), True


# -- one


async def _one(visit: Visit, scope: str, query: Mapping[str, str]) -> list[Component]:
    service, id = visit.service, validate_name(query["id"], "id")
    start = whole(query.get("start"))
    # the representative, which is the first, is on no page of members
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
    back = html.A(f"Clusters of {make_visible(scope)}", href=address("clusters", scope=scope))
    page: list[Component] = [
        html.P(back, className="back"),
        html.H1(shown.name_of(cluster.id)),
        shown.tiles(
            ("Documents", f"{cluster.size:,}"),
            (
                "Least similar here",
                format_similarity(
                    min((similarity for _, similarity in cluster.members), default=1.0)
                ),
            ),
            ("Since", shown.at(head.created)[:10] if head else "–"),
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
    """Returns the member that is shown beside the representative: the one asked for, or the first that is not equal to it."""
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
        html.Pre(shown.beginning(text), tabIndex="0", dir="auto")
        if text is not None
        else shown.note("Its text is not kept.")
    )
    return [
        html.H2("Nothing else resembles it" if cluster.size == 1 else "Its representative"),
        content,
    ]


def _beside(head: Entry, other: Entry, why: Explanation | None) -> Component:
    title = html.H3([shown.name_of(other.id), shown.similar(other.similarity)])
    if head.text is None or other.text is None:
        return shown.section(
            "Beside the representative", title, shown.note("Texts are not kept."), id="beside"
        )
    same = (
        "This member has the same words."
        if other.similarity == 1
        else "They read the same as far as the excerpt goes."
    )
    texts = shown.sides(
        (f"Representative {make_visible(head.id)}", head.text),
        (f"Member {make_visible(other.id)}", other.text),
        same,
    )
    rows = describe_explanation(why) if why is not None else []
    reasons = (
        html.Details(
            [html.Summary("Why they match"), shown.table("Compared exactly", ("", ""), rows)]
        )
        if rows
        else None
    )
    parts = [part for part in (title, texts, reasons) if part is not None]
    return shown.section("Beside the representative", *parts, id="beside")


def explained(index: Index, scope: str, a: str, b: str) -> Explanation | None:
    """Why two documents match, where there are texts to say it of."""
    try:
        return index.explain(scope, a, b)
    except UsageError:
        return None


def _members(scope: str, cluster: ClusterPart, start: int, shown_id: str) -> Component:
    rows = []
    for name, similarity in cluster.members:
        here = shown.aria(current="true") if name == shown_id else {}
        link = html.A(
            shown.name_of(name),
            href=address("clusters", scope=scope, id=cluster.representative, member=name),
            **here,
        )
        rows.append((link, format_similarity(similarity)))
    steps = []
    for text, first in (("Before", start - ON_A_PAGE), ("Further", start + ON_A_PAGE)):
        if 0 <= first < cluster.size - 1:
            steps.append(
                html.A(
                    text,
                    href=address(
                        "clusters", scope=scope, id=cluster.representative, start=str(first)
                    ),
                )
            )
    caption = f"{cluster.size - 1:,} resolved to {make_visible(cluster.representative)}"
    content = shown.table(caption, ("Member", "Similarity"), rows, numbers=(1,))
    return shown.section("Members", content, html.P(steps, className="steps"), id="members")


def connect(app: Dash) -> None:
    """The search."""
    asked = (Input("search-button", "n_clicks"), Input("search-text", "n_submit"))
    given = (State("search-text", "value"), State("search-scope", "data"))
    app.callback(Output("search-found", "children"), *asked, *given, prevent_initial_call=True)(
        _find
    )


PAGE = Page("clusters", "Clusters", "read", build, connect)
