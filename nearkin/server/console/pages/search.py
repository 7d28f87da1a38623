"""The page that searches for a text or a vector, and shows its matches beside it."""

import json
from collections.abc import Mapping, Sequence

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.index.documents import Document
from nearkin.index.entry import Entry, Match
from nearkin.report.diff import DocumentRole
from nearkin.runtime.number_format import format_similarity
from nearkin.server.console import components as ui
from nearkin.server.console.visitor import Page, Visit, current_visit
from nearkin.server.http.parsing import check_json_shape
from nearkin.server.routes.models import QueryRequest
from nearkin.server.service import Service

MAX_NEAR_MISSES = 3
"""Maximum number of documents below the threshold that are shown."""
MAX_MATCHES = 10
"""Maximum number of matches that are shown."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page.

    Args:
        visit: The current visit.
        query: Query parameters.

    Returns:
        The content of the page.
    """
    menu = await visit.scope_menu(query)
    page = [
        *ui.page_heading(
            "Search for a vector" if visit.service.index.holds_vectors else "Search for a text",
            "Finds stored near-duplicates. Nothing is stored.",
        ),
        ui.scope_form("try", menu),
    ]
    remark = ui.scope_note(menu)
    if remark is not None:
        return [*page, remark]
    vectors = visit.service.index.holds_vectors
    name = "A vector, as JSON" if vectors else "Text"
    text = dcc.Textarea(id="try-text", rows=9, spellCheck=False, required=True)
    button = html.Button("Search", id="try-button", type="button")
    return [
        *page,
        dcc.Store(id="try-scope", data=menu.selected),
        html.Div(
            [
                html.Div([html.Label(name, htmlFor="try-text"), text], className="field"),
                html.Div(button),
            ],
            className="form",
        ),
        # the live region announces the matches, so that no spinner is needed
        html.Div(
            id="try-found", role="region", **ui.aria_attributes(live="polite", label="Matches")
        ),
    ]


async def _search(_: int | None, text: str | None, scope: str | None) -> list[Component]:
    """Returns the matches of the input. Dash passes None for an empty field."""
    visit = current_visit()
    text = text or ""
    scope = scope or ""
    visit.require_scope(scope)
    if not text.strip():
        return [ui.note("Enter a text to search for.")]
    await visit.admit()
    service = visit.service
    document = parse_document(text, visit)
    matches = await service.query(scope, document, min(MAX_MATCHES, service.settings.max_top))
    entries = await service.run_in_thread(
        service.index.get_many, scope, [match.id for match in matches]
    )
    threshold = format_similarity(service.index.threshold)
    if not matches:
        note = (
            f"No document of this scope has a similarity of {threshold} or more. The document "
            "would be new."
        )
        misses = await _near_miss_articles(service, scope, document)
        return [html.H2("No match"), ui.note(note), *misses]
    kind = "document" if service.index.settings.postings == "all" else "representative"
    subject = f"{len(matches)} {kind}s are" if len(matches) > 1 else f"1 {kind} is"
    remark = " (more are not shown)" if len(matches) == MAX_MATCHES else ""
    articles = await service.run_overview(
        _match_articles, scope, matches, entries, document, service.index.banding.bands
    )
    misses = await _near_miss_articles(service, scope, document)
    return [html.H2(f"{subject} {threshold} similar or more{remark}"), *articles, *misses]


async def _near_miss_articles(service: Service, scope: str, document: Document) -> list[Component]:
    """Returns documents below the threshold beside the input, or nothing if there are none."""
    index = service.index
    misses = await service.run_overview(index.near_misses, scope, document, MAX_NEAR_MISSES)
    if not misses:
        return []
    entries = await service.run_in_thread(index.get_many, scope, [miss.id for miss in misses])
    articles = await service.run_overview(
        _match_articles, scope, misses, entries, document, index.banding.bands, is_match=False
    )
    threshold = format_similarity(index.threshold)
    note = (
        f"They share a bucket with the input, but are less similar than the threshold {threshold}."
    )
    return [html.H2("Near misses"), ui.note(note), *articles]


def parse_document(text: str, visit: Visit) -> Document:
    """Returns the input as a document of the index.

    Args:
        text: The input.
        visit: The current visit.

    Returns:
        The text or the vector.

    Raises:
        UsageError: If the index contains vectors, and the input is not a list of numbers.
        ProblemError: If it has more numbers than any vector.
    """
    if not visit.service.index.holds_vectors:
        return text
    check_json_shape(text.encode("utf-8", "replace"), QueryRequest.max_json_values)
    try:
        numbers = json.loads(text)
        return [float(number) for number in numbers]
    except (ValueError, TypeError) as error:
        raise UsageError(
            "the input is not a list of numbers; enter a vector such as [0.5, 1, -2.25]"
        ) from error


def _match_articles(
    scope: str,
    matches: Sequence[Match],
    entries: Sequence[Entry | None],
    document: Document,
    bands: int,
    *,
    is_match: bool = True,
) -> list[Component]:
    """Returns each match, or near miss, beside the input."""
    return [
        _match_article(scope, match, entry, document, bands, is_match=is_match)
        for match, entry in zip(matches, entries, strict=True)
    ]


def _match_article(
    scope: str,
    match: Match,
    entry: Entry | None,
    document: Document,
    bands: int,
    *,
    is_match: bool,
) -> Component:
    shared_bands = html.Span(f"{match.shared} of {bands} bands shared", className="size")
    title = html.H3(
        [ui.cluster_link(scope, match.id), ui.similarity_label(match.similarity), shared_bands]
    )
    if entry is None or entry.text is None or not isinstance(document, str):
        return html.Article([title])
    # the words of an input without a match are not lost
    texts = ui.side_by_side(
        ui.ShownText(
            "Stored", entry.text, DocumentRole.KEPT if is_match else DocumentRole.COMPARED
        ),
        ui.ShownText(
            "Input", document, DocumentRole.REMOVED if is_match else DocumentRole.COMPARED
        ),
        ui.equality_remark(match.similarity),
    )
    return html.Article([title, texts])


def connect(app: Dash) -> None:
    """Registers the callback of the button."""
    inputs = (
        Input("try-button", "n_clicks"),
        State("try-text", "value"),
        State("try-scope", "data"),
    )
    app.callback(Output("try-found", "children"), *inputs, prevent_initial_call=True)(_search)


PAGE = Page("try", "Search", "read", build, connect)
